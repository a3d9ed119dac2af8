"""A table of a paper: the numbers that it reports, and what would make each row again; strict TOML in tables/."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

from radii.fields import check, did_you_mean, from_mapping, option
from radii.published_datasets import KINDS as CORRUPTED
from radii.runs import readers, recipe
from radii.runs.recipe import PACKAGE, Recipe

KINDS = ("certified", "spread", "time", "settings", "corruptions")
BUDGETS = "budgets"
"""The file of tables/ that is no table."""
SYSTEM = ("recipe", "settings", "teacher", "soft_labels")
Reported = Decimal | int | str
"""A cell as the paper prints it, with its digits."""


class TableError(ValueError):
    """A table file that cannot be used, or a name of none; the message says why."""


@dataclass(frozen=True, kw_only=True)
class System:
    """How a model is trained: a recipe with settings, and the systems that it learns from."""

    recipe: str
    settings: tuple[str, ...] = ()
    teacher: "System | None" = None
    soft_labels: "System | None" = None
    """The system whose votes are the soft labels of CAT-RS."""

    def read(self) -> Recipe:
        return recipe.read(recipe.find(self.recipe), self.settings)

    def sources(self) -> dict[str, "System"]:
        """The systems that have to be trained before, by what they are for."""
        found = {"teacher": self.teacher, "soft_labels": self.soft_labels}
        return {key: system for key, system in found.items() if system is not None}


@dataclass(frozen=True, kw_only=True)
class Row:
    """A row of a table: what was trained, and what the paper reports of it."""

    label: str
    reported: Mapping[str, Reported]
    sigma: float | None = None
    series: str = ""
    """The rows of a sweep that belong together."""
    system: System | None = None
    fields: Mapping[str, str] = field(default_factory=dict)
    """For a table of settings: the field of the recipe that a column is about."""
    note: str = ""
    status: str = option("", choices=("", "missing"))
    why: str = ""
    """Why the row cannot be made, where it is missing."""

    def __post_init__(self) -> None:
        check(self, f"row {self.label!r}")
        if (self.status == "missing") != bool(self.why):
            raise ValueError(f"row {self.label!r}: status = 'missing' and why belong together")
        if self.system is None and not self.why:
            raise ValueError(f"row {self.label!r} needs a recipe, or status = 'missing' and why")

    @property
    def trainable(self) -> System | None:
        """What to train for this row; none where that cannot be done."""
        return None if self.why else self.system


@dataclass(frozen=True, kw_only=True)
class PaperTable:
    """A table of a paper."""

    name: str
    title: str
    source: str
    kind: str = option(choices=KINDS)
    dataset: tuple[str, ...]
    images: str = ""
    unit: str
    percent: bool = True
    """Whether certified accuracies are printed in per cent; as shares of 1 otherwise."""
    sigma: tuple[float, ...]
    radii: tuple[float, ...] = ()
    seeds: int = option(1, ge=1)
    """How many trainings a reported number is the mean of."""
    varies: tuple[str, ...] = ()
    """The hyper-parameters that the rows differ in; no budget changes them."""
    teacher_time: bool = False
    """Whether the reported times include the teacher's."""
    baseline: System | None = None
    """What a slow-down is relative to."""
    notes: tuple[str, ...] = ()
    mended: tuple[str, ...] = ()
    """What the transcription had to mend."""
    uncertain: tuple[str, ...] = ()
    rows: tuple[Row, ...]

    def __post_init__(self) -> None:
        check(self, "the table")
        if self.kind == "corruptions" and self.dataset[0] not in CORRUPTED:
            raise ValueError(f"dataset = {self.dataset[0]!r}, expected one of {', '.join(CORRUPTED)} for corruptions")
        labels = [row.label for row in self.rows]
        if twice := {label for label in labels if labels.count(label) > 1}:
            raise ValueError(f"two rows are labelled {min(twice)!r}: labels name rows, state each once")

    def columns(self) -> list[str]:
        """The names of the reported cells, in the order of the rows that have them."""
        return list(dict.fromkeys(column for row in self.rows for column in row.reported))

    def row(self, label: str) -> Row:
        """The row of this label, or the one whose label contains it."""
        exact = [row for row in self.rows if row.label == label]
        found = exact or [row for row in self.rows if label.casefold() in row.label.casefold()]
        if len(found) == 1:
            return found[0]
        if found:
            raise TableError(f"{len(found)} rows of {self.name} have {label!r} in their labels: {_quoted(found)}")
        known = did_you_mean(label, [row.label for row in self.rows])
        raise TableError(f"{self.name} has no row {label!r}{known}")


def _quoted(rows: list[Row]) -> str:
    return ", ".join(repr(row.label) for row in rows)


def folder() -> Path:
    """The folder of the tables: inside an installed package, or beside the source."""
    inside = PACKAGE / "tables"
    return inside if inside.is_dir() else PACKAGE.parents[1] / "tables"


def names() -> list[str]:
    """The tables, such as crt-2, by paper and number."""
    found = [path.stem for path in folder().glob("*.toml") if path.stem != BUDGETS]
    return sorted(found, key=lambda name: (name.rpartition("-")[0], int(name.rpartition("-")[2])))


def find(name: Path | str) -> Path:
    """A table file by its path, or by the name of a shipped one."""
    path = Path(name)
    if path.suffix == ".toml":
        return path
    if (known := str(name).casefold()) not in names():
        raise TableError(f"there is no table {str(name)!r}{did_you_mean(known, names())}")
    return folder() / f"{known}.toml"


def read(path: Path) -> PaperTable:
    """Read a table file; an unknown key is an error that suggests the nearest known one."""
    try:
        values = _plain(tomllib.loads(readers.text(path), parse_float=Decimal))
        return _table(values, path.stem)
    except OSError as error:
        raise TableError(f"cannot read the table {path}: {error.strerror}; `radii table` names them") from error
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        reason = error.args[0] if error.args else type(error).__name__
        raise TableError(f"{path}: {readers.short(reason, 1000)}") from error


def _plain(value: Any) -> Any:
    """Lists as tuples, however deep."""
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    return tuple(map(_plain, value)) if isinstance(value, list) else value


def _table(values: dict[str, Any], name: str) -> PaperTable:
    numbers: dict[str, Any] = {key: tuple(map(float, values[key])) for key in ("sigma", "radii") if key in values}
    systems = {"baseline": _system(values["baseline"], "baseline")} if "baseline" in values else {}
    dataset = values.get("dataset")
    named = {"dataset": (dataset,) if isinstance(dataset, str) else dataset, "name": name}
    rows = tuple(map(_row, values.get("rows", ())))
    found: PaperTable = from_mapping(PaperTable, {**values, **numbers, **systems, **named, "rows": rows}, "the table")
    return found


def _row(values: Mapping[str, Any]) -> Row:
    what = f"row {values.get('label', '')!r}"
    stated = {key: value for key, value in values.items() if key not in SYSTEM}
    parts = {key: value for key, value in values.items() if key in SYSTEM}
    made = {"system": _system(parts, what)} if parts else {}
    sigma = {"sigma": float(values["sigma"])} if "sigma" in values else {}
    found: Row = from_mapping(Row, {**stated, **sigma, **made}, what)
    return found


def _system(values: Any, what: str) -> System:
    if not isinstance(values, Mapping):
        raise ValueError(f"{what} = {values!r}, expected a table with a recipe")
    inner = {key: _system(values[key], key) for key in ("teacher", "soft_labels") if key in values}
    found: System = from_mapping(System, {**values, **inner}, what)
    check(found, what)
    return found
