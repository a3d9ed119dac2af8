"""Types and parsers of command-line arguments."""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter, Token

from radii.runs import recipe as recipes

Data = Annotated[Path | None, Parameter(help="Folder with the dataset's files; RADII_DATA otherwise.")]
Json = Annotated[bool, Parameter(negative="", show_default=False, help="Print the answer as JSON, for a machine.")]
Settings = Annotated[
    list[str] | None,
    Parameter(
        name="--set",
        negative="",
        json_list=False,
        help="KEY=VALUE that overrides the recipe's or gives the certifier's fields.",
    ),
]
Overrides = Annotated[list[str] | None, Parameter(negative="", json_list=False)]
Trust = Annotated[
    list[str] | None,
    Parameter(
        negative="",
        json_list=False,
        help="A module whose code the run may use, for a run that was made elsewhere.",
    ),
]


def _whole(_: Any, tokens: Sequence[Token]) -> int:
    """A whole number as it was typed: another one, such as 0.9, would be rounded to a seed that nobody named."""
    try:
        return int(tokens[0].value)
    except ValueError as error:
        raise ValueError(f"{tokens[0].value!r} is no whole number") from error


Whole = Annotated[int, Parameter(converter=_whole)]


def parse_fields(settings: list[str] | None, radii: str | None = None) -> dict[str, Any]:
    """The fields of a certifier from KEY=VALUE settings and a list of radii."""
    fields = recipes.override({}, settings or [])
    return fields if radii is None else {**fields, "radii": parse_numbers("--radii", radii)}


def parse_numbers(flag: str, text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError as error:
        raise ValueError(f"{flag} {text!r}: expected numbers separated by commas, such as 0,0.25,0.5") from error


def command(*words: object, **options: Any) -> str:
    """A command line that can be pasted; options that are None or False are left out."""
    parts = ["radii", *map(str, words)]
    for name, value in options.items():
        flag = f"--{name.strip('_').replace('_', '-')}"
        if value is True:
            parts.append(flag)
        elif isinstance(value, list):
            parts += [part for each in value for part in (flag, str(each))]
        elif value is not None and value is not False:
            parts += [flag, str(value)]
    return shlex.join(parts)
