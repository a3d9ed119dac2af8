"""The application: its console, its errors, its exit codes, and its processes under torchrun."""

import json
import os
import signal
import sys
import tomllib
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from contextvars import ContextVar
from pathlib import Path
from typing import Annotated, Any, NoReturn

from cyclopts import App, CycloptsError, Parameter
from cyclopts.exceptions import MissingArgumentError, UnusedCliTokensError
from rich.console import Console

from radii.errors import ParameterError, RunWarning
from radii.reports.text import plain
from radii.runs.trust import UntrustedError

app = App(
    name="radii",
    help="Image classifiers whose answers carry a proof: certified l2 radii by randomized smoothing.",
    suppress_keyboard_interrupt=False,
)
app.meta.register_install_completion_command()
app.meta.suppress_keyboard_interrupt = False
console = Console(highlight=False, emoji=False)
"""Prints progress and hints; silent with --quiet."""
answers = Console(highlight=False, emoji=False)
"""Prints what the user asked for."""

STDIN = "/dev/stdin"
_PLANNED: ContextVar[Sequence[str] | None] = ContextVar("planned", default=None)
"""The words of the command that a plan runs."""

FLAGS = {
    "device": "name one with --device or RADII_DEVICE",
    "data": "name it with --data or RADII_DATA",
    "grey": "or take it as it is with --grey",
    "mean": "pass --mean and --std, a number for each channel",
    "run": "name another with --run",
    "size": "pass --size",
    "soft_labels": "pass --soft-labels FILE made by `radii soft-labels RUN`",
    "teacher": "pass --teacher RUN",
    "teacher_run": "name another with --teacher",
    "workers": "say how many with --workers",
}
"""The advice added to an error about a parameter, by the parameter's name in Python."""


def say(text: str) -> None:
    """Print one line of an answer. Control characters in it are escaped."""
    answers.print(plain(text), soft_wrap=True, markup=False, emoji=False)


def say_lines(text: str) -> None:
    """Print the lines of an answer."""
    for line in text.splitlines():
        say(line)


def say_json(answer: Any) -> None:
    """Print an answer as one line of JSON."""
    answers.print(json.dumps(answer), soft_wrap=True, markup=False, emoji=False)


def hint(text: str) -> None:
    """Print one line that is not part of the answer, unless --quiet was given."""
    console.print(plain(text), soft_wrap=True, markup=False, emoji=False)


def suggest(text: str) -> None:
    """Suggest the next command, unless a plan runs this one."""
    if _PLANNED.get() is None:
        hint(text)


def typed() -> list[str]:
    """Return the words of the present command: those typed, or those of the step of a plan."""
    planned = _PLANNED.get()
    return list(sys.argv[1:] if planned is None else planned)


def run_planned(words: Sequence[str]) -> None:
    """Run a command of a plan in this process, exactly as if it were typed."""
    token = _PLANNED.set(words)
    try:
        app(list(words), console=answers, exit_on_error=False, print_error=False, result_action="return_value")
    finally:
        _PLANNED.reset(token)


def print_error(text: str) -> None:
    """Print an error or a warning to stderr."""
    print(f"radii: {text}", file=sys.stderr)


@contextmanager
def printed_warnings() -> Iterator[None]:
    """Print warnings about a run to stderr, one line each, without the location in the code."""
    with warnings.catch_warnings():
        show_other = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
            if issubclass(category, RunWarning):
                print_error(str(message))
            else:
                show_other(message, category, *place, **more)

        warnings.simplefilter("always", RunWarning)
        warnings.showwarning = show
        yield


def in_words(error: Exception) -> str:
    """Return an error as one line, with the flag that would fix it."""
    message = str(error.args[0] if isinstance(error, LookupError) and error.args else error)
    # A name in a file may contain control characters, which a terminal would obey.
    message = "".join(letter if letter.isprintable() else "?" for letter in " ".join(message.split()))
    if isinstance(error, UntrustedError):
        return f"{message} with --trust {error.module}"  # the message ends with "trust it"
    advice = FLAGS.get(error.parameter) if isinstance(error, ParameterError) else None
    if advice is None:
        return message
    return f"{message} {advice[0].upper()}{advice[1:]}." if message.endswith(".") else f"{message}; {advice}"


class Terminated(KeyboardInterrupt):
    """Raised at SIGTERM, which stops a command as Ctrl-C does."""


def main() -> NoReturn:
    """Run the command line, alone or as one of the processes that torchrun started."""
    with _torchrun_process():
        _main()


def _main() -> NoReturn:
    """Run the command line. An error that the user can fix is one line on stderr and exit code 2."""
    # - stands for stdin; cyclopts would read it as an option.
    arguments = [STDIN if argument == "-" else argument for argument in sys.argv[1:]]
    if not any(argument in app for argument in arguments if not argument.startswith("-")):
        app.resolved_commands()  # without a verb, help shows what each verb does
    try:
        with _sigterm_raises():
            app.meta(arguments, console=answers, exit_on_error=False, print_error=False)
    except CycloptsError as error:
        print_error(_usage(error))
        sys.exit(2)
    except KeyboardInterrupt as stopped:
        if is_rank_0():
            print_error("stopped; the same command continues")
        sys.exit(128 + (signal.SIGTERM if isinstance(stopped, Terminated) else signal.SIGINT))
    except (ValueError, LookupError, OSError, tomllib.TOMLDecodeError) as error:
        print_error(in_words(error))
        sys.exit(2)
    except MemoryError:
        print_error("the memory is not enough: use fewer workers or a smaller batch, or check what is so large")
        sys.exit(2)
    sys.exit(0)


@app.meta.default
def launch(
    *tokens: Annotated[str, Parameter(show=False, allow_leading_hyphen=True, json_list=False)],
    quiet: Annotated[bool, Parameter(name=["--quiet", "-q"], negative="", show_default=False)] = False,
    device: str | None = None,
) -> None:
    """Run a command.

    Args:
        quiet: Print answers and errors only: no progress, no hints.
        device: Run on cpu, cuda, cuda:1 or mps; by default RADII_DEVICE, or a GPU if there is one.
    """
    console.quiet = quiet
    with _on_device(device):
        app(tokens, console=answers, exit_on_error=False, print_error=False, result_action="return_value")


@contextmanager
def _on_device(device: str | None) -> Iterator[None]:
    """Run on a device, in worker processes too; raise an error if there is no such device."""
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
    """Format an error of cyclopts in the style of the other errors."""
    if isinstance(error, UnusedCliTokensError):
        return f"too many arguments: {' '.join(error.unused_tokens or ())} is not expected"
    words = " ".join(str(error).split()).rstrip(".")
    if isinstance(error, MissingArgumentError) and error.argument is not None and words.endswith("an argument"):
        verb = " ".join(["radii", *(error.command_chain or ())])
        what = f"a value after {error.keyword}" if error.keyword else error.argument.name
        return f"`{verb}` needs {what}. `{verb} --help` says what it takes."
    return words[:1].lower() + words[1:]


@contextmanager
def _sigterm_raises() -> Iterator[None]:
    """Turn SIGTERM into an exception, so that running work is saved before the process ends."""

    def terminate(*_: object) -> NoReturn:
        raise Terminated

    before = signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def is_rank_0() -> bool:
    """Return whether this process shows progress and results: rank 0 under torchrun, any other process otherwise."""
    return not _is_under_torchrun() or os.environ.get("RANK", "0") == "0"


def _is_under_torchrun() -> bool:
    return "TORCHELASTIC_RUN_ID" in os.environ and os.environ.get("WORLD_SIZE", "1") != "1"


@contextmanager
def _torchrun_process() -> Iterator[None]:
    """Under torchrun, let only rank 0 print, and end the process at once.

    torch may abort a process that shuts down after distributed training, though all its work is done. After an error,
    ending at once also closes the connections, so that the other processes end as well.
    """
    if not _is_under_torchrun():
        yield
        return
    # torchrun signals every process. One that another rank has stopped already gets its signal late: ignore it.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        with Path(os.devnull).open("w") as nowhere, redirect_stdout(sys.stdout if is_rank_0() else nowhere):
            yield
    except SystemExit as ended:
        _end_process(ended.code if isinstance(ended.code, int) else 1)
    except BaseException:
        traceback.print_exc()
        _end_process(1)


def _end_process(code: int) -> NoReturn:
    if code == 0:
        from radii.training.ddp import leave_world

        leave_world()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
