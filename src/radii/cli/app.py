"""The application, its console, and how errors are reported."""

import json
import os
import signal
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, NoReturn

from cyclopts import App, CycloptsError, Parameter
from cyclopts.exceptions import UnusedCliTokensError
from rich.console import Console

from radii.cli.launched import ending_as_launched, is_first
from radii.errors import ParameterError
from radii.report.text import plain
from radii.runs.trust import UntrustedError

app = App(
    name="radii",
    help="Image classifiers whose answers carry a proof: certified l2 radii by randomized smoothing.",
    suppress_keyboard_interrupt=False,
)
app.meta.register_install_completion_command()
console = Console(highlight=False, emoji=False)
"""Progress and hints: silent with --quiet."""
answers = Console(highlight=False, emoji=False)
"""What a command was asked for."""

STDIN = "/dev/stdin"

HINTS = {
    "device": "name one with --device or RADII_DEVICE",
    "data": "name it with --data or RADII_DATA",
    "mean": "pass --mean and --std, such as 0.5,0.5,0.5",
    "run": "name another with --run",
    "size": "pass --size",
    "soft_labels": "pass --soft-labels FILE made by `radii soft-labels RUN`",
    "teacher": "pass --teacher RUN",
    "teacher_run": "name another with --teacher",
    "workers": "say how many with --workers",
}
"""What the command line adds to an error about a parameter."""


def say(text: str) -> None:
    """Print one line of an answer; text of files cannot move the cursor."""
    answers.print(plain(text), soft_wrap=True, markup=False, emoji=False)


def say_json(facts: Any) -> None:
    """Print an answer as one line of JSON."""
    answers.print(json.dumps(facts), soft_wrap=True, markup=False, emoji=False)


def hint(text: str) -> None:
    """Print one line beside the answer, unless --quiet was said."""
    console.print(plain(text), soft_wrap=True, markup=False, emoji=False)


class Terminated(KeyboardInterrupt):
    """SIGTERM came: it ends a command as Ctrl-C does."""


def main() -> NoReturn:
    """Run the command line, alone or as one of the processes that torchrun started."""
    with ending_as_launched():
        _main()


def _main() -> NoReturn:
    """Run the command line; an error that the user can fix is one sentence and a non-zero exit code."""
    try:
        with _terminable():
            app.meta(_arguments(), console=answers, exit_on_error=False, print_error=False)
    except CycloptsError as error:
        print(f"radii: {_usage(error)}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt as stopped:
        if is_first():
            print("radii: stopped; the same command continues", file=sys.stderr)
        sys.exit(128 + (signal.SIGTERM if isinstance(stopped, Terminated) else signal.SIGINT))
    except (ValueError, LookupError, OSError, tomllib.TOMLDecodeError) as error:
        print(f"radii: {in_words(error)}", file=sys.stderr)
        sys.exit(2)
    sys.exit(0)


def _arguments() -> list[str]:
    """What was typed; - stands for stdin, and would be taken for an option."""
    return [STDIN if each == "-" else each for each in sys.argv[1:]]


app.meta.suppress_keyboard_interrupt = False


@app.meta.default
def launch(
    *tokens: Annotated[str, Parameter(show=False, allow_leading_hyphen=True, json_list=False)],
    quiet: Annotated[bool, Parameter(name=["--quiet", "-q"], negative="", show_default=False)] = False,
    device: str | None = None,
) -> None:
    """Run a command.

    Args:
        quiet: Print answers and errors only: no progress, no hints.
        device: cpu, cuda, cuda:1 or mps; RADII_DEVICE otherwise, or a GPU where there is one.
    """
    console.quiet = quiet
    with _on(device):
        app(tokens, console=answers, exit_on_error=False, print_error=False, result_action="return_value")


@contextmanager
def _on(device: str | None) -> Iterator[None]:
    """Have everything, worker processes too, run on a device; one that is not there is an error."""
    if device is None:
        yield
        return
    from radii.device import VARIABLE, default_device

    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = device
    try:
        default_device()
        yield
    finally:
        os.environ.pop(VARIABLE)
        os.environ.update({} if before is None else {VARIABLE: before})


def _usage(error: CycloptsError) -> str:
    """What is wrong with a command line, as one sentence in the style of the other errors."""
    if isinstance(error, UnusedCliTokensError):
        return f"too many arguments: {' '.join(error.unused_tokens or ())} is not expected"
    words = " ".join(str(error).split()).rstrip(".")
    return words[:1].lower() + words[1:]


@contextmanager
def _terminable() -> Iterator[None]:
    """Have SIGTERM unwind what is running, so that it can be saved, instead of ending the process where it is."""
    before = signal.signal(signal.SIGTERM, _terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _terminate(*_: object) -> NoReturn:
    raise Terminated


def in_words(error: Exception) -> str:
    """An error as one sentence, with the flag that would fix it."""
    message = str(error.args[0] if isinstance(error, LookupError) and error.args else error)
    # A name in a file may hold what a terminal would obey.
    message = "".join(letter if letter.isprintable() else "?" for letter in " ".join(message.split()))
    if isinstance(error, UntrustedError):
        return f"{message} with --trust {error.module}"
    hint = HINTS.get(error.parameter) if isinstance(error, ParameterError) else None
    return message if hint is None else f"{message}; {hint}"
