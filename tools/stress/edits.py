"""Edits of certificate files that `radii verify` must notice."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from radii import certifiers, datasets
from radii.certification.certify import CertificationConfig, certify_run
from radii.certifiers import Certifier
from radii.runs import certificates
from radii.runs.certificates import COLUMNS, ENVIRONMENTS, checksum, first_checksum, with_checksum
from radii.runs.recipe import Recipe, Training
from radii.runs.run import Run
from radii.smoothing.noise import Gaussian
from radii.training.loop import train

Edit = Callable[[list[str]], None]
"""A change of the cells of a line, in place."""
FIELDS: dict[str, dict[str, Any]] = {
    "fixed": {"selection": 20, "estimation": 200},
    "planned": {"pilot": 20, "most_samples": 400},
    "prediction": {"samples": 200},
    "sequential": {"radii": (0.0, 0.1, 0.25), "most_samples": 500},
    "soft": {"selection": 20, "estimation": 200, "sharpness": 20.0},
}


def certified_run(folder: Path) -> Path:
    """Train and certify a run on an .npz file in a folder, and return the folder."""
    folder.mkdir(exist_ok=True)
    digits = datasets.create("digits")
    content: dict[str, Any] = {}
    for split, count in (("train", 600), ("test", 40)):
        images = digits.split("train" if split == "train" else "test")
        content[f"{split}_images"] = images.batch(torch.arange(count))[:, 0].numpy()
        content[f"{split}_labels"] = images.labels[:count].numpy()
    np.savez(folder / "digits.npz", **content)
    training = Training(epochs=6, images_per_step=64, learning_rate=0.05)
    recipe = Recipe(dataset="arrays", model="digits_cnn", sigma=0.25, training=training)
    run = train(recipe, folder / "run", data=folder / "digits.npz")
    certify(run, "fixed")
    return folder


def certify(run: Run, procedure: str, **fields: Any) -> Path:
    certifier = certifiers.create(procedure, **FIELDS[procedure])
    config = {"run": run.path, "certifier": certifier, "engine": "torch", "max_images": 6, **fields}
    return certify_run(CertificationConfig(**config), workers=1)


def reseal(path: Path, edit: Edit, line: int = 1, header: dict[str, Any] | None = None) -> None:
    """Edit a line or the header, and compute all checksums again."""
    beside = certificates.header_file(path)
    known = {**json.loads(beside.read_text()), **(header or {})}
    rows = [text.split("\t")[:-1] for text in path.read_text().splitlines()[1:]]
    edit(rows[line - 1])
    before, lines = first_checksum(known), ["\t".join(COLUMNS)]
    marks = [before]
    for cells in rows:
        before = checksum("\t".join(cells), before)
        marks.append(before)
        lines.append("\t".join([*cells, before]))
    environments: list[dict[str, Any]] = []
    for entry in known.get(ENVIRONMENTS, []):
        environments.append(with_checksum(entry, marks[entry["first_row"]], environments))
    beside.write_text(json.dumps({**known, ENVIRONMENTS: environments}))
    path.write_text("\n".join(lines) + "\n")


def radius_up(cells: list[str]) -> None:
    cells[3] = repr(float(cells[3]) + 0.01)


def a_vote_moved(cells: list[str]) -> None:
    counts = {int(label): int(count) for label, count in (pair.split(":") for pair in cells[7].split())}
    top = int(cells[2])
    counts[top] -= 1
    counts[(top + 1) % 10] = counts.get((top + 1) % 10, 0) + 1
    cells[7] = " ".join(f"{label}:{count}" for label, count in sorted(counts.items()))


def a_vote_more(cells: list[str]) -> None:
    cells[7] = " ".join(sorted({"9:1", *cells[7].split()}))


def another_label(cells: list[str]) -> None:
    cells[1] = str((int(cells[1]) + 1) % 10)
    cells[4] = str(int(cells[1] == cells[2]))


def another_class(cells: list[str]) -> None:
    cells[2] = str((int(cells[2]) + 1) % 10)
    cells[4] = str(int(cells[1] == cells[2]))


def no_class(cells: list[str]) -> None:
    cells[2] = "77"
    cells[4] = "0"


def an_abstention(cells: list[str]) -> None:
    cells[2], cells[3], cells[4] = "-1", "0.0", "0"


def another_digest(cells: list[str]) -> None:
    cells[8] = "0" * 16


def another_image(cells: list[str]) -> None:
    cells[0] = "4000"


def samples_fewer(cells: list[str]) -> None:
    cells[6] = "219"


def certified_line(path: Path) -> int:
    rows = certificates.read(path).rows
    return 1 + next(number for number, row in enumerate(rows) if row.correct and row.radius > 0)


def both(*edits: Edit) -> Edit:
    def edit(cells: list[str]) -> None:
        for each in edits:
            each(cells)

    return edit


def recompute(cells: list[str]) -> None:
    """Set the radius to that of the edited counts."""
    certifier: Certifier = certifiers.create("fixed", **FIELDS["fixed"])
    counts = np.zeros(10, dtype=np.int64)
    for label, count in (pair.split(":") for pair in cells[7].split()):
        counts[int(label)] = int(count)
    (radius,) = certifier.possible_radii(counts, 220, int(cells[2]), Gaussian(0.25)) or (0.0,)
    cells[3] = repr(radius)
