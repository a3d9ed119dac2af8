"""Declare fields with ranges, make objects from tables with checks, and describe how tables differ."""

import dataclasses
import difflib
import inspect
import math
import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, field
from types import NoneType, UnionType
from typing import Annotated, Any, NamedTuple, get_args, get_origin, get_type_hints

MOST_NAMED = 30
"""The number of known names that an error lists."""


class Setting(NamedTuple):
    """A field that a recipe may state."""

    name: str
    hint: Any
    default: Any
    """MISSING if the field is required."""
    limits: Mapping[str, Any]


def option(
    default: Any = MISSING,
    *,
    ge: float | None = None,
    le: float | None = None,
    gt: float | None = None,
    lt: float | None = None,
    choices: tuple[str, ...] | None = None,
) -> Any:
    """Declare a dataclass field with a range or a set of choices, which `check` enforces."""
    return field(default=default, metadata={"ge": ge, "le": le, "gt": gt, "lt": lt, "choices": choices})


def resource() -> Any:
    """Declare a field for an object that the caller passes; a recipe never states it."""
    return field(default=None, repr=False, metadata={"resource": True})


def settings_of(kind: Callable[..., Any], given: Iterable[str] = ()) -> list[Setting]:
    """Return the fields of a dataclass, or the parameters of a factory except those in `given`.

    The range of a factory's parameter is stated as Annotated[int, {"ge": 1}].
    """
    if dataclasses.is_dataclass(kind):
        hints = get_type_hints(kind)
        return [
            Setting(f.name, hints[f.name], _default(f), f.metadata)
            for f in dataclasses.fields(kind)
            if f.init and not f.metadata.get("resource")
        ]
    try:
        hints = get_type_hints(kind.__init__ if inspect.isclass(kind) else kind, include_extras=True)
    except (NameError, TypeError):  # types of a user's factory may exist for a type checker only
        hints = {}
    return [
        _parameter(p, hints.get(p.name, Any))
        for p in inspect.signature(kind).parameters.values()
        if p.name not in given and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    ]


def _default(field: dataclasses.Field[Any]) -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()


def _parameter(parameter: inspect.Parameter, hint: Any) -> Setting:
    limits = next((extra for extra in get_args(hint)[1:] if isinstance(extra, Mapping)), {})
    plain = get_args(hint)[0] if get_origin(hint) is Annotated else hint
    default = MISSING if parameter.default is parameter.empty else parameter.default
    return Setting(parameter.name, plain, default, limits if get_origin(hint) is Annotated else {})


ALSO = ". Also: "
"""Joins the errors of one table, which are raised together."""


def check(instance: Any, what: str) -> None:
    """Raise a ValueError that names all fields whose values are of the wrong type or out of range."""
    problems = [_problem(setting, getattr(instance, setting.name), what) for setting in settings_of(type(instance))]
    if problems := list(filter(None, problems)):
        raise ValueError(ALSO.join(problems))


def check_value(setting: Setting, value: Any, what: str) -> None:
    """Raise a ValueError if a field's value is of the wrong type or out of range."""
    if problem := _problem(setting, value, what):
        raise ValueError(problem)


def _problem(setting: Setting, value: Any, what: str) -> str:
    problem = _kind_problem(value, setting.hint) or _range_problem(value, setting.limits)
    return f"{what}: {setting.name} = {value!r}, expected {problem}" if problem else ""


def takes_any(kind: Callable[..., Any]) -> bool:
    """Return whether a factory has a parameter **kwargs: fields that it does not name pass through."""
    if dataclasses.is_dataclass(kind):
        return False
    return any(p.kind is p.VAR_KEYWORD for p in inspect.signature(kind).parameters.values())


def expect_known(settings: Iterable[Setting], values: Mapping[str, Any], what: str, *, any_key: bool = False) -> None:
    """Raise a LookupError that names all missing fields and, unless `any_key` is allowed, all unknown keys."""
    known = {setting.name: setting for setting in settings}
    unknown = [key for key in values if key not in known and not any_key]
    problems = [
        *(f"{what} has no field {key!r}{did_you_mean(key, known)}" for key in unknown),
        *(
            f"{what} needs the field {setting.name!r}: state it"
            for setting in known.values()
            if setting.default is MISSING and setting.name not in values
        ),
    ]
    if problems:
        raise LookupError(ALSO.join(problems))


def from_mapping(kind: Callable[..., Any], values: Mapping[str, Any], what: str, **given: Any) -> Any:
    """Call a dataclass or factory with the fields of a table and the objects in `given`.

    A missing key is an error, and so is an unknown one unless the factory has **kwargs. A factory's values are checked
    here; a dataclass checks its own.
    """
    settings = settings_of(kind, given)
    expect_known(settings, values, what, any_key=takes_any(kind))
    if not dataclasses.is_dataclass(kind):
        for setting in settings:
            if setting.name in values:
                check_value(setting, values[setting.name], what)
    return kind(**values, **given)


def stated(kind: Callable[..., Any], values: Mapping[str, Any], given: Iterable[str] = ()) -> dict[str, Any]:
    """Return every field with its value or default; leave out defaults that are not plain data."""
    table = {setting.name: values.get(setting.name, setting.default) for setting in settings_of(kind, given)}
    table |= values if takes_any(kind) else {}
    plain = (str, int, float, list, tuple, Mapping)
    return {name: value for name, value in table.items() if isinstance(value, plain)}


def check_seed(seed: int) -> int:
    """Return a seed of at most 128 bits; raise a ValueError for a longer one, which no header could hold."""
    if not 0 <= seed < 1 << 128:
        raise ValueError(f"seed = {str(seed)[:40]}, expected a whole number >= 0, of 128 bits at most")
    return seed


def first_difference(theirs: Mapping[str, Any], ours: Mapping[str, Any], table: str = "") -> str:
    """Describe the first field in which two tables differ as "name = theirs, not ours"; empty if there is none."""
    for key in dict.fromkeys((*theirs, *ours)):
        a, b = theirs.get(key), ours.get(key)
        if a != b and isinstance(a, Mapping) and isinstance(b, Mapping):
            return first_difference(a, b, f"{table}{key}.")
        if a != b:
            return f"{table}{key} = {a!r}, not {b!r}"
    return ""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return the end of an error about an unknown word: the nearest known one, or all of them."""
    known = list(known)
    near = difflib.get_close_matches(word, known, n=1)
    if near:
        return f"; did you mean {near[0]!r}?"
    more = f", and {len(known) - MOST_NAMED} more" if len(known) > MOST_NAMED else ""
    quoted = any("," in name for name in known)
    shown = [repr(name) if quoted else name for name in known[:MOST_NAMED]]
    return f"; expected one of: {', '.join(shown)}{more}" if known else "; it has none"


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
        return "a string"
    return "true or false" if bool in kinds and not isinstance(value, bool) else ""


def _number_problem(value: Any, kinds: tuple[type, ...]) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "a number"
    if not math.isfinite(value):
        return "a finite number"
    return "a whole number" if float not in kinds and not isinstance(value, int) else ""


_COMPARISONS = [
    ("ge", ">=", operator.ge),
    ("gt", ">", operator.gt),
    ("le", "<=", operator.le),
    ("lt", "<", operator.lt),
]


def _range_problem(value: Any, limits: Mapping[str, Any]) -> str:
    if (choices := limits.get("choices")) and value is not None and value not in choices:
        return f"one of {', '.join(map(repr, choices))}"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return ""
    stated = [(limit, sign, holds) for name, sign, holds in _COMPARISONS if (limit := limits.get(name)) is not None]
    if all(holds(value, limit) for limit, _, holds in stated):
        return ""
    return "a number " + " and ".join(f"{sign} {limit:g}" for limit, sign, _ in stated)
