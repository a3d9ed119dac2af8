"""Errors and warnings of the package. Most errors name the parameter that the caller has to change."""

import importlib.machinery
import json
import math
import shlex
import shutil
import sys
import warnings
from importlib import metadata
from pathlib import Path
from urllib.parse import unquote, urlsplit

LARGE_SIGMA = 2.0
"""A sigma above this is probably a mistake."""


class ParameterError(ValueError):
    """An error about the value of one parameter; `parameter` is its name in Python."""

    def __init__(self, message: str, parameter: str = "") -> None:
        super().__init__(message)
        self.parameter = parameter


class RunError(ParameterError):
    """The run directory cannot be used; the message says why."""


class RunWarning(UserWarning):
    """A warning about a run that does not stop the command."""


class MissingResourceError(ParameterError, LookupError):
    """A required object was not passed."""


class MissingExtraError(ParameterError, LookupError):
    """A package of an extra is not installed; the message ends with the command that installs it."""

    def __init__(self, message: str, extra: str, parameter: str = "") -> None:
        super().__init__(f"{message} Install it by: {install(extra)}", parameter)
        self.extra = extra


def install(extra: str) -> str:
    """Return the command that installs an extra into this environment.

    It takes radii from its present source: a checkout, a file, a repository or an index.
    """
    try:
        source = json.loads(metadata.distribution("radii").read_text("direct_url.json") or "{}")
    except (metadata.PackageNotFoundError, ValueError):
        source = {}
    url = str(source.get("url", ""))
    if "dir_info" in source:
        flags = ["-e"] if source["dir_info"].get("editable") else []
        return shlex.join([*_installer(), *flags, f"{unquote(urlsplit(url).path)}[{extra}]"])
    if "vcs_info" in source:
        url = f"{source['vcs_info'].get('vcs', 'git')}+{url}"
    return shlex.join([*_installer(), f"radii[{extra}] @ {url}" if url else f"radii[{extra}]"])


def _installer() -> list[str]:
    """Return the command that installs packages here: `pip` may belong to another environment, or be missing (uv)."""
    pip = shutil.which("pip")
    if pip is not None and Path(pip).absolute().is_relative_to(Path(sys.prefix).absolute()):
        return ["pip", "install"]
    if importlib.machinery.PathFinder.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip", "install"]
    return ["uv", "pip", "install", "--python", sys.executable]


def warn_of_sigma(sigma: float) -> None:
    """Warn about a sigma that is too large for pixels in [0, 1]."""
    if LARGE_SIGMA < sigma < math.inf:  # what is not finite is refused
        warnings.warn(
            f"sigma = {sigma:g} is far more noise than pixels in [0, 1] bear; 0.12 to 1 is usual. "
            f"If it was meant for pixels up to 255, state {sigma / 255:.3g}.",
            RunWarning,
            stacklevel=3,
        )
