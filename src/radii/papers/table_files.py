"""A row of a table from any certificate file, ours or a published one: what cannot be of that row is refused."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import NormalDist

from radii.papers.table import PaperTable, Row, TableError
from radii.papers.table_runs import (
    NOISES,
    Found,
    Result,
    matches,
    noise_of,
    of_images,
    of_own_images,
    of_present_model,
)
from radii.published_datasets import EXTRA_KINDS, KINDS, SIZES, is_corruption
from radii.runs import certificates, recipe
from radii.runs.certificates import Certificates
from radii.runs.run import Run

NAMED = re.compile(r"(cifar100|cifar10[-_]?c|cifar10|fashion_?mnist|mnist[-_]?c|mnist|svhn)(?![a-z0-9])")
"""The dataset that the name of a published log, or of its folder, begins with."""
SPELT = {"cifar10c": "cifar10_c", "mnistc": "mnist_c", "fashionmnist": "fashion_mnist"}
SAMPLES, FAILURE, ROUNDING = 100_000, 0.001, 0.01
"""How the papers certify, and how far their logs round up: no larger radius can be in a log of a sigma."""


def results_from(table: PaperTable, row: Row, path: Path) -> list[Result]:
    """The results of a row from a certificate file or a run; of corruptions, from those in a folder."""
    if table.kind in ("time", "settings"):
        raise TableError(f"{table.name} is a table of {table.kind}: no certificate file has its numbers")
    files = [path] if not path.is_dir() else _of_table(table, _in_folder(path))
    if not files:
        raise TableError(f"{path} holds no certificate files: name a *.tsv file, a folder of them, or a run")
    if len(files) > 1 and table.kind != "corruptions" and _run_of(files[0]) is None:
        raise TableError(f"{path} holds {len(files)} certificate files, and a row is one: name it, such as {files[0]}")
    return [_result(table, row, file) for file in files]


def _in_folder(folder: Path) -> list[Path]:
    inside = folder / "certificates"
    return sorted((inside if inside.is_dir() else folder).glob("*.tsv"))


def _of_table(table: PaperTable, files: Sequence[Path]) -> list[Path]:
    """Without the kinds of corruption that the papers leave out, and of a run what is of other images or weights."""
    run = _run_of(files[0]) if files else None
    if run is None:
        return [file for file in files if table.kind != "corruptions" or file.stem not in EXTRA_KINDS["cifar10_c"]]
    found = Found(run, recipe.read(run.recipe_file))
    read = {file: certificates.read(file) for file in files}
    kept = [file for file, made in read.items() if of_images(table, made) and of_present_model(found, made)]
    if files and not kept:
        raise TableError(f"{run.path} has no certificates of the images of {table.name} and of its present weights")
    return kept


def _result(table: PaperTable, row: Row, file: Path) -> Result:
    made = certificates.read(file)
    dataset = table.dataset[0] if table.kind == "corruptions" else _dataset(row)
    _expect_same(table, row, file, made, dataset)
    _expect_possible(row, file, made, dataset)
    remark = "; ".join([*_other_settings(table, row, file), *_unstated(row, file, made, dataset)])
    return Result(row, str(file), certificates=made, remark=remark)


def _expect_same(table: PaperTable, row: Row, file: Path, made: Certificates, dataset: str | None) -> None:
    if made.sigma is not None and row.sigma is not None and made.sigma != row.sigma:
        raise TableError(f"{file} is of sigma {made.sigma:g}, the row {row.label!r} of {table.name} of {row.sigma:g}")
    if (noise := noise_of(made)) not in NOISES:
        raise TableError(f"{file} is of the noise {noise!r}, the rows of {table.name} of {' or '.join(NOISES)}")
    if (stated := _stated(file, made)) not in (None, dataset):
        raise TableError(f"{file} is of {stated}, the row {row.label!r} of {table.name} of {dataset}")
    if table.kind == "corruptions":
        _expect_kind(table.dataset[0], file, made)
    elif not of_own_images(made) or (not made.header.get("dataset") and is_corruption(file.stem)):
        raise TableError(f"{file} is not of the test images of its run's dataset, as the rows of {table.name} are")


def _dataset(row: Row) -> str | None:
    return row.system.read().dataset["name"] if row.system else None


def _stated(file: Path, made: Certificates) -> str | None:
    """The dataset of the images: of the header, or of the name of a log that has none, or of its folder."""
    other: Mapping[str, str] = made.header.get("evaluated_on", {})
    if stated := other.get("name", made.header.get("dataset")):
        return str(stated)
    named = [found[1] for name in (file.stem, file.parent.name) if (found := NAMED.match(name.casefold()))]
    return SPELT.get(re.sub("[-_]", "", named[0]), named[0]) if named else None


def _expect_kind(dataset: str, file: Path, made: Certificates) -> None:
    """A log without a header is of the kind that it is named after."""
    known = KINDS[dataset].values()
    if "evaluated_on" not in made.header and file.stem not in known:
        raise TableError(f"{file} names no kind of corruption of {dataset}, expected a name such as {min(known)}.tsv")


def _expect_possible(row: Row, file: Path, made: Certificates, dataset: str | None) -> None:
    """Images, classes and radii that the row can have; of a file with a header, the radii were checked in reading."""
    size = SIZES.get(dataset or "")
    index, label = max(each.index for each in made.rows), max(each.label for each in made.rows)
    if size is not None and index >= size.test:
        raise TableError(f"{file} has the image {index}, and {dataset} has {size.test:,} test images, from 0 on")
    if size is not None and label >= size.classes:
        raise TableError(f"{file} has the label {label}, and {dataset} has {size.classes} classes, from 0 on")
    largest = max(each.radius for each in made.rows)
    if row.sigma is not None and "parameters" not in made.header and largest > _most(row.sigma) + ROUNDING:
        raise TableError(
            f"{file} has the radius {largest:g}, and at the row's sigma, {row.sigma:g}, {SAMPLES:,} samples prove none "
            f"above {_most(row.sigma):.3f}: it is of another sigma, or of more samples"
        )


def _most(sigma: float) -> float:
    return sigma * NormalDist().inv_cdf(FAILURE ** (1 / SAMPLES))


def _other_settings(table: PaperTable, row: Row, file: Path) -> Iterator[str]:
    """What a run beside the file trained: another method or model is refused, other settings are told."""
    run = _run_of(file)
    if run is None or row.system is None:
        return
    found, wanted = Found(run, recipe.read(run.recipe_file)), row.system.read()
    mine, theirs = (f"{each.objective['name']} on {each.model['name']}" for each in (found.recipe, wanted))
    if not of_present_model(found, certificates.read(file)):
        raise TableError(f"{file} is of other weights or noise than {run.path} has now")
    if mine != theirs:
        raise TableError(f"{file} is of a run of {mine}, the row {row.label!r} of {table.name} of {theirs}")
    if not matches(found, row.system, table.varies):
        yield "its run has other settings, or another teacher, than the row"


def _run_of(file: Path) -> Run | None:
    """The run whose certificates a file is among."""
    folder = file.parent.parent
    inside = file.parent.name == "certificates" and (folder / "recipe.toml").is_file()
    return Run(folder) if inside else None


def _unstated(row: Row, file: Path, made: Certificates, dataset: str | None) -> Iterator[str]:
    """What the file does not say, so that nobody could check it."""
    missing: Sequence[str] = [
        *(["sigma"] if made.sigma is None and row.sigma is not None else []),
        *(["dataset"] if _stated(file, made) is None and dataset is not None else []),
    ]
    if missing:
        yield f"the file does not state its {' and '.join(missing)}: taken for the row's, unchecked"
