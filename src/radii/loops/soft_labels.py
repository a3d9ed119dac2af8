"""Soft labels: how a trained run's base classifier votes on noisy copies of every training image (CAT-RS)."""

import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from radii.engines import AUTO
from radii.experiment import files, readers
from radii.experiment.run import Run, RunError
from radii.lock import locked
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
    if not 0 <= seed < 1 << 128:
        raise ValueError(f"seed = {str(seed)[:40]}, expected a whole number >= 0, of 128 bits at most")
    images = dataset_of(run, data).part("train")
    name, classifier = open_run(run, engine, noise_of(run.recipe), data, min(samples, 128))
    header = {"samples": samples, "seed": seed, "engine": name, "weights": files.digest(run.weights())}
    header |= {"data": images.digest}
    counts = run.path / "soft-labels.counts"
    with locked(run.soft_labels_file):
        for index in range(_continue(run, counts, header, classifier.classes), len(images)):
            image = images.batch(torch.tensor([index]))[0]
            votes = classifier.votes(image, samples, NoiseAddress(seed, index, purpose="soft_labels"))
            files.append(counts, votes.astype("<i4").tobytes())
            on_image(index + 1, len(images))
        _publish(run, np.fromfile(counts, "<i4").reshape(len(images), classifier.classes) / samples)
    return run.soft_labels_file


def _publish(run: Run, shares: NDArray[np.float64]) -> None:
    content = io.BytesIO()
    np.save(content, shares.astype(np.float32))
    files.write(run.soft_labels_file, content.getvalue())


def _continue(run: Run, counts: Path, header: dict[str, object], classes: int) -> int:
    """How many images are done; a last row that was cut off is dropped."""
    header_file = counts.with_suffix(".json")
    files.sweep(run.path, [header_file.name, counts.name, run.soft_labels_file.name])
    if not header_file.is_file():
        files.remove(counts)  # before the header that describes them
        files.write_json(header_file, header)
    if (theirs := readers.json_object(header_file)) != header:
        raise RunError(
            f"{run.path} has soft labels of {theirs}, not of {header}: remove {counts} and {header_file.name}"
        )
    if not counts.is_file():
        files.write(counts, b"")
    row = 4 * classes
    done = counts.stat().st_size // row
    files.truncate(counts, done * row)
    return done
