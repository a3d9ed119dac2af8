"""Which runs belong to which row of a table: what a run trained has to be the row's, its budget may be any."""

import warnings
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from radii import disk
from radii.errors import RunWarning
from radii.papers.budgets import Budget, budgets
from radii.papers.table import PaperTable, Row, System
from radii.papers.table_identity import identity, schedule
from radii.published_datasets import corrupted_sets
from radii.runs import certificates, readers, recipe
from radii.runs.certificates import Certificates
from radii.runs.recipe import Recipe
from radii.runs.run import Run

FOLDERS = ("results", "runs")
"""Where runs are looked for by default."""
LEFT_OUT = "tried"
"""A folder of tries that failed: its runs are nobody's result."""
BASELINE = "baseline"
NOISES = ("gaussian", "grid")
"""The noises whose radii are in l2, as the papers' are."""
USUAL = {"selection": 100, "failure": 0.001, "bound": "top", "radius": None}
"""The papers' parameters of the certifier `fixed`."""


@dataclass(frozen=True)
class Result:
    """One training of a row, with one of its certificate files; or a certificate file alone."""

    row: Row
    source: str
    run: Run | None = None
    recipe: Recipe | None = None
    certificates: Certificates | None = None
    budget: str = ""
    """The name of the budget that it is of; empty where it is of none."""
    remark: str = ""

    @property
    def seed(self) -> int | None:
        return None if self.recipe is None else self.recipe.seed

    @property
    def file(self) -> Path | None:
        """The certificate file; none where only the training is used."""
        if self.certificates is None:
            return None
        return Path(self.source) if self.run is None else self.run.certificates / f"{self.certificates.name}.tsv"

    @property
    def complete(self) -> bool:
        """Whether all the images that were chosen are certified; a file that does not say which is taken as it is."""
        header = self.certificates.header if self.certificates else {}
        total, every, most = (header.get(key) for key in ("images", "every", "most"))
        if self.certificates is None or not isinstance(total, int) or not isinstance(every, int):
            return True
        return len(self.certificates.rows) >= len(range(0, total, every)[:most])


@dataclass(frozen=True)
class Found:
    """A run directory and its recipe, read without any code that it names."""

    run: Run
    recipe: Recipe


def runs_in(folders: Iterable[Path]) -> list[Found]:
    """The runs in these folders, at any depth; one that cannot be read is named in a warning and left out."""
    found = []
    for path in sorted({path.parent for folder in folders for path in folder.rglob("recipe.toml")}):
        if LEFT_OUT in path.parts:
            continue
        try:
            found.append(Found(Run(path), recipe.read(path / "recipe.toml")))
        except (ValueError, OSError) as error:
            warnings.warn(f"{path} is left out: {error}", RunWarning, stacklevel=2)
    return found


def results_of(table: PaperTable, found: Sequence[Found]) -> dict[str, list[Result]]:
    """The results of every row, by its label; those of the baseline of a slow-down under BASELINE."""
    baseline = [Row(label=BASELINE, reported={}, system=table.baseline)] if table.baseline else []
    return {row.label: [each for run in found for each in _of_run(table, row, run)] for row in (*table.rows, *baseline)}


def _of_run(table: PaperTable, row: Row, found: Found) -> list[Result]:
    if row.trainable is None or not matches(found, row.trainable, table.varies):
        return []
    if table.kind == "settings":
        return []
    made = [each for each in _certificates(found.run) if of_images(table, each) and of_present_model(found, each)]
    if table.kind == "time":
        return [_result(table, row, found, made[0] if made else None)] if _is_trained(found) else []
    return [_result(table, row, found, each) for each in made]


def _is_trained(found: Found) -> bool:
    """Whether the times of all epochs are there; a warning names a run that has only some."""
    wanted = found.recipe.training.epochs if found.recipe.training else 0
    try:
        trained = len(found.run.history())
    except (ValueError, OSError) as error:
        warnings.warn(f"{found.run.path} is left out: {error}", RunWarning, stacklevel=2)
        return False
    if trained < wanted:
        warnings.warn(
            f"{found.run.path} is left out: {trained} of {wanted} epochs are trained", RunWarning, stacklevel=2
        )
    return trained >= wanted


def _result(table: PaperTable, row: Row, found: Found, made: Certificates | None) -> Result:
    budget, remark = budget_of(table, row, found, made), _remark(found, row.trainable)
    return Result(row, str(found.run.path), found.run, found.recipe, made, budget, remark)


def matches(found: Found, system: System, varies: Collection[str] = ()) -> bool:
    """Whether a run trained this system, at whatever budget and seed, taught by what the system names."""
    if identity(found.recipe, varies) != _wanted(system, tuple(varies)):
        return False
    if system.teacher is None:
        return True
    teacher = _source(found.run, "teacher")
    return teacher is not None and matches(teacher, system.teacher)


@lru_cache(maxsize=4096)
def _wanted(system: System, varies: tuple[str, ...]) -> str:
    return identity(system.read(), varies)


def _source(run: Run, key: str) -> Found | None:
    """The run that another was taught by, or whose votes it learned from; none where that is not there."""
    try:
        path = run.source(key)
        folder = path.parent if key == "soft_labels" and path else path
        return None if folder is None else Found(Run(folder), recipe.read(folder / "recipe.toml"))
    except (ValueError, OSError):
        return None


def _remark(found: Found, system: System | None) -> str:
    """What is to be said of the soft labels that a run learned from."""
    if system is None or system.soft_labels is None:
        return ""
    voter, samples = _source(found.run, "soft_labels"), soft_label_samples(found.run)
    votes = "an unrecorded number of votes" if samples is None else f"{samples:,} votes"
    known = voter is not None and matches(voter, system.soft_labels)
    return f"soft labels of {votes}" + ("" if known else " of a run that is not the table's, or not there")


def soft_label_samples(run: Run) -> int | None:
    """How many votes the soft labels of a run were made of; none where that is not recorded."""
    path = run.source("soft_labels")
    try:
        samples = readers.json_object(path.with_suffix(".json")).get("samples") if path else None
    except (ValueError, OSError):
        return None
    return samples if isinstance(samples, int) else None


def _certificates(run: Run) -> list[Certificates]:
    found = []
    for file in sorted(run.certificates.glob("*.tsv")):
        try:
            found.append(certificates.read(file))
        except (ValueError, OSError) as error:
            warnings.warn(f"{file} is left out: {error}", RunWarning, stacklevel=2)
    return found


def of_images(table: PaperTable, made: Certificates) -> bool:
    """Whether certificates are of the images that a table is about."""
    if table.kind != "corruptions":
        return of_own_images(made)
    other = made.header.get("evaluated_on", {})
    return {"name": other.get("name"), "kind": other.get("kind")} in corrupted_sets(table.dataset[0])


def of_own_images(made: Certificates) -> bool:
    """Whether certificates are of the test images of the run's own dataset."""
    return made.header.get("split", "test") == "test" and "evaluated_on" not in made.header


def of_present_model(found: Found, made: Certificates) -> bool:
    """Whether certificates can be of the weights that the run has now, under noise of its own sigma."""
    recorded = made.header.get("weights")
    gone = recorded is not None and found.run.finished and recorded != disk.digest(found.run.weights_file)
    return not gone and made.sigma in (None, found.recipe.sigma) and noise_of(made) in NOISES


def noise_of(made: Certificates) -> str:
    """The name of the noise; files without one were made with Gaussian noise."""
    return str(made.header.get("noise", {}).get("name", NOISES[0]))


def budget_of(table: PaperTable, row: Row, found: Found, made: Certificates | None) -> str:
    """The budget that a run and its certificates are of; empty where they are of none."""
    for budget in budgets().values():
        trained = row.system is not None and trained_at(budget, row.system, found, table.varies)
        if trained and (made is None or certified_at(budget, made)):
            return budget.name
    return ""


def trained_at(budget: Budget, system: System, found: Found, varies: Collection[str] = ()) -> bool:
    """Whether a run, and what it learned from, is what the budget would train for a system."""
    wanted = budget.recipe(system, varies, found.recipe.seed)
    if schedule(wanted) != schedule(found.recipe):
        return False
    if system.soft_labels is not None and soft_label_samples(found.run) != budget.soft_label_samples:
        return False
    sources = {key: _source(found.run, key) for key in system.sources()}
    return all(each and trained_at(budget, system.sources()[key], each) for key, each in sources.items())


def certified_at(budget: Budget, made: Certificates) -> bool:
    """Whether certificates are complete and were made as the budget says."""
    header, usual = made.header, {**USUAL, "estimation": budget.estimation}
    every = budget.every_of(str(header.get("dataset")))
    stated = made.certifier, header.get("every"), header.get("most"), noise_of(made)
    complete = isinstance(total := header.get("images"), int) and len(made.rows) == len(range(0, total, every))
    same = all(made.parameters.get(key, value) == value for key, value in usual.items())
    return complete and same and not is_int8(made) and stated == ("fixed", every, None, NOISES[0])


def is_int8(made: Certificates) -> bool:
    """Whether certificates are of an int8 model: another function than the trained one."""
    return str(made.header.get("engine")).endswith("int8")
