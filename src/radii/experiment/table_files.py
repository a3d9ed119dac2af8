"""A row of a table from any certificate file: ours or a published one."""

import re
from collections.abc import Mapping
from pathlib import Path

from radii.experiment import certificates
from radii.experiment.certificates import Certificates
from radii.experiment.corruption_kinds import KINDS
from radii.experiment.table import PaperTable, Row, TableError
from radii.experiment.table_runs import NOISES, Result, noise_of, of_own_images

NAMED = re.compile(r"(cifar100|cifar10|fashion_mnist|mnist|svhn)(?![a-z0-9])")
"""The dataset that the name of a published log begins with."""


def results_from(table: PaperTable, row: Row, path: Path) -> list[Result]:
    """The results of a row from a certificate file, or from those in a folder; other sigmas and images are refused."""
    if table.kind in ("time", "settings"):
        raise TableError(f"{table.name} is a table of {table.kind}: no certificate file has its numbers")
    files = [path] if not path.is_dir() else _in_folder(path)
    if not files:
        raise TableError(f"{path} holds no certificate files: name a *.tsv file, a folder of them, or a run")
    made = {file: certificates.read(file) for file in files}
    for file, each in made.items():
        _expect_same(table, row, file, each)
    return [Result(row, str(file), certificates=each) for file, each in made.items()]


def _in_folder(folder: Path) -> list[Path]:
    inside = folder / "certificates"
    return sorted((inside if inside.is_dir() else folder).glob("*.tsv"))


def _expect_same(table: PaperTable, row: Row, file: Path, made: Certificates) -> None:
    if made.sigma is not None and row.sigma is not None and made.sigma != row.sigma:
        raise TableError(f"{file} is of sigma {made.sigma:g}, the row {row.label!r} of {table.name} of {row.sigma:g}")
    if (noise := noise_of(made)) not in NOISES:
        raise TableError(f"{file} is of the noise {noise!r}, the rows of {table.name} of {' or '.join(NOISES)}")
    dataset = table.dataset[0] if table.kind == "corruptions" else _dataset(row)
    if (stated := _stated(file, made)) not in (None, dataset):
        raise TableError(f"{file} is of {stated}, the row {row.label!r} of {table.name} of {dataset}")
    if table.kind == "corruptions":
        _expect_kind(table.dataset[0], file, made)
    elif not of_own_images(made):
        raise TableError(f"{file} is not of the test images of its run's dataset, as the rows of {table.name} are")


def _dataset(row: Row) -> str | None:
    return row.system.read().dataset["name"] if row.system else None


def _stated(file: Path, made: Certificates) -> str | None:
    """The dataset of the images: of the header, or of the name of a log that has none."""
    other: Mapping[str, str] = made.header.get("evaluated_on", {})
    if stated := other.get("name", made.header.get("dataset")):
        return str(stated)
    named = NAMED.match(file.stem.casefold())
    return named[1] if named else None


def _expect_kind(dataset: str, file: Path, made: Certificates) -> None:
    """A log without a header is of the kind that it is named after."""
    known = KINDS[dataset].values()
    if "evaluated_on" not in made.header and file.stem not in known:
        raise TableError(f"{file} names no kind of corruption of {dataset}, expected a name such as {min(known)}.tsv")
