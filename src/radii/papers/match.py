"""Match runs to the rows of a table: a run must train what the row states, at any budget and seed."""

import json
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, TypeVar

from radii.errors import RunWarning
from radii.papers.budgets import Budget, budgets, identity, schedule
from radii.papers.tables import PaperTable, Row, System
from radii.published_datasets import corrupted_sets
from radii.reports import protocol
from radii.reports.metrics import EpochTime, epoch_time
from radii.runs import certificates, readers
from radii.runs.certificates import Certificates
from radii.runs.recipe import Recipe
from radii.runs.run import Run

T = TypeVar("T")

FOLDERS = ("results", "runs")
"""The default folders to look for runs in."""
FAILED_RUNS = "tried"
"""The name of folders with failed experiments, which are never matched."""
BASELINE = "baseline"
"""The label of the results that a slow-down is relative to."""
NOISES = ("gaussian", "grid")
"""Noises with radii in l2, the papers' norm; the first is the papers' noise."""
FIXED_DEFAULTS = {"selection": 100, "failure": 0.001, "bound": "top", "radius": None}
"""The papers' parameters of the certifier `fixed`."""
CERTIFICATION_FIELDS = ("procedure", "parameters", "noise", "every", "most", "images", "split", "label_known")
"""Fields of a header that say how certificates were made, without the seed."""


@dataclass(frozen=True, eq=False)
class ScannedRun:
    """A run whose files are read once; code that its recipe names is never imported."""

    run: Run
    recipe: Recipe

    @cached_property
    def certificates(self) -> list[Certificates]:
        """The certificate files of the run; a warning names each file that cannot be read."""
        return _read_or_warn(sorted(self.run.certificates.glob("*.tsv")), certificates.read)

    @cached_property
    def epoch_time(self) -> EpochTime | None:
        return epoch_time(self.run)

    @cached_property
    def sources(self) -> Mapping[str, "ScannedRun | None"]:
        """The runs of the teacher and of the voter of the soft labels; None where there is no readable one."""
        return {role: self._source(role) for role in ("teacher", "soft_labels")}

    def _source(self, role: str) -> "ScannedRun | None":
        try:
            path = self.run.source(role)
            return None if path is None else open_run(path.parent if role == "soft_labels" else path)
        except (ValueError, OSError):
            return None


@dataclass(frozen=True)
class Result:
    """One training of a row with one of its certificate files, or a certificate file alone."""

    row: Row
    source: str
    trained: ScannedRun | None = None
    certificates: Certificates | None = None
    budget: str = ""
    """The name of the budget that it follows; empty if it follows none."""
    remark: str = ""

    @property
    def run(self) -> Run | None:
        return None if self.trained is None else self.trained.run

    @property
    def recipe(self) -> Recipe | None:
        return None if self.trained is None else self.trained.recipe

    @property
    def header(self) -> Mapping[str, Any]:
        """The header of the certificate file; empty without a file."""
        return self.certificates.header if self.certificates else {}

    @property
    def seed(self) -> int | None:
        return None if self.trained is None else self.trained.recipe.seed

    @property
    def file(self) -> Path | None:
        """The certificate file; None if only the training is used."""
        if self.certificates is None:
            return None
        return Path(self.source) if self.run is None else self.run.certificates / f"{self.certificates.name}.tsv"

    @property
    def complete(self) -> bool:
        """Whether all chosen images are certified; True for a file that does not record its choice."""
        chosen = protocol.planned_images(self.certificates) if self.certificates else None
        return self.certificates is None or chosen is None or len(self.certificates.rows) >= chosen


Results = Mapping[str, Sequence[Result]]
"""The results of the rows of a table, by label."""


def open_run(path: Path) -> ScannedRun:
    """Open a run and read its recipe."""
    run = Run(path)
    return ScannedRun(run, run.stated_recipe())


def scan_runs(folders: Iterable[Path]) -> list[ScannedRun]:
    """Return the runs in these folders, at any depth; a warning names each run that cannot be read."""
    paths = {file.parent for folder in folders for file in folder.rglob("recipe.toml")}
    return _read_or_warn(sorted(path for path in paths if FAILED_RUNS not in path.parts), open_run)


def _read_or_warn(paths: Iterable[Path], read: Callable[[Path], T]) -> list[T]:
    """Read each path, with a warning for each that cannot be read."""
    contents = []
    for path in paths:
        try:
            contents.append(read(path))
        except (ValueError, OSError) as error:
            warnings.warn(f"{path} is left out: {error}", RunWarning, stacklevel=3)
    return contents


def match_runs(table: PaperTable, runs: Sequence[ScannedRun]) -> dict[str, list[Result]]:
    """Return the results of every row by its label, and those of the baseline by BASELINE."""
    baseline = [Row(label=BASELINE, reported={}, system=table.baseline)] if table.baseline else []
    rows = (*table.rows, *baseline)
    return {row.label: [result for trained in runs for result in _results(table, row, trained)] for row in rows}


def _results(table: PaperTable, row: Row, trained: ScannedRun) -> list[Result]:
    if table.kind == "settings" or row.trainable is None or not matches(trained, row.trainable, table.varies):
        return []
    usable = [file for file in trained.certificates if has_images(table, file) and has_present_weights(trained, file)]
    if table.kind == "time":
        return [_result(table, row, trained, usable[0] if usable else None)] if _has_all_epochs(trained) else []
    return [_result(table, row, trained, file) for file in usable]


def _result(table: PaperTable, row: Row, trained: ScannedRun, certified: Certificates | None) -> Result:
    budget, remark = _budget_name(table, row, trained, certified), _soft_label_remark(trained, row.trainable)
    return Result(row, str(trained.run.path), trained, certified, budget, remark)


def _has_all_epochs(trained: ScannedRun) -> bool:
    """Return whether the times of all epochs are recorded; if not, a warning names the run."""
    path, epochs = trained.run.path, trained.recipe.training.epochs_begun if trained.recipe.training else 0
    try:
        recorded = len(trained.run.history())
    except (ValueError, OSError) as error:
        warnings.warn(f"{path} is left out: {error}", RunWarning, stacklevel=2)
        return False
    if recorded < epochs:
        warnings.warn(f"{path} is left out: {recorded} of {epochs} epochs are trained", RunWarning, stacklevel=2)
    return recorded >= epochs


def matches(trained: ScannedRun, system: System, varies: Collection[str] = ()) -> bool:
    """Return whether a run trained this system, with the system's teacher, at any budget and seed."""
    if _run_identity(trained, tuple(varies)) != _system_identity(system, tuple(varies)):
        return False
    teacher = trained.sources["teacher"] if system.teacher else None
    return system.teacher is None or (teacher is not None and matches(teacher, system.teacher))


@lru_cache(maxsize=4096)
def _run_identity(trained: ScannedRun, varies: tuple[str, ...]) -> str:
    return identity(trained.recipe, varies)


@lru_cache(maxsize=4096)
def _system_identity(system: System, varies: tuple[str, ...]) -> str:
    return identity(system.load_recipe(), varies)


def _soft_label_remark(trained: ScannedRun, system: System | None) -> str:
    if system is None or system.soft_labels is None:
        return ""
    voter, samples = trained.sources["soft_labels"], soft_label_samples(trained.run)
    votes = "an unrecorded number of votes" if samples is None else f"{samples:,} votes"
    known = voter is not None and matches(voter, system.soft_labels)
    return f"soft labels of {votes}" + ("" if known else " of a run that is not the table's, or not there")


def soft_label_samples(run: Run) -> int | None:
    """Return the votes for each of a run's soft labels; None if that is not recorded."""
    path = run.source("soft_labels")
    try:
        samples = readers.json_object(path.with_suffix(".json")).get("samples") if path else None
    except (ValueError, OSError):
        return None
    return samples if isinstance(samples, int) else None


def has_images(table: PaperTable, certified: Certificates) -> bool:
    """Return whether certificates are about the images of a table."""
    if table.kind != "corruptions":
        return has_own_test_images(certified)
    other = certified.header.get("evaluated_on", {})
    return {"name": other.get("name"), "kind": other.get("kind")} in corrupted_sets(table.dataset[0])


def has_own_test_images(certified: Certificates) -> bool:
    """Return whether certificates are about the test images of the run's own dataset."""
    return certified.header.get("split", "test") == "test" and "evaluated_on" not in certified.header


def has_present_weights(trained: ScannedRun, certified: Certificates) -> bool:
    """Return whether certificates can be of the run's present weights, under l2 noise of its sigma."""
    recorded = certified.header.get("weights")
    same_weights = recorded is None or not trained.run.finished or recorded == trained.run.weights_digest()
    return same_weights and certified.sigma in (None, trained.recipe.sigma) and noise_name(certified) in NOISES


def noise_name(certified: Certificates) -> str:
    """Return the name of the noise; files without one were made with Gaussian noise."""
    return str(certified.header.get("noise", {}).get("name", NOISES[0]))


def _budget_name(table: PaperTable, row: Row, trained: ScannedRun, certified: Certificates | None) -> str:
    """Return the first budget that both the training and the certificates follow; empty if there is none."""
    for budget in budgets().values():
        follows = row.system is not None and trained_at(budget, row.system, trained, table.varies)
        if follows and (certified is None or certified_at(budget, certified)):
            return budget.name
    return ""


def trained_at(budget: Budget, system: System, trained: ScannedRun, varies: Collection[str] = ()) -> bool:
    """Return whether a run, and everything that it learned from, was trained as the budget says."""
    if schedule(budget.recipe(system, varies, trained.recipe.seed)) != schedule(trained.recipe):
        return False
    if system.soft_labels is not None and soft_label_samples(trained.run) != budget.soft_label_samples:
        return False
    pairs = [(source, trained.sources[role]) for role, source in system.sources().items()]
    return all(source_run is not None and trained_at(budget, source, source_run) for source, source_run in pairs)


def certified_at(budget: Budget, certified: Certificates) -> bool:
    """Return whether certificates are complete and were made as the budget says."""
    header, expected = certified.header, {**FIXED_DEFAULTS, "estimation": budget.estimation}
    every = budget.every_of(str(header.get("dataset")))
    stated = certified.certifier, header.get("every"), header.get("most"), noise_name(certified)
    same = all(certified.parameters.get(key, value) == value for key, value in expected.items())
    complete = protocol.planned_images(certified) == len(certified.rows)
    return complete and same and not is_int8(header) and stated == ("fixed", every, None, NOISES[0])


def is_int8(header: Mapping[str, Any]) -> bool:
    """Return whether certificates are about an int8 model, which is another function than the trained one."""
    return str(header.get("engine")).endswith("int8")


def group_results(table: PaperTable, results: Iterable[Result]) -> list[list[Result]]:
    """Group results that differ only in the seed of training; for corruptions, only in the kind."""
    groups: dict[str, dict[object, Result]] = {}
    for result in results:
        if table.kind != "corruptions":
            # Two copies of a training count once; files without a run have no seed, and each counts.
            member = result.seed if result.trained else result.source
            groups.setdefault(_except_seed(result), {})[member] = result
        elif result.complete:  # a kind with fewer images would distort a mean
            groups.setdefault(_except_kind(result), {})[_kind_of(result)] = result
    return [list(group.values()) for group in groups.values()]


def _except_seed(result: Result) -> str:
    """Return, as text, how a result was made, without the seeds and the engine.

    Engines compute the same function up to rounding, and `auto` takes the fastest; only int8 is another function.
    """
    certified, trained = result.certificates, result.recipe
    settings = {
        **({key: result.header.get(key) for key in CERTIFICATION_FIELDS} if trained else {"file": result.source}),
        "rows": len(certified.rows) if certified else None,
        "int8": is_int8(result.header),
    }
    training = {**asdict(trained), "seed": 0, "dataset": trained.dataset["name"]} if trained else {}
    return json.dumps([settings, training, result.remark], sort_keys=True)


def _except_kind(result: Result) -> str:
    """Return, as text, what the files of all kinds of corruption share: the weights and how they were certified."""
    header = result.header
    folder = result.source if result.run else str(Path(result.source).parent)
    settings = {key: header.get(key) for key in (*CERTIFICATION_FIELDS, "seed")}
    weights = header.get("weights", folder)
    return json.dumps([weights, settings, is_int8(header), result.budget, result.remark], sort_keys=True)


def _kind_of(result: Result) -> str:
    """Return, as text, the corrupted images of a result; two files may be of the same ones."""
    return json.dumps(result.header.get("evaluated_on", {"file": result.source}), sort_keys=True)
