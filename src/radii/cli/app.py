"""The application, its console, and how errors are reported."""

import sys
import tomllib
from typing import NoReturn

from cyclopts import App, CycloptsError
from rich.console import Console

from radii.errors import ParameterError
from radii.trust import UntrustedError

app = App(
    name="radii",
    help="Image classifiers whose answers carry a proof: certified l2 radii by randomized smoothing.",
)
console = Console(highlight=False)

HINTS = {
    "data": "name it with --data or RADII_DATA",
    "mean": "pass --mean and --std, such as 0.5,0.5,0.5",
    "run": "name another with --run",
    "size": "pass --size",
    "soft_labels": "pass --soft-labels FILE made by `radii soft-labels RUN`",
    "teacher": "pass --teacher RUN",
}
"""What the command line adds to an error about a parameter."""


def main() -> NoReturn:
    """Run the command line; an error that the user can fix is one sentence and a non-zero exit code."""
    try:
        app(sys.argv[1:], console=console, error_console=Console(stderr=True), exit_on_error=False, print_error=True)
    except CycloptsError:
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit("radii: stopped; the same command continues")
    except (ValueError, LookupError, OSError, tomllib.TOMLDecodeError) as error:
        print(f"radii: {in_words(error)}", file=sys.stderr)
        sys.exit(2)
    sys.exit(0)


def in_words(error: Exception) -> str:
    """An error as one sentence, with the flag that would fix it."""
    message = str(error.args[0] if isinstance(error, LookupError) and error.args else error)
    if isinstance(error, UntrustedError):
        return f"{message} with --trust {error.module}"
    hint = HINTS.get(error.parameter) if isinstance(error, ParameterError) else None
    return message if hint is None else f"{message}; {hint}"
