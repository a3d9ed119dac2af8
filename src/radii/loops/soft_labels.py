"""Soft labels: how a trained run's base classifier votes on noisy copies of every training image (CAT-RS)."""

import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from radii.engines import AUTO
from radii.experiment import files, readers
from radii.experiment.run import Run, RunError
from radii.loops.components import dataset_of
from radii.loops.load import noise_of, open_run
from radii.smoothing.addresses import NoiseAddress


def soft_labels(
    run: Run,
    *,
    samples: int = 10_000,
    seed: int = 0,
    engine: str = AUTO,
    data: Path | None = None,
    on_image: Callable[[int, int], None] = lambda *_: None,
) -> Path:
    """Write the share of votes of every class for every unaugmented training image; continues where it stopped."""
    if samples < 1:
        raise ValueError(f"samples = {samples}, expected a whole number >= 1")
    images = dataset_of(run, data).split("train")
    name, classifier = open_run(run, engine, noise_of(run.recipe), data, min(samples, 128))
    header = {"samples": samples, "seed": seed, "engine": name, "weights": files.digest(run.weights())}
    header |= {"data": images.digest}
    counts = run.path / "soft-labels.counts"
    done = _continue(run, counts, header, classifier.classes)
    with counts.open("ab") as file:
        for index in range(done, len(images)):
            image = images.batch(torch.tensor([index]))[0]
            votes = classifier.votes(image, samples, NoiseAddress(seed, index, purpose="soft_labels"))
            file.write(votes.astype("<i4").tobytes())
            file.flush()
            on_image(index + 1, len(images))
    table = np.fromfile(counts, "<i4").reshape(len(images), classifier.classes)
    content = io.BytesIO()
    np.save(content, (table / samples).astype(np.float32))
    files.write(run.soft_labels_file, content.getvalue())
    return run.soft_labels_file


def _continue(run: Run, counts: Path, header: dict[str, object], classes: int) -> int:
    """How many images are done; a last row that was cut off is dropped."""
    header_file = counts.with_suffix(".json")
    if not header_file.is_file():
        files.write_json(header_file, header)
        counts.write_bytes(b"")
    if (theirs := readers.json_object(header_file)) != header:
        raise RunError(
            f"{run.path} has soft labels of {theirs}, not of {header}: remove {counts} and {header_file.name}"
        )
    row = 4 * classes
    done = counts.stat().st_size // row
    with counts.open("r+b") as file:
        file.truncate(done * row)
    return done
