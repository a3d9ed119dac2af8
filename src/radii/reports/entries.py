"""What a report is about: the certificate files of runs, or single files, each under a unique name."""

import warnings
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from radii.errors import RunWarning
from radii.published_datasets import is_corruption
from radii.reports import protocol, weights
from radii.reports.summary import Summary
from radii.runs import certificates
from radii.runs.certificates import Certificates
from radii.runs.run import Run


@dataclass(frozen=True)
class Entry:
    """One row of a report."""

    source: str
    """The run or the file, by a unique name."""
    summary: Summary
    run: Run | None = None
    mark: str = ""
    """Which of the certificate files of its run it is, where there are several."""
    weights: str = ""
    """Which weights the certificates are of, as in radii.reports.weights; empty for a single file."""
    folder: str = ""
    """The folder of logs that the file is one of; empty for other files and for runs."""

    @property
    def name(self) -> str:
        """The name in tables and figures; certificates of other weights are marked as such."""
        marks = [words for words in (self.mark, "" if self.own else self.weights) if words]
        return f"{self.source} ({', '.join(marks)})" if marks else self.source

    @property
    def short_name(self) -> str:
        """The name in notes beside the tables."""
        return f"{self.source} ({self.mark})" if self.mark else self.source

    @property
    def own(self) -> bool:
        """Whether the certificates can be of the run's present weights."""
        return self.weights not in (weights.GONE, weights.UNRECORDED)

    @property
    def certificates(self) -> Certificates:
        return self.summary.certificates

    @property
    def evaluated(self) -> str:
        """What the certificates are about, where it is not the test split of the run's own dataset."""
        return protocol.evaluated(self.certificates)

    @property
    def corruption(self) -> str:
        """The kind of corruption of the images: stated in the header, or the name of a log in a folder of logs."""
        other, name = self.certificates.header.get("evaluated_on", {}), self.certificates.name
        return str(other.get("kind", "")) or (name if self.folder and is_corruption(name) else "")

    @property
    def group(self) -> str:
        """What the means over kinds of corruption are taken over: a folder of logs, or a run's sets of one kind."""
        other = self.certificates.header.get("evaluated_on", {})
        return self.folder or f"{self.source} ({other.get('name')}, {_certifier(self.certificates)})"


def read(paths: Sequence[Path], trusted: Collection[str] = (), labels: Mapping[str, str] | None = None) -> list[Entry]:
    """Read run directories and certificate files; `trusted` are the modules that the runs may name.

    `labels` are names to show, by the path of a run or file.
    """
    for path, times in Counter(path.resolve() for path in paths).items():
        if times > 1:
            raise ValueError(f"{path.name} is named {times} times: name each run or certificate file once")
    paths = _with_teachers(paths)
    named = zip(paths, _labelled(paths, labels or {}), strict=True)
    found = [entry for path, name in named for entry in _entries(path, name, trusted)]
    if not found:
        raise ValueError("nothing to report: name run directories or certificate files")
    return found


def _labelled(paths: Sequence[Path], labels: Mapping[str, str]) -> list[str]:
    """The names of the inputs; those that were given, where any were."""
    given = {Path(path).resolve(): name for path, name in labels.items()}
    if unknown := set(given) - {path.resolve() for path in paths}:
        raise ValueError(f"{unknown.pop().name} has a label but is not reported: name it as a run or file too")
    names = [given.get(path.resolve(), name) for path, name in zip(paths, _names(paths), strict=True)]
    if twice := [name for name, times in Counter(names).items() if times > 1]:
        raise ValueError(f"two inputs would have the name {twice[0]!r}: give each its own")
    return names


def _with_teachers(paths: Sequence[Path]) -> list[Path]:
    """The paths, with a student's teacher before it if that was certified too, to show both."""
    found: list[Path] = []
    for path in paths:
        teacher = Run(path).source("teacher") if path.is_dir() else None
        known = {other.resolve() for other in (*paths, *found)}
        if (
            teacher
            and teacher.is_dir()
            and teacher.resolve() not in known
            and any(Run(teacher).certificates.glob("*.tsv"))
        ):
            found.append(teacher)
        found.append(path)
    return found


def _entries(path: Path, name: str, trusted: Collection[str]) -> list[Entry]:
    if not path.is_dir():
        return [Entry(name, Summary(certificates.read(path)))]
    run = Run(path, trusted)
    if not run.recipe_file.is_file():
        return _logs(path, name)
    run.recipe  # noqa: B018  untrusted code is refused here
    found = [certificates.read(file) for file in _begun(run)]
    if not found:
        raise ValueError(f"{path} holds no certificates: `radii certify {path}` makes them")
    present = weights.digest_of(run)
    marked = zip(found, _marks(found), strict=True)
    return [Entry(name, Summary(each), run, mark, weights.weights_of(each, run, present)) for each, mark in marked]


def _logs(path: Path, name: str) -> list[Entry]:
    """The certificate files of a folder that is not a run, such as one log for each kind of corruption."""
    found = sorted(path.glob("*.tsv"))
    if not found:
        raise ValueError(f"{path} is not a run, it has no recipe.toml: name a run, or certificate files such as *.tsv")
    made = [certificates.read(file) for file in found]
    return [Entry(f"{name}/{each.name}", Summary(each), folder=name) for each in made]


def _begun(run: Run) -> list[Path]:
    """The certificate files of a run that have a row; a warning names those that have none yet."""
    files = sorted(run.certificates.glob("*.tsv"))
    begun = [file for file in files if certificates.has_rows(file)]
    for file in files if begun else ():
        if file not in begun:
            warnings.warn(f"{file} holds no certificates yet and is left out", RunWarning, stacklevel=2)
    return begun


def _marks(found: Sequence[Certificates]) -> list[str]:
    """Distinguishing names of the certificate files of one run; empty where there is one file."""
    if len(found) == 1:
        return [protocol.evaluated(found[0])]
    for parts in ((protocol.evaluated,), (_certifier,), (protocol.evaluated, _certifier)):
        marks = [", ".join(filter(None, (part(each) for part in parts))) for each in found]
        if len(set(marks)) == len(found):
            return marks
    return [", ".join(filter(None, (protocol.evaluated(each), each.name))) for each in found]


def _certifier(made: Certificates) -> str:
    return made.certifier or made.name


def _names(paths: Sequence[Path]) -> list[str]:
    """The last part of each path, and as many parent folders as make it unique."""
    parts = [(*path.resolve().parts[:-1], path.resolve().name.removesuffix(".tsv")) for path in paths]
    names = []
    for mine in parts:
        depth = 1
        while sum(other[-depth:] == mine[-depth:] for other in parts) > 1 and depth < len(mine):
            depth += 1
        names.append("/".join(mine[-depth:]))
    return names
