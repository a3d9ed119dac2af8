"""Use a certificate file, ours or a published log, as a row of a table, if it can belong to that row."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from pathlib import Path
from statistics import NormalDist

from radii.papers.match import (
    NOISES,
    Result,
    ScannedRun,
    has_images,
    has_own_test_images,
    has_present_weights,
    matches,
    noise_name,
    open_run,
)
from radii.papers.tables import PaperTable, Row, TableError
from radii.published_datasets import EXTRA_KINDS, KINDS, SIZES, is_corruption
from radii.runs import certificates
from radii.runs.certificates import Certificates

DATASET_NAME = re.compile(r"(cifar100|cifar10[-_]?c|cifar10|fashion_?mnist|mnist[-_]?c|mnist|svhn)(?![a-z0-9])")
"""The dataset that the name of a published log, or of its folder, begins with."""
SPELLINGS = {"cifar10c": "cifar10_c", "mnistc": "mnist_c", "fashionmnist": "fashion_mnist"}
SAMPLES, FAILURE, ROUNDING = 100_000, 0.001, 0.01
"""How the papers certify, and how far their logs round up; these bound the radii in a log of a given sigma."""


def results_from(table: PaperTable, row: Row, path: Path) -> list[Result]:
    """Return the results of a row from a certificate file or a run; for corruptions, from a folder of files."""
    if table.kind in ("time", "settings"):
        raise TableError(f"{table.name} is a table of {table.kind}: certificate files do not hold its numbers")
    files = _files_in(path, table) if path.is_dir() else [path]
    if not files:
        raise TableError(f"{path} holds no certificate files. Name a *.tsv file, a folder of them, or a run.")
    trained = _run_of(files[0])
    if len(files) > 1 and table.kind != "corruptions" and trained is None:
        raise TableError(f"{path} holds {len(files)} certificate files, a row needs one. Name it, such as {files[0]}.")
    candidates = [_Candidate(table, row, file, certificates.read(file), trained) for file in files]
    if path.is_dir() and trained is not None:
        candidates = [candidate for candidate in candidates if candidate.fits_run(trained)]
        if not candidates:
            raise TableError(
                f"{trained.run.path} has no certificates for the images of {table.name} and its present weights"
            )
    return [candidate.result() for candidate in candidates]


def _files_in(folder: Path, table: PaperTable) -> list[Path]:
    """Return the certificate files in a folder or a run, without kinds of corruption that the papers leave out."""
    inside = folder / "certificates"
    files = sorted((inside if inside.is_dir() else folder).glob("*.tsv"))
    return [file for file in files if table.kind != "corruptions" or file.stem not in EXTRA_KINDS["cifar10_c"]]


def _run_of(file: Path) -> ScannedRun | None:
    folder = file.parent.parent
    inside = file.parent.name == "certificates" and (folder / "recipe.toml").is_file()
    return open_run(folder) if inside else None


@dataclass(frozen=True)
class _Candidate:
    """A certificate file, and the row of a table that it is named for."""

    table: PaperTable
    row: Row
    file: Path
    certified: Certificates
    trained: ScannedRun | None
    """The run that the file lies in."""

    def fits_run(self, trained: ScannedRun) -> bool:
        return has_images(self.table, self.certified) and has_present_weights(trained, self.certified)

    def result(self) -> Result:
        """Return the file as a result of the row; raise a TableError if it cannot belong to that row."""
        self._check_settings()
        self._check_values()
        remarks = [*self._run_remarks(), *self._unchecked_remarks()]
        return Result(self.row, str(self.file), certificates=self.certified, remark="; ".join(remarks))

    @property
    def _needs(self) -> str:
        return f"the row {self.row.label!r} of {self.table.name} needs"

    @property
    def _needed_dataset(self) -> str | None:
        if self.table.kind == "corruptions":
            return self.table.dataset[0]
        return self.row.system.load_recipe().dataset["name"] if self.row.system else None

    @cached_property
    def _dataset(self) -> str | None:
        """The dataset of the images: from the header, or from the name of a log or of its folder."""
        header = self.certified.header
        if stated := header.get("evaluated_on", {}).get("name", header.get("dataset")):
            return str(stated)
        file = self.file
        names = [match[1] for name in (file.stem, file.parent.name) if (match := DATASET_NAME.match(name.casefold()))]
        return SPELLINGS.get(re.sub("[-_]", "", names[0]), names[0]) if names else None

    def _check_settings(self) -> None:
        """Refuse a file with another sigma, noise, dataset or kind of images than the row."""
        file, sigma, header = self.file, self.certified.sigma, self.certified.header
        if sigma is not None and self.row.sigma is not None and sigma != self.row.sigma:
            raise TableError(f"{file} was made with sigma {sigma:g}; {self._needs} {self.row.sigma:g}")
        if (noise := noise_name(self.certified)) not in NOISES:
            raise TableError(f"{file} was made with the noise {noise!r}; {self._needs} {' or '.join(NOISES)}")
        if self._dataset not in (None, self._needed_dataset):
            raise TableError(f"{file} was made on {self._dataset}; {self._needs} {self._needed_dataset}")
        if self.table.kind == "corruptions":
            dataset = self.table.dataset[0]
            kinds = KINDS[dataset].values()
            if "evaluated_on" not in header and file.stem not in kinds:
                raise TableError(
                    f"{file} is not named after a kind of corruption of {dataset}, such as {min(kinds)}.tsv"
                )
        elif not has_own_test_images(self.certified) or (not header.get("dataset") and is_corruption(file.stem)):
            raise TableError(f"{file} was not made on the test images of its run's dataset; {self._needs} those")

    def _check_values(self) -> None:
        """Refuse impossible indices, labels and radii; reading a file with a header has checked its radii."""
        file, dataset, sigma, rows = self.file, self._needed_dataset, self.row.sigma, self.certified.rows
        size = SIZES.get(dataset or "")
        index, label, largest = (max(map(attrgetter(name), rows)) for name in ("index", "label", "radius"))
        if size is not None and index >= size.test:
            raise TableError(f"{file} has the image {index}, and {dataset} has {size.test:,} test images, from 0 on")
        if size is not None and label >= size.classes:
            raise TableError(f"{file} has the label {label}, and {dataset} has {size.classes} classes, from 0 on")
        if sigma is None or "parameters" in self.certified.header:
            return
        most = sigma * NormalDist().inv_cdf(FAILURE ** (1 / SAMPLES))
        if largest > most + ROUNDING:
            raise TableError(
                f"{file} has the radius {largest:g}, and at the row's sigma, {sigma:g}, {SAMPLES:,} samples prove none "
                f"above {most:.3f}: it was made with another sigma or with more samples"
            )

    def _run_remarks(self) -> Iterator[str]:
        """Refuse a file whose run trained another method or model; yield a remark if only its settings differ."""
        trained, system = self.trained, self.row.system
        if trained is None or system is None:
            return
        if not has_present_weights(trained, self.certified):
            raise TableError(f"{self.file} was made with other weights or noise than {trained.run.path} has now")
        own, needed = (
            f"{recipe.objective['name']} on {recipe.model['name']}" for recipe in (trained.recipe, system.load_recipe())
        )
        if own != needed:
            raise TableError(f"{self.file} belongs to a run of {own}; {self._needs} {needed}")
        if not matches(trained, system, self.table.varies):
            yield "its run has other settings, or another teacher, than the row"

    def _unchecked_remarks(self) -> Iterator[str]:
        """Yield a remark on what the file does not state, and so could not be checked."""
        unknown = {
            "sigma": self.certified.sigma is None and self.row.sigma is not None,
            "dataset": self._dataset is None and self._needed_dataset is not None,
        }
        missing = [name for name, is_unknown in unknown.items() if is_unknown]
        if missing:
            yield f"the file does not state its {' and '.join(missing)}: taken for the row's, unchecked"
