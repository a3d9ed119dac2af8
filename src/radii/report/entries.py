"""What a report is about: the certificate files of runs, or single files, each under a name of its own."""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from radii.experiment import certificates
from radii.experiment.certificates import Certificates
from radii.experiment.run import Run
from radii.report import weights
from radii.report.summary import Summary


@dataclass(frozen=True)
class Entry:
    """One row of a report."""

    source: str
    """The run or the file, by a name that no other input has."""
    summary: Summary
    run: Run | None = None
    mark: str = ""
    """Which of the certificate files of its run it is, where there are several."""
    weights: str = ""
    """Whose the certificates are, in the words of radii.report.weights; of a single file nothing."""

    @property
    def name(self) -> str:
        """The name in tables and figures; certificates that are not the run's own say so wherever they are shown."""
        said = [words for words in (self.mark, "" if self.own else self.weights) if words]
        return f"{self.source} ({', '.join(said)})" if said else self.source

    @property
    def short_name(self) -> str:
        """The name in a sentence beside them."""
        return f"{self.source} ({self.mark})" if self.mark else self.source

    @property
    def own(self) -> bool:
        """Whether nothing speaks against the certificates being of the run's present model."""
        return self.weights not in (weights.GONE, weights.UNRECORDED)

    @property
    def certificates(self) -> Certificates:
        return self.summary.certificates


def read(paths: Sequence[Path], trusted: Collection[str] = ()) -> list[Entry]:
    """Read run directories and certificate files; `trusted` are the modules that runs of others may name."""
    for path, times in Counter(path.resolve() for path in paths).items():
        if times > 1:
            raise ValueError(f"{path.name} is named {times} times: name each run or certificate file once")
    paths = _with_teachers(paths)
    named = zip(paths, _names(paths), strict=True)
    found = [entry for path, name in named for entry in _entries(path, name, trusted)]
    if not found:
        raise ValueError("nothing to report: name run directories or certificate files")
    return found


def _with_teachers(paths: Sequence[Path]) -> list[Path]:
    """The paths, a student's teacher before it where it was certified too: the two are read side by side."""
    found: list[Path] = []
    for path in paths:
        teacher = Run(path).source("teacher") if path.is_dir() else None
        known = {other.resolve() for other in (*paths, *found)}
        if teacher and teacher.resolve() not in known and any(Run(teacher).certificates.glob("*.tsv")):
            found.append(teacher)
        found.append(path)
    return found


def _entries(path: Path, name: str, trusted: Collection[str]) -> list[Entry]:
    if not path.is_dir():
        return [Entry(name, Summary(certificates.read(path)))]
    run = Run(path, trusted)
    if not run.recipe_file.is_file():
        raise ValueError(f"{path} is not a run, it has no recipe.toml: name a run, or certificate files such as *.tsv")
    run.recipe  # noqa: B018  code that the user has not vouched for is refused here
    found = [certificates.read(file) for file in sorted(run.certificates.glob("*.tsv"))]
    if not found:
        raise ValueError(f"{path} holds no certificates: `radii certify {path}` makes them")
    present = weights.digest_of(run)
    marked = zip(found, _marks(found), strict=True)
    return [Entry(name, Summary(each), run, mark, weights.weights_of(each, run, present)) for each, mark in marked]


def _marks(found: Sequence[Certificates]) -> list[str]:
    """What tells the certificate files of one run apart: nothing where there is one."""
    if len(found) == 1:
        return [""]
    certifiers = [each.certifier or each.name for each in found]
    return certifiers if len(set(certifiers)) == len(found) else [each.name for each in found]


def _names(paths: Sequence[Path]) -> list[str]:
    """The last part of each path, and as many folders before it as tell it from the others."""
    parts = [(*path.resolve().parts[:-1], path.resolve().name.removesuffix(".tsv")) for path in paths]
    names = []
    for mine in parts:
        depth = 1
        while sum(other[-depth:] == mine[-depth:] for other in parts) > 1 and depth < len(mine):
            depth += 1
        names.append("/".join(mine[-depth:]))
    return names
