"""A row of a table from any certificate file: ours or a published one."""

from pathlib import Path

from radii.experiment import certificates
from radii.experiment.certificates import Certificates
from radii.experiment.table import PaperTable, Row, TableError
from radii.experiment.table_runs import Result, of_own_images


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
    dataset = row.system.read().dataset["name"] if row.system else None
    if made.header.get("dataset", dataset) != dataset and table.kind != "corruptions":
        raise TableError(f"{file} is of {made.header['dataset']}, the row {row.label!r} of {table.name} of {dataset}")
    if not of_own_images(made) and table.kind != "corruptions":
        raise TableError(f"{file} is not of the test images of its run's dataset, as the rows of {table.name} are")
