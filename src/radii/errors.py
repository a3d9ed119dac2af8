"""Errors that the caller can fix; they name the parameter to change."""

import json
import shlex
from importlib import metadata
from urllib.parse import unquote, urlsplit


class ParameterError(ValueError):
    """An error about the value of one parameter; `parameter` is its name in Python."""

    def __init__(self, message: str, parameter: str = "") -> None:
        super().__init__(message)
        self.parameter = parameter


class RunWarning(UserWarning):
    """A warning about a run that does not stop the command."""


class MissingResourceError(ParameterError, LookupError):
    """A required object was not passed."""


def install(extra: str) -> str:
    """Return the command that installs an extra of radii where this radii came from: a checkout, a file or an index."""
    try:
        source = json.loads(metadata.distribution("radii").read_text("direct_url.json") or "{}")
    except (metadata.PackageNotFoundError, ValueError):
        source = {}
    url = str(source.get("url", ""))
    if "dir_info" in source:
        flags = ["-e"] if source["dir_info"].get("editable") else []
        return shlex.join(["pip", "install", *flags, f"{unquote(urlsplit(url).path)}[{extra}]"])
    if "vcs_info" in source:
        url = f"{source['vcs_info'].get('vcs', 'git')}+{url}"
    return shlex.join(["pip", "install", f"radii[{extra}] @ {url}" if url else f"radii[{extra}]"])
