"""Types, parsers and checks of command-line arguments that several verbs share."""

import math
import shlex
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter, Token

from radii.runs import recipe as recipes

OPTIONS = Parameter(name="*")
"""Marks a dataclass whose fields are options of a verb."""
Data = Annotated[Path | None, Parameter(help="The folder with the dataset's files; by default RADII_DATA.")]

Switch = Annotated[bool, Parameter(negative="", show_default=False)]
Json = Annotated[Switch, Parameter(help="Print the answer as JSON.")]
Strings = Annotated[list[str] | None, Parameter(negative="", json_list=False)]
LOG = "answers.jsonl"
"""The file by which a folder of evidence is known."""
RUN_FLAGS = ("--run", "--into")
"""Two spellings of one flag: torchrun takes `--run` for an option of its own."""
Settings = Annotated[Strings, Parameter(name="--set", help="KEY=VALUE: override a key of the recipe.")]
Fields = Annotated[Strings, Parameter(name="--set", help="KEY=VALUE: set a field of the certifier.")]
Trust = Annotated[Strings, Parameter(help="Allow the run to use this module's code, if the run was made elsewhere.")]
Minutes = Annotated[
    float | None,
    Parameter(help="Train for about so long, instead of the recipe's epochs. The run records the steps that this is."),
]
WithinMinutes = Annotated[
    float | None,
    Parameter(help="Take about so long: fewer images, spread over the test set. The file records which."),
]
Cluster = Annotated[
    str | None,
    Parameter(help="Compute on the workers of the Dask scheduler at this address, such as tcp://host:8786."),
]


def _whole(_: Any, tokens: Sequence[Token]) -> int:
    """Parse a whole number. cyclopts alone would round 0.9 to a seed that the user did not choose."""
    try:
        return int(tokens[0].value)
    except ValueError as error:
        raise ValueError(f"{tokens[0].value!r} is not a whole number") from error


Whole = Annotated[int, Parameter(converter=_whole)]
Seed = Annotated[Whole, Parameter(help="The seed of the noise. Choose it before you know any result.")]
Engine = Annotated[
    str,
    Parameter(
        help="The engine that runs the forward passes. auto takes the one that the run was certified with, or else the "
        "fastest that is installed."
    ),
]
BatchSize = Annotated[
    Whole | None,
    Parameter(
        help="The noisy copies of a forward pass, on which the draws do not depend; by default as many as suit the "
        "device."
    ),
]
Workers = Annotated[
    Whole | None,
    Parameter(help="The number of processes, of one thread each; by default one per core or per GPU."),
]


def parse_fields(settings: list[str] | None, radii: str | None = None) -> dict[str, Any]:
    """Return the fields of a certifier from KEY=VALUE settings and a list of radii."""
    fields = recipes.apply_settings({}, settings or [])
    return fields if radii is None else {**fields, "radii": parse_numbers("--radii", radii)}


def parse_numbers(flag: str, text: str) -> tuple[float, ...]:
    """Parse numbers separated by commas."""
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError as error:
        raise ValueError(f"{flag} {text!r}: expected numbers separated by commas, such as 0,0.25,0.5") from error


def command(*words: object, **options: Any) -> str:
    """Return a command line to paste into a shell, without the options that are None or False."""
    parts = ["radii", *map(str, words)]
    for name, value in options.items():
        flag = flag_of(name)
        if value is True:
            parts.append(flag)
        elif isinstance(value, list):
            parts += [part for item in value for part in (flag, str(item))]
        elif value is not None and value is not False:
            parts += [flag, str(value)]
    return shlex.join(parts)


def check_minutes(minutes: float | None, settings: Sequence[str]) -> None:
    """Refuse minutes that are not positive, or that are combined with settings for the length of training."""
    if minutes is None:
        return
    if not 0 < minutes < math.inf:
        raise ValueError(f"--minutes {minutes:g}: expected a number above 0.")
    lengths = tuple(f"training.{name}" for name in recipes.LENGTHS)
    if stated := [setting for setting in settings if setting.partition("=")[0].strip() in lengths]:
        raise ValueError(f"--minutes and --set {stated[0]} both state how long to train. Leave out one.")


def flag_of(parameter: str) -> str:
    """Return the flag of a parameter of a verb, such as --without-labels for without_labels."""
    return f"--{parameter.strip('_').replace('_', '-')}"


def stated_options(options: Any) -> dict[str, Any]:
    """Return the values that differ from their defaults, by flag; `options` may hold other dataclasses."""
    stated: dict[str, Any] = {}
    for field in fields(options):
        value = getattr(options, field.name)
        if is_dataclass(value):
            stated |= stated_options(value)
        elif value != field.default:
            stated[flag_of(field.name)] = value
    return stated


def refuse_others(options: Any, flags: Sequence[str], mode: str) -> None:
    """Refuse options that a mode of a verb would ignore: all but these flags."""
    if ignored := [flag for flag in stated_options(options) if flag not in flags]:
        raise ValueError(f"{ignored[0]} cannot be combined with {mode}. Leave it out.")


@contextmanager
def executor_at(cluster: str | None, workers: int | None) -> Iterator[Executor | None]:
    """Connect to a cluster, if one is named; then this machine runs no workers."""
    if cluster is None:
        yield None
        return
    if workers is not None:
        raise ValueError(f"--workers {workers} and --cluster {cluster} are mutually exclusive. Leave out one.")
    from radii.workers.cluster import cluster_executor

    with cluster_executor(cluster) as executor:
        yield executor
