"""A run: one directory, one model."""

import csv
import difflib
import io
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any

from radii import disk
from radii.disk import lock_file, locked
from radii.errors import ParameterError
from radii.runs import readers, recipe, trust
from radii.runs.recipe import Recipe

LOCATIONS = ("dataset.path", "training.initial")
"""Fields that are locations, which are not part of a recipe's identity."""


WRITTEN = (
    "recipe.toml",
    "origin.json",
    "data.json",
    "engine.json",
    "environment.json",
    "training.csv",
    "checkpoint.pt",
    "model.safetensors",
    "transfer.json",
    "check.json",
)
"""The files that the holder of the run's lock may write."""


class RunError(ParameterError):
    """A run directory that cannot be used; the message says why."""


class Run:
    """The directory of one trained model and its files.

    A run may come from another user: code that its recipe names is used only if its module is among `trusted`, or if
    this user has run the same source before.
    """

    def __init__(self, path: Path | str, trusted: Collection[str] = ()) -> None:
        self.path = Path(path)
        self.trusted = frozenset(trusted)
        self.recipe_file = self.path / "recipe.toml"
        self.environment_file = self.path / "environment.json"
        self.history_file = self.path / "training.csv"
        self.checkpoint_file = self.path / "checkpoint.pt"
        self.previous_checkpoint_file = self.path / "checkpoint-previous.pt"
        self.weights_file = self.path / "model.safetensors"
        self.origin_file = self.path / "origin.json"
        self.soft_labels_file = self.path / "soft-labels.npy"
        self.soft_labels_times = self.path / "soft-labels.seconds"
        self.check_file = self.path / "check.json"
        self.certificates = self.path / "certificates"

    @property
    def name(self) -> str:
        return self.path.resolve().name

    @property
    def recipe(self) -> Recipe:
        found = self.stated_recipe()
        trust.require(found.names(), self.trusted, self.path)
        return found

    def stated_recipe(self) -> Recipe:
        """The recipe as data: the code that it names may not be used."""
        if not self.recipe_file.is_file():
            near = _nearest(self.path)
            advice = f"did you mean {str(near)!r}?" if near else "`radii train` makes one"
            raise RunError(f"{self.path} is not a run: it has no recipe.toml; {advice}")
        return recipe.read(self.recipe_file)

    @property
    def finished(self) -> bool:
        return self.weights_file.is_file()

    def weights(self) -> Path:
        """The file of the trained weights."""
        if not self.finished:
            self.recipe  # noqa: B018  raises first if the directory is not a run
            raise RunError(f"{self.path} is not trained to the end: continue it with `radii train`")
        return self.weights_file

    def origin(self) -> dict[str, Any]:
        """What the run was trained from beside its recipe: the teacher or the soft labels, with their hashes."""
        return dict(readers.origin(self.origin_file)) if self.origin_file.is_file() else {}

    def source(self, key: str) -> Path | None:
        """The path of the teacher or the soft labels that the run was trained from, if any."""
        facts = self.origin().get(key)
        return Path(os.path.normpath(self.path / facts["path"])) if facts else None

    def _beside(self, facts: Mapping[str, str]) -> dict[str, str]:
        """A source with its path relative to the run, so that runs can be moved together."""
        return {**facts, "path": os.path.relpath(facts["path"], self.path.resolve())}

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Hold the lock to train here, and remove the temporary files of a killed process."""
        self._refuse_other_things()
        disk.make_folder(self.path)
        with nullcontext() if self._is_archived() else locked(self.path):
            if not self._is_archived():
                disk.sweep(self.path, WRITTEN)
            yield

    def _is_archived(self) -> bool:
        """Whether it is finished and in a folder without write permission: it is read without a lock."""
        return self.finished and not os.access(self.path, os.W_OK)

    def claim(
        self, wanted: Recipe, origin: Mapping[str, Mapping[str, str]], defaults: Mapping[str, Any] | None = None
    ) -> None:
        """Create the directory for this recipe, or refuse one of another recipe.

        `defaults` are those of the objective's fields: a run that was begun before a field existed had its default.
        """
        trust.record(wanted.names())
        if self.recipe_file.is_file():
            if difference := _difference(self.stated_recipe(), wanted, defaults or {}):
                raise RunError(f"{self.path} belongs to another recipe ({difference})", "run")
            if _hashes(self.origin()) != _hashes(origin):
                raise RunError(f"{self.path} was started from another {' or '.join(origin)}", "run")
            return
        self._refuse_other_things()
        disk.make_folder(self.path)
        self._begin(wanted, origin)

    def _begin(self, wanted: Recipe, origin: Mapping[str, Mapping[str, str]]) -> None:
        """Write the first files of a run, the recipe last: without it, the others were left by a kill."""
        disk.remove(self.origin_file)
        if origin:
            disk.write_json(self.origin_file, {key: self._beside(facts) for key, facts in origin.items()})
        disk.write(self.recipe_file, wanted.to_toml())

    def _refuse_other_things(self) -> None:
        """Refuse a folder that is neither a run nor one that a kill interrupted at its first files."""
        if not self.path.exists():
            return
        other = not self.path.is_dir() or not all(self._is_beginning(path) for path in self.path.iterdir())
        if other and not self.recipe_file.is_file():
            raise RunError(f"{self.path} already exists and is not a run", "run")

    def _is_beginning(self, path: Path) -> bool:
        """Whether a file is one of the first files of a run."""
        if path == self.origin_file:
            return _is_origin(path)
        temporary = tuple(f".{file.name}." for file in (self.origin_file, self.recipe_file))
        return path == lock_file(self.path) or (path.name.startswith(temporary) and path.suffix[1:].isdecimal())

    def write_history(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write training.csv, one row for each epoch; without epochs there is none."""
        if not rows:
            return disk.remove(self.history_file)
        text = io.StringIO()
        writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        return disk.write(self.history_file, text.getvalue())

    def history(self) -> list[dict[str, str]]:
        """The rows of training.csv; none before the first epoch ended."""
        return readers.history(self.history_file) if self.history_file.is_file() else []

    def class_names(self) -> tuple[str, ...]:
        """The names of the classes stored with the weights; empty without weights or names."""
        return readers.class_names(self.weights_file) if self.finished else ()

    def check(self) -> dict[str, int]:
        """How many of how many test images an imported model got right without noise; empty where it is unknown."""
        return readers.check(self.check_file) if self.check_file.is_file() else {}

    def environment(self) -> dict[str, Any]:
        return readers.json_object(self.environment_file)


def _nearest(path: Path) -> Path | None:
    """The run beside `path`, or in runs/, whose name is nearest."""
    places = (path.parent, Path("runs"))
    names = {file.parent.name: file.parent for place in places for file in place.glob("*/recipe.toml")}
    near = difflib.get_close_matches(path.name, names, n=1)
    return names[near[0]] if near else None


def _is_origin(path: Path) -> bool:
    try:
        return bool(_hashes(readers.origin(path)))
    except (ValueError, TypeError, KeyError, AttributeError, OSError):
        return False


def _hashes(origin: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    return {key: facts["hash"] for key, facts in origin.items()}


def _difference(theirs: Recipe, wanted: Recipe, defaults: Mapping[str, Any]) -> str:
    """The first field in which two recipes differ, as text; locations are not compared."""
    b = _flat(wanted)
    a = {key: defaults[key] for key in b if key in defaults} | _flat(theirs)
    for name in (*a, *b):
        # Version 0.1 stated no fields of datasets and models: they had their defaults.
        unstated = name not in a and name.startswith(("dataset.", "model."))
        if name not in LOCATIONS and not unstated and a.get(name) != b.get(name):
            return f"it has {name} = {a.get(name)!r}, not {b.get(name)!r}"
    return ""


def _flat(wanted: Recipe) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in asdict(wanted).items():
        table = {f"{key}.{name}": each for name, each in value.items()} if isinstance(value, Mapping) else {key: value}
        flat |= table
    return flat
