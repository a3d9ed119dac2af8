"""Use a certificate file, ours or a published log, as a row of a table, if it can belong to that row."""

import re
from collections.abc import Iterator, Sequence
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
"""How the papers certify, and how far their logs round up: these bound the radius in a log of a given sigma."""


def results_from(table: PaperTable, row: Row, path: Path) -> list[Result]:
    """Return the results of a row from a certificate file or a run; for corruptions, from a folder of files."""
    if table.kind in ("time", "settings"):
        raise TableError(f"{table.name} is a table of {table.kind}: certificate files do not hold its numbers")
    files = [path] if not path.is_dir() else _usable_files(table, path)
    if not files:
        raise TableError(f"{path} holds no certificate files: name a *.tsv file, a folder of them, or a run")
    if len(files) > 1 and table.kind != "corruptions" and _run_of(files[0]) is None:
        raise TableError(f"{path} holds {len(files)} certificate files, a row needs one: name it, such as {files[0]}")
    return [_result(table, row, file) for file in files]


def _usable_files(table: PaperTable, folder: Path) -> list[Path]:
    """Return the files of a folder, without kinds that the papers leave out; of a run, those that match the table."""
    inside = folder / "certificates"
    files = sorted((inside if inside.is_dir() else folder).glob("*.tsv"))
    trained = _run_of(files[0]) if files else None
    if trained is None:
        return [file for file in files if table.kind != "corruptions" or file.stem not in EXTRA_KINDS["cifar10_c"]]
    contents = {file: certificates.read(file) for file in files}
    usable = [
        file
        for file, certificates in contents.items()
        if has_images(table, certificates) and has_present_weights(trained, certificates)
    ]
    if not usable:
        raise TableError(
            f"{trained.run.path} has no certificates for the images of {table.name} and its present weights"
        )
    return usable


def _run_of(file: Path) -> ScannedRun | None:
    """Return the run whose certificate folder a file lies in."""
    folder = file.parent.parent
    inside = file.parent.name == "certificates" and (folder / "recipe.toml").is_file()
    return open_run(folder) if inside else None


def _result(table: PaperTable, row: Row, file: Path) -> Result:
    certified = certificates.read(file)
    own = row.system.load_recipe().dataset["name"] if row.system else None
    dataset = table.dataset[0] if table.kind == "corruptions" else own
    _expect_same(table, row, file, certified, dataset)
    _expect_possible(row, file, certified, dataset)
    remarks = [*_settings_remark(table, row, file, certified), *_unstated_remark(row, file, certified, dataset)]
    return Result(row, str(file), certificates=certified, remark="; ".join(remarks))


def _expect_same(table: PaperTable, row: Row, file: Path, certified: Certificates, dataset: str | None) -> None:
    """Refuse a file with another sigma, noise, dataset or kind of images than the row."""
    needs = f"the row {row.label!r} of {table.name} needs"
    if certified.sigma is not None and row.sigma is not None and certified.sigma != row.sigma:
        raise TableError(f"{file} was made with sigma {certified.sigma:g}; {needs} {row.sigma:g}")
    if (noise := noise_name(certified)) not in NOISES:
        raise TableError(f"{file} was made with the noise {noise!r}; {needs} {' or '.join(NOISES)}")
    if (stated := _dataset_of(file, certified)) not in (None, dataset):
        raise TableError(f"{file} was made on {stated}; {needs} {dataset}")
    if table.kind == "corruptions":
        kinds = KINDS[table.dataset[0]].values()
        if "evaluated_on" not in certified.header and file.stem not in kinds:
            raise TableError(
                f"{file} is not named after a kind of corruption of {table.dataset[0]}, such as {min(kinds)}.tsv"
            )
    elif not has_own_test_images(certified) or (not certified.header.get("dataset") and is_corruption(file.stem)):
        raise TableError(f"{file} was not made on the test images of its run's dataset; {needs} those")


def _dataset_of(file: Path, certified: Certificates) -> str | None:
    """Return the dataset of the images: from the header, or from the name of a log or of its folder."""
    header = certified.header
    if stated := header.get("evaluated_on", {}).get("name", header.get("dataset")):
        return str(stated)
    names = [match[1] for name in (file.stem, file.parent.name) if (match := DATASET_NAME.match(name.casefold()))]
    return SPELLINGS.get(re.sub("[-_]", "", names[0]), names[0]) if names else None


def _expect_possible(row: Row, file: Path, certified: Certificates, dataset: str | None) -> None:
    """Refuse images, classes and radii that the row cannot have; a file with a header has its radii checked already."""
    size = SIZES.get(dataset or "")
    index, label = max(line.index for line in certified.rows), max(line.label for line in certified.rows)
    if size is not None and index >= size.test:
        raise TableError(f"{file} has the image {index}, and {dataset} has {size.test:,} test images, from 0 on")
    if size is not None and label >= size.classes:
        raise TableError(f"{file} has the label {label}, and {dataset} has {size.classes} classes, from 0 on")
    largest = max(line.radius for line in certified.rows)
    if row.sigma is None or "parameters" in certified.header:
        return
    most = row.sigma * NormalDist().inv_cdf(FAILURE ** (1 / SAMPLES))
    if largest > most + ROUNDING:
        raise TableError(
            f"{file} has the radius {largest:g}, and at the row's sigma, {row.sigma:g}, {SAMPLES:,} samples prove none "
            f"above {most:.3f}: it was made with another sigma or with more samples"
        )


def _settings_remark(table: PaperTable, row: Row, file: Path, certified: Certificates) -> Iterator[str]:
    """Refuse a file whose run trained another method or model; yield a remark if only its settings differ."""
    trained = _run_of(file)
    if trained is None or row.system is None:
        return
    if not has_present_weights(trained, certified):
        raise TableError(f"{file} was made with other weights or noise than {trained.run.path} has now")
    mine, needed = (
        f"{recipe.objective['name']} on {recipe.model['name']}" for recipe in (trained.recipe, row.system.load_recipe())
    )
    if mine != needed:
        raise TableError(f"{file} belongs to a run of {mine}; the row {row.label!r} of {table.name} needs {needed}")
    if not matches(trained, row.system, table.varies):
        yield "its run has other settings, or another teacher, than the row"


def _unstated_remark(row: Row, file: Path, certified: Certificates, dataset: str | None) -> Iterator[str]:
    """Yield a remark on what the file does not state, and so could not be checked."""
    missing: Sequence[str] = [
        *(["sigma"] if certified.sigma is None and row.sigma is not None else []),
        *(["dataset"] if _dataset_of(file, certified) is None and dataset is not None else []),
    ]
    if missing:
        yield f"the file does not state its {' and '.join(missing)}: taken for the row's, unchecked"
