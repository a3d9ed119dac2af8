"""The archive in results/: runs and their certificates by name, and the numbers measured on them.

A name is a run's folder under results/, such as mnist/six-epochs/gaussian, and stands for its certificates by `fixed`;
`:sequential`, or `:fixed-cd8cde39` where there are several, says which others. `@` and another name leave only the
images that the other has too.
"""

import csv
import json
import math
import re
from collections.abc import Mapping
from functools import cache, cached_property
from pathlib import Path
from statistics import fmean, median, pstdev, stdev
from typing import Any, NamedTuple

from examples.whole_test_set import whole
from radii.papers.match import soft_label_samples
from radii.reports.metrics import Summary
from radii.reports.protocol import describe_images
from radii.reports.text import down, up
from radii.runs import certificates
from radii.runs.certificates import Certificates
from radii.runs.run import Run

__all__ = ["Archive", "Measured", "describe_images", "down", "up"]


class Measured(NamedTuple):
    """A number and its standard error."""

    value: float
    error: float


class Archive:
    """The files behind docs/results.md and results/diary.md, under the root of the repository."""

    def __init__(self, root: Path) -> None:
        self.folder = root / "results"
        self.performance = root / "docs" / "performance.md"
        self._read = cache(certificates.read)

    def run(self, name: str) -> Run:
        """Return the run of this name."""
        run = Run(
            self.folder / re.split("[:@]", name)[0],
            trusted=("examples.convnet", "examples.cifar_nets", "examples.efficientnet_lite"),
        )
        if not run.recipe_file.is_file():
            raise ValueError(f"results/ has no run {name}: restore it, or take its numbers out of the template")
        return run

    def file(self, name: str) -> Path:
        """Return the certificate file of this name."""
        folder, _, stem = name.partition(":")
        found = sorted(self.run(folder).certificates.glob(f"{stem or 'fixed'}*.tsv"))
        if len(found) != 1:
            raise ValueError(f"{name} stands for {len(found)} certificate files, expected 1: restore it, or name one")
        return found[0]

    def made(self, name: str) -> Certificates:
        """Return the certificates of this name."""
        wanted, _, other = name.partition("@")
        found = self._read(self.file(wanted))
        if not other:
            return found
        kept = {row.index for row in self._read(self.file(other)).rows}
        return Certificates(found.name, [row for row in found.rows if row.index in kept], found.header)

    def summary(self, name: str) -> Summary:
        return Summary(self.made(name))

    def radii(self, name: str) -> dict[int, float]:
        """Return the certified radius of every image, 0 for a wrong prediction or an abstention."""
        return {row.index: row.correct * row.radius for row in self.made(name).rows}

    def seeds(self, name: str) -> list[str]:
        """Return the names of the runs that differ from this one only in the seed of their name, NAME-seed0."""
        first = self.run(name).path
        stem, found, _ = first.name.rpartition("-seed")
        alike = first.parent.glob(f"{stem}-seed[0-9]") if found else [first]
        return [str(path.relative_to(self.folder)) for path in sorted(alike)]

    def over_seeds(self, name: str) -> str:
        """Return the mean ACR over seeds with the standard deviation of one of them; the ACR where there is one
        seed."""
        found = [self.summary(each).acr for each in self.seeds(name)]
        return f"{down(fmean(found), 4)} ± {up(stdev(found), 4)}" if len(found) > 1 else down(found[0], 3)

    def error(self, name: str) -> float:
        """Return the standard error of an ACR over the choice of images."""
        return _measured(list(self.radii(name).values())).error

    def difference(self, name: str, other: str) -> Measured:
        """Return the mean of the first minus the second, over the images that both have."""
        mine, theirs = self.radii(name), self.radii(other)
        return _measured([mine[index] - theirs[index] for index in mine.keys() & theirs.keys()])

    def difference_at(self, name: str, other: str, radius: float) -> Measured:
        """Return the first one's certified accuracy minus the second one's at a radius, over the images that both
        have."""
        mine, theirs = self.certified(name, radius), self.certified(other, radius)
        return _measured([mine[index] - theirs[index] for index in mine.keys() & theirs.keys()])

    def certified(self, name: str, radius: float) -> dict[int, bool]:
        """Return whether an image is certified and correct at a radius; the radius must have been tested."""
        self.expect_decided(name, radius)
        return {row.index: row.correct and row.radius >= radius for row in self.made(name).rows}

    def expect_decided(self, name: str, radius: float) -> None:
        """Raise ValueError if the certificates did not test this radius: the answer would only be a bound."""
        if not self.summary(name).decided(radius):
            raise ValueError(f"{name} did not decide the radius {radius}: take one that its certificates asked for")

    def whole(self, few_images: str, few_samples: str) -> Measured:
        """Return the ACR on the whole test set, as examples/whole_test_set.py estimates it."""
        return Measured(*whole(self.file(few_images), self.file(few_samples)))

    def history(self, name: str, column: str) -> list[float]:
        """Return a column of training.csv, one number per epoch."""
        if not (rows := self.run(name).history()):
            raise ValueError(f"{name} has no training.csv: restore it, or take its numbers out of the template")
        return [float(row[column]) for row in rows]

    def epoch_seconds(self, name: str) -> float:
        return median(self.history(name, "seconds"))

    def method_seconds(self, name: str) -> float:
        """Return the time of an epoch of the first teacher's method on a student, from transfer.json."""
        cost = json.loads((self.run(name).path / "transfer.json").read_text())
        return float(cost["method_seconds_per_epoch"])

    def votes(self, name: str) -> int:
        """Return the number of votes per image behind the soft labels of a run."""
        if (found := soft_label_samples(self.run(name))) is None:
            raise ValueError(f"{name} does not record the votes of its soft labels")
        return found

    def setting(self, name: str, key: str) -> Any:
        """Return a value of a run's recipe, such as training.epochs."""
        value: Any = self.run(name).recipe
        for part in key.split("."):
            value = value[part] if isinstance(value, Mapping) else getattr(value, part)
        return value

    @cached_property
    def published(self) -> dict[str, dict[str, str]]:
        """The papers' numbers in results/published.csv."""
        with (self.folder / "published.csv").open(newline="") as file:
            return {row["name"]: row for row in csv.DictReader(file)}

    def speeds(self, title: str) -> dict[str, dict[str, str]]:
        """Return the table of docs/performance.md below the line that starts with `title`: its rows by their first
        cell."""
        _, found, text = self.performance.read_text().partition(f"\n{title}")
        lines = re.findall(r"^\|.*\|$", text.split("\n\n")[1], re.MULTILINE) if found else []
        if len(lines) < 3:
            raise ValueError(f"docs/performance.md has no table {title!r}: measure it with scripts/bench")
        head, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines)
        return {row[0]: dict(zip(head, row, strict=True)) for row in rows}


def _measured(values: list[float]) -> Measured:
    return Measured(fmean(values), pstdev(values) / math.sqrt(len(values)))
