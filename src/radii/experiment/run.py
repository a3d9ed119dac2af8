"""A run: one directory, one model."""

import csv
import io
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from radii.experiment import files, recipe
from radii.experiment.recipe import Recipe


class RunError(ValueError):
    """A run directory that cannot be used, with the sentence that says why."""


class Run:
    """The directory of one trained model and all that is known of it."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self.recipe_file = self.path / "recipe.toml"
        self.environment_file = self.path / "environment.json"
        self.history_file = self.path / "training.csv"
        self.checkpoint_file = self.path / "checkpoint.pt"
        self.weights_file = self.path / "model.safetensors"
        self.origin_file = self.path / "origin.json"
        self.soft_labels_file = self.path / "soft-labels.npy"
        self.certificates = self.path / "certificates"

    @property
    def name(self) -> str:
        return self.path.resolve().name

    @property
    def recipe(self) -> Recipe:
        if not self.recipe_file.is_file():
            raise RunError(f"{self.path} is not a run: it has no recipe.toml; `radii train` makes one")
        return recipe.read(self.recipe_file)

    @property
    def finished(self) -> bool:
        return self.weights_file.is_file()

    def weights(self) -> Path:
        """The file of the trained weights."""
        if not self.finished:
            self.recipe  # noqa: B018  a directory that is no run at all says so first
            raise RunError(f"{self.path} is not trained to the end: continue it with `radii train`")
        return self.weights_file

    def origin(self) -> dict[str, Any]:
        """What the run was trained from beside its recipe: the teacher or the soft labels, with their hashes."""
        found: dict[str, Any] = json.loads(self.origin_file.read_text()) if self.origin_file.is_file() else {}
        return found

    def source(self, key: str) -> Path | None:
        """Where the teacher or the soft labels lie that the run was trained from, if it was."""
        facts = self.origin().get(key)
        return Path(os.path.normpath(self.path / facts["path"])) if facts else None

    def _beside(self, facts: Mapping[str, str]) -> dict[str, str]:
        """A source named from the run's own place: runs that move together still find each other."""
        return {**facts, "path": os.path.relpath(facts["path"], self.path.resolve())}

    def claim(self, wanted: Recipe, origin: Mapping[str, Mapping[str, str]]) -> None:
        """Make the directory this recipe's, or refuse one that belongs to another."""
        if self.recipe_file.is_file():
            if (theirs := self.recipe) != wanted:
                raise RunError(
                    f"{self.path} belongs to another recipe ({_difference(theirs, wanted)}): name another --run"
                )
            if _hashes(self.origin()) != _hashes(origin):
                raise RunError(f"{self.path} was begun from another {' or '.join(origin)}: name another --run")
            return
        if self.path.exists() and (not self.path.is_dir() or any(self.path.iterdir())):
            raise RunError(f"{self.path} is there already and is not a run: name another --run")
        self.path.mkdir(parents=True, exist_ok=True)
        if origin:
            files.write_json(self.origin_file, {key: self._beside(facts) for key, facts in origin.items()})
        files.write(self.recipe_file, wanted.to_toml())

    def write_history(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write training.csv, a row an epoch."""
        text = io.StringIO()
        writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        files.write(self.history_file, text.getvalue())

    def history(self) -> list[dict[str, str]]:
        """The rows of training.csv; none before the first epoch ended."""
        if not self.history_file.is_file():
            return []
        with self.history_file.open(newline="") as file:
            return list(csv.DictReader(file))

    def environment(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.environment_file.read_text())
        return found


def _hashes(origin: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    return {key: facts["hash"] for key, facts in origin.items()}


def _difference(theirs: Recipe, wanted: Recipe) -> str:
    pairs = zip(theirs.to_toml().splitlines(), wanted.to_toml().splitlines(), strict=False)
    return next((f"it has {a}, not {b.partition('= ')[2]}" for a, b in pairs if a != b), "its fields differ")
