"""A run: one directory, one model."""

import csv
import difflib
import io
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from radii import disk, notebook
from radii.disk import lock_file, locked
from radii.errors import RunError as RunError
from radii.fields import first_difference
from radii.runs import certificates, readers, recipe, trust
from radii.runs.recipe import Recipe

LOCATIONS = ("dataset.path", "training.initial")
"""Fields that are locations. They may change: they are not part of a recipe's identity."""
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
    "trackers.json",
)
"""The files that the holder of the run's lock may write."""
FOLDERS = ("certificates", "certificates/parts", "population", "pictures", "attacks", "tensorboard", "tapes")
"""The folders inside a run. A link in their place would have radii write outside the run."""


class Run:
    """The directory of one trained model and its files.

    What is read stays in memory, and is read again only if its file has changed. A run may come from another user: code
    that its recipe names is used only if its module is in `trusted`, or if this user has run the same source before.
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
        self.population = self.path / "population"
        self._cache = disk.FileCache()
        self._trusted_recipe: Recipe | None = None

    @property
    def name(self) -> str:
        return self.path.resolve().name

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r})"

    def _repr_html_(self) -> str:
        """Return a table of the recipe and the certificates, and their curves, for notebooks; no code is imported."""
        stated, rows = self.stated_recipe(), self.history()
        measured = rows[-1].get("noisy_test_accuracy") if rows else None
        check, files = self.check(), self._certified()
        fields = {
            "dataset": stated.dataset["name"],
            "model": stated.model["name"],
            "objective": stated.objective["name"],
            "sigma": stated.sigma,
            "trained": f"{len(rows)} epochs" if self.finished else "not to the end",
            **({"noisy test accuracy": f"{float(measured):.4f}"} if measured else {}),
            **({"right without noise": f"{check['right']:,} of {check['images']:,} test images"} if check else {}),
            **{f"certificates {file.name}": f"{len(file.rows)} images" for file in files},
        }
        lines = [(file.name, certificates.accuracy_steps(file)) for file in files]
        title = "certified accuracy, % of all images, over the radius (pixels in [0, 1])"
        return notebook.table((), fields.items(), str(self.path)) + notebook.curves(lines, title)

    def _certified(self) -> "list[certificates.Certificates]":
        if not self.finished:
            return []
        paths = [path for path in sorted(self.certificates.glob("*.tsv")) if certificates.has_rows(path)]
        digest = self.weights_digest()
        return [file for file in map(certificates.read, paths) if file.header.get("weights") == digest]

    # Reading

    @property
    def recipe(self) -> Recipe:
        """The recipe; code that it names must be trusted."""
        stated = self.stated_recipe()
        if stated is not self._trusted_recipe:
            trust.require(stated.names(), self.trusted, self.path)
            self._trusted_recipe = stated
        return stated

    def stated_recipe(self) -> Recipe:
        """Return the recipe as data: the code that it names must not be used."""
        if not self.recipe_file.is_file():
            near = _nearest(self.path)
            advice = f"did you mean {str(near)!r}?" if near else "`radii train` or `radii import` makes one"
            raise RunError(f"{self.path} is not a run: it has no recipe.toml; {advice}")
        if linked := [name for name in FOLDERS if (self.path / name).is_symlink()]:
            raise RunError(f"{self.path / linked[0]} is a symbolic link, where a folder belongs: put the folder there")
        return self._cache.get(self.recipe_file, recipe.read)

    @property
    def finished(self) -> bool:
        return self.weights_file.is_file()

    def weights(self) -> Path:
        """Return the file of the trained weights."""
        if not self.finished:
            if self.recipe.training is None:  # raises first if the directory is not a run
                raise RunError(f"{self.path} is not imported to the end: give the `radii import` that began it again")
            raise RunError(f"{self.path} is not trained to the end: continue it with `radii train`")
        return self.weights_file

    def weights_digest(self) -> str:
        """Return the SHA-256 of the trained weights."""
        return self._cache.get(self.weights(), _weights_digest)

    def class_names(self) -> tuple[str, ...]:
        """Return the names of the classes that are stored with the weights; none without weights or names."""
        return self._cache.get(self.weights_file, readers.class_names) if self.finished else ()

    def history(self) -> list[dict[str, str]]:
        """Return the rows of training.csv; none before the first epoch ended."""
        return list(self._cache.get(self.history_file, readers.history)) if self.history_file.is_file() else []

    def check(self) -> dict[str, Any]:
        """Return how many of how many test images the network got right without noise, and `noisy`, the same by sigma.

        Empty if that was not measured, or of other weights than the present ones.
        """
        if not self.check_file.is_file():
            return {}
        check = self._cache.get(self.check_file, readers.check)
        measured = check["weights"]
        if measured is not None and self.finished and measured != self.weights_digest():
            return {}
        return dict(check)

    def environment(self) -> dict[str, Any]:
        """Return the versions and the kind of machine that the run was trained with."""
        return dict(self._cache.get(self.environment_file, readers.json_object))

    def origin(self) -> dict[str, Any]:
        """Return what the run was trained from besides its recipe: the teacher or the soft labels, with hashes."""
        return dict(self._cache.get(self.origin_file, readers.origin)) if self.origin_file.is_file() else {}

    def source(self, key: str) -> Path | None:
        """Return the path of the teacher or the soft labels that the run was trained from, if any."""
        source = self.origin().get(key)
        return Path(os.path.normpath(self.path / source["path"])) if source else None

    # Writing

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Hold the lock to train here, and remove the temporary files of a killed process."""
        try:
            self._check_is_run()
        except RunError:
            # Another process may have begun since: then the lock names it, or `claim` looks again.
            if not disk.lock_file(self.path).exists() and not self.recipe_file.is_file():
                raise
        disk.make_folder(self.path)
        # A finished run in a folder without write permission is an archive: it is read without a lock.
        archived = self.finished and not os.access(self.path, os.W_OK)
        with nullcontext() if archived else locked(self.path):
            if not archived:
                disk.sweep(self.path, WRITTEN)
            yield

    def claim(
        self, recipe: Recipe, origin: Mapping[str, Mapping[str, str]], defaults: Mapping[str, Any] | None = None
    ) -> None:
        """Create the directory for this recipe, or raise a RunError if it belongs to another recipe.

        `defaults` are those of the objective's fields: a run that was begun before a field existed had its default.
        """
        trust.record(recipe.names())
        if recipe.dataset.get("path"):
            trust.record_data(self.path / recipe.dataset["path"])
        if self.recipe_file.is_file():
            if difference := _recipe_difference(self.stated_recipe(), recipe, defaults or {}):
                raise RunError(f"{self.path} belongs to another recipe (it has {difference})", "run")
            if _hashes(self.origin()) != _hashes(origin):
                raise RunError(f"{self.path} was started from another {' or '.join(origin)}", "run")
            return
        self._check_is_run()
        disk.make_folder(self.path)
        # The recipe is written last: without it, the other files were left by a kill.
        disk.remove(self.origin_file)
        if origin:
            # Paths are relative to the run, so that runs can be moved together.
            here = self.path.resolve()
            sources = {key: {**source, "path": os.path.relpath(source["path"], here)} for key, source in origin.items()}
            disk.write_json(self.origin_file, sources)
        disk.write(self.recipe_file, recipe.to_toml())

    def write_history(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write training.csv, one row for each epoch; without rows there is no file."""
        if not rows:
            return disk.remove(self.history_file)
        text = io.StringIO()
        # A run that an older version began keeps that version's columns.
        writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n", extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)
        return disk.write(self.history_file, text.getvalue())

    def _check_is_run(self) -> None:
        """Refuse a folder that is neither a run nor the beginning of one that a kill interrupted."""
        if not self.path.exists() or self.recipe_file.is_file():
            return
        if not self.path.is_dir() or not all(self._is_first_file(path) for path in self.path.iterdir()):
            raise RunError(f"{self.path} already exists and is not a run", "run")

    def _is_first_file(self, path: Path) -> bool:
        """Return whether a file is one of those that `claim` writes before the recipe."""
        if path == self.origin_file:
            try:
                return bool(readers.origin(path))
            except (ValueError, OSError):
                return False
        temporary = tuple(f".{file.name}." for file in (self.origin_file, self.recipe_file))
        return path == lock_file(self.path) or (path.name.startswith(temporary) and path.suffix[1:].isdecimal())


def _nearest(path: Path) -> Path | None:
    """Return the run beside `path`, or in runs/, whose name is nearest."""
    folders = (path.parent, Path("runs"))
    names = {file.parent.name: file.parent for folder in folders for file in folder.glob("*/recipe.toml")}
    near = difflib.get_close_matches(path.name, names, n=1)
    return names[near[0]] if near else None


def _hashes(origin: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    return {key: source["hash"] for key, source in origin.items()}


def _weights_digest(path: Path) -> str:
    readers.check_length(path)  # before the file is read
    return disk.digest(path)


def _recipe_difference(theirs: Recipe, wanted: Recipe, defaults: Mapping[str, Any]) -> str:
    """Describe the first field in which two recipes differ; locations are not compared."""
    a, b = theirs.flat(), wanted.flat()
    a = {key: defaults[key] for key in b if key in defaults} | a
    # Version 0.1 stated no fields of datasets and models: they had their defaults.
    unstated = {key for key in b if key not in a and key.startswith(("dataset.", "model."))}
    for key in (*LOCATIONS, *unstated):
        a.pop(key, None)
        b.pop(key, None)
    return first_difference(a, b)
