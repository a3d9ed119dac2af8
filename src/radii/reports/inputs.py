"""Read the inputs of a report: the certificate files of runs, or single files, each under a unique name."""

import math
import shlex
import warnings
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

from radii.errors import RunWarning
from radii.published_datasets import is_corruption
from radii.reports import protocol
from radii.reports.metrics import EpochTime, Share, Summary, epoch_time, without_noise
from radii.runs import attacks, certificates, gallery, readers, repeats
from radii.runs.attacks import Attack
from radii.runs.certificates import Certificates
from radii.runs.function import is_of_model
from radii.runs.run import Run

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Pixels = NDArray[np.float32]

# Which weights certificates are of.
OWN = "the run’s own"  # noqa: RUF001
ABSENT = "the weights are not in the run"
GONE = "of weights that the run no longer has"
EDITED = "of another model table than the recipe’s"  # noqa: RUF001
UNRECORDED = "of unrecorded weights"


@dataclass(frozen=True)
class RunAttack:
    """An attack file of a run, with the pictures beside it."""

    path: Path
    attack: Attack

    @cached_property
    def pictures(self) -> "tuple[Mapping[str, Pixels], Mapping[str, Any]]":
        """The changed images, and the record of each change, by name; empty if there is no such file."""
        file = attacks.pictures_file(self.path)
        return gallery.read(file) if file.is_file() else ({}, {})


class ReportedRun(Run):
    """A run with what a report needs of it, read once."""

    @cached_property
    def attacks(self) -> Sequence[RunAttack]:
        """The attack files."""
        return [RunAttack(path, attack) for path, attack in attacks.read_all(self).items()]

    @cached_property
    def epoch_time(self) -> EpochTime | None:
        return epoch_time(self)

    @cached_property
    def transfer_cost(self) -> Mapping[str, Any] | None:
        """The cost of the teacher's method on this run's model, from transfer.json; None if the run is no student."""
        file = self.path / "transfer.json"
        return readers.transfer_cost(file) if file.is_file() else None

    @cached_property
    def dimensions(self) -> int | None:
        """The number of values of an image, from the header of the weights; None if it is not recorded."""
        if not self.finished:
            return None
        spec = readers.weights_metadata(self.weights_file).get("spec")
        shape = readers.parse_object(spec, "the spec of the weights").get("shape") if spec else None
        if not isinstance(shape, list) or len(shape) != 3:
            return None
        return math.prod(shape) if all(isinstance(side, int) and side > 0 for side in shape) else None


@dataclass(frozen=True)
class Entry:
    """One certificate file of a report, and the run that it belongs to."""

    source: str
    """The unique name of the run or the file."""
    summary: Summary
    run: ReportedRun | None = None
    mark: str = ""
    """What distinguishes this certificate file from the others of its run; empty if there is only one."""
    weights: str = ""
    """OWN, ABSENT, GONE, EDITED or UNRECORDED; empty for a file without a run."""
    folder: str = ""
    """The folder of logs that the file is in; empty for other files and for runs."""
    path: Path | None = None
    """The certificate file, if the input is a single file."""

    @property
    def name(self) -> str:
        """The name in tables and figures; it says so if the certificates are of other weights."""
        marks = [words for words in (self.mark, "" if self.own else self.weights) if words]
        return f"{self.source} ({', '.join(marks)})" if marks else self.source

    @property
    def short_name(self) -> str:
        """The name in notes."""
        return f"{self.source} ({self.mark})" if self.mark else self.source

    @property
    def own(self) -> bool:
        """Whether the certificates can be of the run's present function."""
        return self.weights not in (GONE, EDITED, UNRECORDED)

    @property
    def certificates(self) -> Certificates:
        return self.summary.certificates

    @property
    def without_noise(self) -> Share | None:
        """How many test images the network alone gets right; None if unknown, or of other images or weights."""
        return without_noise(self.run) if self.run and self.own and not self.evaluated_on else None

    @property
    def evaluated_on(self) -> str:
        """The dataset and split, if they are not the test split of the run's own dataset."""
        return protocol.evaluated_on(self.certificates)

    @property
    def class_names(self) -> tuple[str, ...]:
        return self.run.class_names() if self.run else ()

    @property
    def corruption(self) -> str:
        """The kind of corruption: from the header, or from the name of a log in a folder of logs; empty if none."""
        other, name = self.certificates.header.get("evaluated_on", {}), self.certificates.name
        return str(other.get("kind", "")) or (name if self.folder and is_corruption(name) else "")

    @property
    def group(self) -> str:
        """The name of the files that a mean over corruptions is of: a folder of logs, or a run with its certifier."""
        other = self.certificates.header.get("evaluated_on", {})
        return self.folder or f"{self.source} ({other.get('name')}, {_certifier(self.certificates)})"

    @cached_property
    def beside(self) -> Sequence[Certificates]:
        """The other certificate files in the folder of a single file."""
        return repeats.beside(self.path) if self.path is not None and "weights" in self.certificates.header else []

    @cached_property
    def attacks(self) -> Sequence[RunAttack]:
        """The attacks on what was certified: the same weights and images, under the same noise."""
        header = self.certificates.header
        if self.run is None or "weights" not in header:
            return []
        certified = header["weights"], header.get("data"), self.certificates.noise
        return [
            recorded
            for recorded in self.run.attacks
            if recorded.attack.rows
            and tuple(recorded.attack.header[key] for key in ("weights", "data", "noise")) == certified
        ]


def read(paths: Sequence[Path], trusted: Collection[str] = (), labels: Mapping[str, str] | None = None) -> list[Entry]:
    """Read run directories and certificate files.

    The runs may name code of the modules `trusted`; `labels` are the names to show, by the path of a run or file.
    """
    for path, times in Counter(path.resolve() for path in paths).items():
        if times > 1:
            raise ValueError(f"{path.name} is named {times} times. Name each run or certificate file once.")
    paths = _with_teachers(paths)
    named = zip(paths, _labelled(paths, labels or {}), strict=True)
    entries = [entry for path, name in named for entry in _read(path, name, trusted)]
    if not entries:
        raise ValueError("There is nothing to report. Name run directories or certificate files.")
    return entries


def _with_teachers(paths: Sequence[Path]) -> list[Path]:
    """Return the paths, and before each student its teacher if that has certificates of the weights that taught it."""
    extended: list[Path] = []
    for path in paths:
        teacher = _teacher(Run(path)) if path.is_dir() else None
        listed = {other.resolve() for other in (*paths, *extended)}
        if teacher and teacher.resolve() not in listed:
            extended.append(teacher)
        extended.append(path)
    return extended


def _teacher(run: Run) -> Path | None:
    """Return the teacher of a run if it has certificates of the weights that taught the run.

    A stranger's run may name any folder as its teacher, whose pictures would end in the report; but not its weights.
    """
    teacher, taught = run.source("teacher"), run.origin().get("teacher", {}).get("hash")
    for file in sorted(Run(teacher).certificates.glob("*.json")) if teacher else ():
        with suppress(ValueError, OSError):
            if certificates.read_header(file).get("weights") == taught:
                return teacher
    return None


def _labelled(paths: Sequence[Path], labels: Mapping[str, str]) -> list[str]:
    """Return the name of every path: its label, or the end of the path."""
    label_of = {Path(path).resolve(): name for path, name in labels.items()}
    if unknown := set(label_of) - {path.resolve() for path in paths}:
        raise ValueError(f"{unknown.pop().name} has a label but is not reported. Name it as a run or file too.")
    names = [label_of.get(path.resolve(), name) for path, name in zip(paths, _names(paths), strict=True)]
    if twice := [name for name, times in Counter(names).items() if times > 1]:
        raise ValueError(f"Two inputs would have the name {twice[0]!r}. Give each its own label.")
    return names


def _names(paths: Sequence[Path]) -> list[str]:
    """Return the last folder or file of each path, with as many parent folders as make it unique."""
    steps = [(*path.resolve().parts[:-1], path.resolve().name.removesuffix(".tsv")) for path in paths]
    names = []
    for own in steps:
        depth = 1
        while sum(other[-depth:] == own[-depth:] for other in steps) > 1 and depth < len(own):
            depth += 1
        names.append("/".join(own[-depth:]))
    return names


def _read(path: Path, name: str, trusted: Collection[str]) -> list[Entry]:
    """Read a certificate file, a run, or a folder of logs such as one for each kind of corruption."""
    if not path.is_dir():
        return [Entry(name, Summary(certificates.read(path)), path=path)]
    run = ReportedRun(path, trusted)
    if run.recipe_file.is_file():
        return _read_run(run, name)
    logs = [certificates.read(file) for file in sorted(path.glob("*.tsv"))]
    if not logs:
        raise ValueError(f"{path} is not a run: it has no recipe.toml. Name a run, or certificate files such as *.tsv.")
    return [Entry(f"{name}/{log.name}", Summary(log), folder=name) for log in logs]


def _read_run(run: ReportedRun, name: str) -> list[Entry]:
    run.recipe  # noqa: B018  raises if the recipe names code that is not trusted
    files = sorted(map(certificates.read, begun_files(run, warn=True)), key=lambda file: file.sigma or 0.0)
    if not files:
        only = " of images, only a proof about a population" if any(run.population.glob("*.tsv")) else ""
        raise ValueError(f"{run.path} holds no certificates{only}. Make them with `{certify_command(run)}`.")
    present = run.weights_digest() if run.finished else None
    return [
        Entry(name, Summary(file), run, mark, _weights(file, run, present))
        for file, mark in zip(files, _marks(files), strict=True)
    ]


def present_certificates(run: Run) -> list[Certificates]:
    """Read the certificate files of a run's present function."""
    return [file for path in begun_files(run) if is_present(run, (file := certificates.read(path)).header)]


def present_attacks(run: Run) -> dict[Path, Attack]:
    """Read the attack files about a run's present function that have rows."""
    files = attacks.read_all(run)
    return {path: attack for path, attack in files.items() if attack.rows and is_present(run, attack.header)}


def is_present(run: Run, header: Mapping[str, Any]) -> bool:
    """Return whether a header is about the function that a run is now: its weights, and the model in its recipe."""
    return header.get("weights") == run.weights_digest() and is_of_model(header, run.stated_recipe().model_digest)


def begun_files(run: Run, *, warn: bool = False) -> list[Path]:
    """Return the certificate files of a run that have rows; with `warn`, warn about those without."""
    files = sorted(run.certificates.glob("*.tsv"))
    begun = [file for file in files if certificates.has_rows(file)]
    if begun and warn:
        for file in sorted(set(files) - set(begun)):
            warnings.warn(f"{file} holds no certificates yet and is left out", RunWarning, stacklevel=2)
    return begun


def certify_command(run: Run) -> str:
    """Return the command that certifies a run, to paste into a shell."""
    return shlex.join(["radii", "certify", str(run.path)])


def _weights(file: Certificates, run: Run, present: str | None) -> str:
    """Return what was certified: OWN, ABSENT, GONE, EDITED or UNRECORDED; `present` is the weights' digest now."""
    recorded = file.header.get("weights")
    if recorded is None:
        return UNRECORDED
    if present is None:
        # An archive without weights has not changed; a run with a checkpoint is being trained again.
        return GONE if run.checkpoint_file.is_file() else ABSENT
    if present != recorded:
        return GONE
    return OWN if is_of_model(file.header, run.stated_recipe().model_digest) else EDITED


def _marks(files: Sequence[Certificates]) -> list[str]:
    """Return what distinguishes each certificate file of a run: its dataset, certifier, sigma, some, or its name."""
    if len(files) == 1:
        return [protocol.evaluated_on(files[0])]
    fields = (protocol.evaluated_on, _certifier, _sigma)
    for chosen in (choice for count in (1, 2, 3) for choice in combinations(fields, count)):
        marks = [", ".join(filter(None, (field(file) for field in chosen))) for file in files]
        if len(set(marks)) == len(files):
            return marks
    return [", ".join(filter(None, (protocol.evaluated_on(file), file.name))) for file in files]


def _certifier(file: Certificates) -> str:
    return file.certifier or file.name


def _sigma(file: Certificates) -> str:
    return "" if file.sigma is None else f"sigma {file.sigma:g}"
