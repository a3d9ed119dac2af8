"""The papers' tables, TOML files in tables/: the numbers that a paper reports, and what to train for each row."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from typing import Any

from radii.fields import check, did_you_mean, from_mapping, option
from radii.published_datasets import KINDS as CORRUPTIONS
from radii.runs import readers, recipe
from radii.runs.recipe import Recipe, shipped_folder, with_tuples

KINDS = ("certified", "spread", "time", "settings", "corruptions")
BUDGETS = "budgets"
"""The name of the only file in tables/ that is not a table."""
SYSTEM_KEYS = ("recipe", "settings", "teacher", "soft_labels")
Reported = Decimal | int | str
"""A reported cell, with the digits that the paper prints."""


class TableError(ValueError):
    """A table file or a certificate file that cannot be used, or a table, row or budget that does not exist."""


@dataclass(frozen=True, kw_only=True)
class System:
    """A recipe with settings to train, and the systems that it learns from."""

    recipe: str
    settings: tuple[str, ...] = ()
    teacher: "System | None" = None
    soft_labels: "System | None" = None
    """The system whose votes are the soft labels of CAT-RS."""

    def load_recipe(self) -> Recipe:
        """Return the recipe with its settings; each file is read once."""
        return _load_recipe(recipe.find(self.recipe).resolve(), self.settings)

    def sources(self) -> dict[str, "System"]:
        """Return the systems that must be trained before this one, by their role."""
        roles = {"teacher": self.teacher, "soft_labels": self.soft_labels}
        return {role: system for role, system in roles.items() if system is not None}


_load_recipe = lru_cache(maxsize=1024)(recipe.read)


@dataclass(frozen=True, kw_only=True)
class Row:
    """A row of a table: what was trained, and what the paper reports about it."""

    label: str
    reported: Mapping[str, Reported]
    sigma: float | None = None
    series: str = ""
    """Rows of one sweep have the same series."""
    system: System | None = None
    fields: Mapping[str, str] = field(default_factory=dict)
    """In a table of settings: the field of the recipe for a column."""
    note: str = ""
    status: str = option("", choices=("", "missing"))
    why: str = ""
    """Why the row cannot be made; stated if, and only if, its status is missing."""

    def __post_init__(self) -> None:
        check(self, f"row {self.label!r}")
        if (self.status == "missing") != bool(self.why):
            raise ValueError(f"row {self.label!r}: status = 'missing' and why belong together")
        if self.system is None and not self.why:
            raise ValueError(f"row {self.label!r} needs a recipe, or status = 'missing' and why")

    @property
    def trainable(self) -> System | None:
        """The system to train for this row; None for a missing row."""
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
    """Whether certified accuracies are printed in per cent, or as shares of 1."""
    sigma: tuple[float, ...]
    radii: tuple[float, ...] = ()
    seeds: int = option(1, ge=1)
    """Each reported number is a mean over this many trainings."""
    varies: tuple[str, ...] = ()
    """Hyper-parameters that differ between the rows; no budget changes them."""
    teacher_time: bool = False
    """Whether the reported times include the teacher's."""
    baseline: System | None = None
    """The system that a slow-down is relative to."""
    notes: tuple[str, ...] = ()
    mended: tuple[str, ...] = ()
    """Corrections made in the transcription."""
    uncertain: tuple[str, ...] = ()
    rows: tuple[Row, ...]

    def __post_init__(self) -> None:
        check(self, "the table")
        if self.kind == "corruptions" and self.dataset[0] not in CORRUPTIONS:
            raise ValueError(f"dataset = {self.dataset[0]!r}, expected one of {', '.join(CORRUPTIONS)} for corruptions")
        labels = [row.label for row in self.rows]
        if repeated := {label for label in labels if labels.count(label) > 1}:
            raise ValueError(f"two rows are labelled {min(repeated)!r}. Give each row its own label.")

    def columns(self) -> list[str]:
        """Return the names of the reported columns, in the order of the rows that have them."""
        return list(dict.fromkeys(column for row in self.rows for column in row.reported))

    def row(self, label: str) -> Row:
        """Return the row with this label, or the only one whose label contains it."""
        exact = [row for row in self.rows if row.label == label]
        rows = exact or [row for row in self.rows if label.casefold() in row.label.casefold()]
        if len(rows) == 1:
            return rows[0]
        if rows:
            quoted = ", ".join(repr(row.label) for row in rows)
            raise TableError(f"{len(rows)} rows of {self.name} have {label!r} in their labels: {quoted}")
        raise TableError(f"{self.name} has no row {label!r}{did_you_mean(label, [row.label for row in self.rows])}")


def folder() -> Path:
    """Return the folder of the tables: inside an installed package, or beside the source."""
    return shipped_folder("tables")


def names() -> list[str]:
    """Return the names of the shipped tables, such as crt-2, sorted by paper and number."""
    stems = [path.stem for path in folder().glob("*.toml") if path.stem != BUDGETS]
    return sorted(stems, key=lambda name: (name.rpartition("-")[0], int(name.rpartition("-")[2])))


def load(name: Path | str) -> PaperTable:
    """Read a shipped table by its name, or any table file by its path."""
    return read(find(name))


def find(name: Path | str) -> Path:
    """Return the file of a shipped table; return a path that ends in .toml unchanged."""
    path = Path(name)
    if path.suffix == ".toml":
        return path
    if (known := str(name).casefold()) not in names():
        raise TableError(f"there is no table {str(name)!r}{did_you_mean(known, names())}")
    return folder() / f"{known}.toml"


def read(path: Path) -> PaperTable:
    """Read a table file; an unknown key is an error that suggests the nearest known one."""
    try:
        return _table(with_tuples(tomllib.loads(readers.text(path), parse_float=Decimal)), path.stem)
    except OSError as error:
        raise TableError(f"cannot read the table {path}: {error.strerror}. `radii table` lists the tables.") from error
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        reason = error.args[0] if error.args else type(error).__name__
        raise TableError(f"{path}: {readers.short(reason, 1000)}") from error


def _table(values: dict[str, Any], name: str) -> PaperTable:
    parsed: dict[str, Any] = {key: tuple(map(float, values[key])) for key in ("sigma", "radii") if key in values}
    if "baseline" in values:
        parsed["baseline"] = _system(values["baseline"], "baseline")
    dataset = values.get("dataset")
    parsed["dataset"] = (dataset,) if isinstance(dataset, str) else dataset
    parsed["rows"] = tuple(map(_row, values.get("rows", ())))
    table: PaperTable = from_mapping(PaperTable, {**values, **parsed, "name": name}, "the table")
    return table


def _row(values: Mapping[str, Any]) -> Row:
    what = f"row {values.get('label', '')!r}"
    parsed = {key: value for key, value in values.items() if key not in SYSTEM_KEYS}
    if "sigma" in values:
        parsed["sigma"] = float(values["sigma"])
    if system := {key: value for key, value in values.items() if key in SYSTEM_KEYS}:
        parsed["system"] = _system(system, what)
    row: Row = from_mapping(Row, parsed, what)
    return row


def _system(values: Any, what: str) -> System:
    if not isinstance(values, Mapping):
        raise ValueError(f"{what} = {values!r}, expected a table with a recipe")
    sources = {key: _system(values[key], key) for key in ("teacher", "soft_labels") if key in values}
    system: System = from_mapping(System, {**values, **sources}, what)
    check(system, what)
    return system
