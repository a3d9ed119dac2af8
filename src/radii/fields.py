"""Dataclass fields that know their range, and strict construction from plain data."""

import difflib
import math
import operator
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, Field, field, fields
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints


def option(
    default: Any = MISSING,
    *,
    least: float | None = None,
    most: float | None = None,
    above: float | None = None,
    below: float | None = None,
    choices: tuple[str, ...] | None = None,
) -> Any:
    """A dataclass field whose value `check` holds to a range or a set of choices."""
    limits = {"least": least, "most": most, "above": above, "below": below, "choices": choices}
    return field(default=default, metadata=limits)


def resource() -> Any:
    """A field that the caller hands over as an object; a recipe never states it."""
    return field(default=None, repr=False, metadata={"resource": True})


def settings_of(kind: type) -> list[Field[Any]]:
    """The fields of a dataclass that a recipe may state."""
    return [f for f in fields(kind) if f.init and not f.metadata.get("resource")]


def check(instance: Any, what: str) -> None:
    """Raise a ValueError that names the first field whose value is of the wrong kind or out of range."""
    hints = get_type_hints(type(instance))
    for f in settings_of(type(instance)):
        value = getattr(instance, f.name)
        if problem := _kind_problem(value, hints[f.name]) or _range_problem(value, f.metadata):
            raise ValueError(f"{what}: {f.name} = {value!r}, expected {problem}")


def build(kind: type, values: Mapping[str, Any], what: str, **resources: Any) -> Any:
    """Make a dataclass from a mapping; a key that it does not have, or lacks, is an error that says which was meant."""
    known = {f.name: f for f in settings_of(kind)}
    for key in values:
        if key not in known:
            raise LookupError(f"{what} has no field {key!r}{meant(key, known)}")
    for f in known.values():
        if f.default is MISSING and f.default_factory is MISSING and f.name not in values:
            raise LookupError(f"{what} needs the field {f.name!r}: state it")
    return kind(**values, **resources)


def meant(word: str, known: Iterable[str]) -> str:
    """The end of an error sentence: the nearest known word, or all of them."""
    known = list(known)
    near = difflib.get_close_matches(word, known, n=1)
    return f"; did you mean {near[0]!r}?" if near else f"; expected one of: {', '.join(known)}"


def _kind_problem(value: Any, hint: Any) -> str:
    if get_origin(hint) is tuple:
        if not isinstance(value, tuple):
            return "a list"
        problems = (_kind_problem(item, get_args(hint)[0]) for item in value)
        return f"a list, each {problem}" if (problem := next(filter(None, problems), "")) else ""
    kinds = get_args(hint) if get_origin(hint) is UnionType else (hint,)
    if value is None and NoneType in kinds:
        return ""
    if float in kinds or int in kinds:
        return _number_problem(value, kinds)
    if str in kinds and not isinstance(value, str):
        return "a text"
    return "true or false" if bool in kinds and not isinstance(value, bool) else ""


def _number_problem(value: Any, kinds: tuple[type, ...]) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "a number"
    if not math.isfinite(value):
        return "a finite number"
    return "a whole number" if float not in kinds and not isinstance(value, int) else ""


_COMPARISONS = [
    ("least", ">=", operator.ge),
    ("above", ">", operator.gt),
    ("most", "<=", operator.le),
    ("below", "<", operator.lt),
]


def _range_problem(value: Any, limits: Mapping[str, Any]) -> str:
    if (choices := limits.get("choices")) and value not in choices:
        return f"one of {', '.join(map(repr, choices))}"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return ""
    stated = [(limit, sign, holds) for name, sign, holds in _COMPARISONS if (limit := limits.get(name)) is not None]
    if all(holds(value, limit) for limit, _, holds in stated):
        return ""
    return "a number " + " and ".join(f"{sign} {limit:g}" for limit, sign, _ in stated)
