"""The scoreboard of docs/results.md: a row for every certificate file in results/, and accuracy over hours."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.archive import Archive
from radii.reports.metrics import without_noise
from radii.reports.text import down
from radii.runs.run import Run

BEST = 3
"""Rows of the scoreboard in its head, those of the papers apart."""


class Row(NamedTuple):
    """A certificate file of the archive, under the name of its run and file."""

    name: str
    run: Run
    sigma: float
    hours: float | None
    """Training time in hours of a core; None if it was not recorded."""


def rows(archive: Archive, dataset: str) -> list[Row]:
    """Return a row for every certificate file of a dataset, by sigma and training time; of several seeds the first."""
    files = sorted((archive.folder / dataset).rglob("certificates/*.tsv"))
    found = [_row(archive, file) for file in files]
    first = [row for row in found if archive.seeds(row.name.partition(":")[0])[0] == row.name.partition(":")[0]]
    return sorted(first, key=lambda row: (row.sigma, row.hours or 0.0, row.name))


def _row(archive: Archive, file: Path) -> Row:
    folder = file.parents[1]
    name = f"{folder.relative_to(archive.folder)}:{file.stem}"
    run = archive.run(name)
    return Row(name, run, archive.made(name).sigma or 0.0, core_hours(run))


def core_hours(run: Run) -> float | None:
    """Return the processor time of a run's training and of the archived runs that it continues; None if unknown."""
    own, earlier = _own_hours(run), run.source("initial")
    if own is None or earlier is None or not (earlier / "training.csv").is_file():
        return own
    before = core_hours(Run(earlier, run.trusted))
    return None if before is None else own + before


def _own_hours(run: Run) -> float | None:
    """Return the processor time of a run's own training; of older runs its time, times its threads and processes."""
    history = run.history()
    if not history:
        return None
    if "core_seconds" in history[0]:
        return sum(float(row["core_seconds"]) for row in history) / 3600
    environment = run.environment()
    processes = max((part["processes"] for part in environment.get("training", ())), default=1)
    cores: int = environment.get("threads", 1) * processes
    return cores * sum(float(row["seconds"]) for row in history) / 3600


def scoreboard(archive: Archive, dataset: str, *radii: str) -> str:
    """Render the table of a dataset, with certified accuracy in per cent at some radii, and the papers' rows below."""
    head = ["method", "network", "sigma", "hours", "without noise", "ACR", *radii, "images", "certified by", "run"]
    lines = [[*_cells(archive, row, radii)] for row in rows(archive, dataset)]
    lines += _published(archive, dataset, radii)
    return "\n".join("| " + " | ".join(line) + " |" for line in [head, ["---"] * len(head), *lines])


def head(archive: Archive, dataset: str, sigma: str, *radii: str) -> str:
    """Render the scoreboard's best rows, by certified accuracy at the first radius, and the papers' rows below.

    Only files of the most images are compared: accuracy on few images is better or worse by chance.
    """
    decided = [row for row in rows(archive, dataset) if f"{row.sigma:.2f}" == sigma]
    decided = [row for row in decided if archive.summary(row.name).decided(float(radii[0]))]
    most = max(archive.summary(row.name).images for row in decided)
    found = [row for row in decided if archive.summary(row.name).images == most]
    found.sort(key=lambda row: -archive.summary(row.name).at(float(radii[0])).value)
    lines = [["method", "network", "sigma", "hours", *radii, "images", "certified by"]]
    lines.append(["---"] * len(lines[0]))
    for row in found[:BEST]:
        method, network, stated, hours, _, _, *cells, _ = _cells(archive, row, radii)
        lines.append([method, network, stated, hours, *cells])
    for method, network, stated, _, _, _, *cells, _ in _published(archive, dataset, radii):
        if stated == sigma:
            lines.append([method, network, stated, "", *cells])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _cells(archive: Archive, row: Row, radii: Sequence[str]) -> list[str]:
    summary, made = archive.summary(row.name), archive.made(row.name)
    seeds = archive.seeds(row.name.partition(":")[0])
    several = len(seeds) > 1 and len(list((row.run.path / "certificates").glob("*.tsv"))) == 1
    acr = archive.over_seeds(row.name.partition(":")[0]) if several else down(summary.acr, 3)
    exact = summary.tested_radii is None
    shares = [
        down(summary.at(float(radius)).value, 1, 2)
        if summary.decided(float(radius)) and float(radius) <= summary.largest
        else ""
        for radius in radii
    ]
    folder, alone = row.run.path.relative_to(archive.folder), without_noise(row.run)
    return [
        _method(row.run),
        _network(row.run),
        f"{row.sigma:.2f}",
        "" if row.hours is None else f"{row.hours:.2f}",
        "" if alone is None else down(alone.value, 1, 2),
        acr if exact else "",
        *shares,
        f"{summary.images:,}",
        f"{made.certifier}, {samples(made.parameters)}, {made.header.get('engine', '')}".removesuffix(", "),
        f"[`{'/'.join(folder.parts[1:])}`](../results/{folder.as_posix()}/recipe.toml)",
    ]


def samples(parameters: object) -> str:
    """Say how many samples a certifier takes for an image, or at most."""
    assert isinstance(parameters, dict)
    if "estimation" in parameters:
        return f"n = {parameters['estimation']:,}"
    return f"n at most {parameters['most_samples']:,}"


def _method(run: Run) -> str:
    """Name the method of a run; of a student, also that of its first teacher."""
    objective, teacher = run.recipe.objective["name"], run.source("teacher")
    first = None
    while teacher is not None:
        first = Run(teacher, trusted=("examples.convnet", "examples.cifar_nets"))
        teacher = first.source("teacher")
    return objective if first is None else f"{objective} from {first.recipe.objective['name']}"


def _network(run: Run) -> str:
    model = run.recipe.model
    return f"{model['name']}, width {model['width']}" if "width" in model else str(model["name"])


def _published(archive: Archive, dataset: str, radii: Sequence[str]) -> list[list[str]]:
    """Return the papers' rows of a dataset that have a number in one of the columns."""
    lines = []
    for name, row in archive.published.items():
        cells = [row.get(radius) or "" for radius in radii]
        if name.startswith(f"{dataset}/") and row["sigma"] and any((row["acr"], *cells)):
            source = f"{row['paper']}, Table {row['table']}"
            method = name.partition("/")[2].removesuffix(f"-{row['sigma']}")
            made = f"fixed, n = {row['n']}" if row["n"] else ""
            lines.append([method, "published", row["sigma"], "", "", row["acr"], *cells, row["images"], made, source])
    return sorted(lines, key=lambda line: (line[2], line[5]))


def points(archive: Archive, dataset: str, sigma: float, radius: float) -> list[tuple[str, float, float]]:
    """Return method, hours and certified accuracy in per cent at a radius for every run, from its largest file.

    Runs that were tried and missed are left out, and fine-tuned networks of others, whose hours are not known.
    """
    found: dict[Path, tuple[int, tuple[str, float, float]]] = {}
    for row in rows(archive, dataset):
        summary = archive.summary(row.name)
        if row.sigma != sigma or not row.hours or not summary.decided(radius):
            continue
        if "/tried/" in row.name or "/brought/" in row.name:
            continue
        if row.run.path not in found or summary.images > found[row.run.path][0]:
            method = _method(row.run).partition(" ")[0]
            found[row.run.path] = summary.images, (method, row.hours, 100 * summary.at(radius).value)
    return sorted(point for _, point in found.values())
