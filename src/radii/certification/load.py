"""Load the smoothed classifier of a trained run."""

import math
import warnings
from collections.abc import Collection, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from numbers import Integral
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from radii import engines
from radii.certification.deployment import (
    certified_noises,
    chosen_engine,
    record_engine,
    stated_noise,
    warn_of_another,
)
from radii.datasets import spread_images
from radii.datasets.base import DataError
from radii.engines import AUTO, EngineSpec, SmoothedClassifier
from radii.errors import RunWarning
from radii.provenance import artefact_path
from radii.runs import trust as trusted
from radii.runs.recipe import Recipe, Spec, fields_of, named_table
from radii.runs.run import Run
from radii.runs.trust import UnnamedDataError
from radii.smoothing import noise as noises
from radii.smoothing.noise import Noise
from radii.training.open_dataset import OtherClassesError, dataset_of
from radii.training.weights import device_for, model_spec, trained_model

CALIBRATION_BLOCKS = 8
MOST_VALUES = 1 << 31
"""Values of a forward pass: these are eight gigabytes. A file of a stranger states the size."""


def load(
    run: Run | Path | str,
    *,
    engine: str = AUTO,
    noise: Spec | None = None,
    data: Path | None = None,
    batch_size: int | None = None,
    device: str | torch.device | None = None,
    trust: Collection[str] = (),
) -> SmoothedClassifier:
    """Load the smoothed classifier of a finished run; only an engine that calibrates needs `data`.

    `auto` takes the engine of the certificates of the present weights, or the one that was chosen before; asking for
    another engine gives a warning. The noise, too, is by default that of the certificates. The engine is compared with
    the trained model: on noisy training images if `data` names the dataset, otherwise on noisy random images, because
    a deployed model has no training data. `device` is by default what RADII_DEVICE names, or a GPU if there is one.
    `trust` names the modules whose code the run may import: without it, a run's folder is only data.

    >>> import radii, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> run = radii.train("digits/gaussian-0.25", run=f"{folder}/g", settings=["training.epochs=1"])
    >>> radii.load(run, engine="torch")
    SmoothedClassifier(..., noise=Gaussian(sigma=0.25), classes=10, engine='torch')
    """
    if not isinstance(run, Run | Path | str):
        raise ValueError(f"run = {run!r}, expected the folder of a trained run")
    run = run if isinstance(run, Run) else Run(run, trust)
    where = None if device is None else torch.device(device)
    name, classifier = open_run(run, engine, deployed_noise(run, noise), data, batch_size, data is not None, where)
    warn_of_another(run, name, classifier)
    image = torch.empty(model_spec(run).shape)
    classifier.adopt(name, image, classifier.prepared_for(image)[1], watched=True)
    return classifier


def noise_of(recipe: Recipe, spec: Spec = "gaussian") -> Noise:
    """Make a noise from its name and fields; a noise with a sigma has the recipe's by default."""
    table = named_table(spec, "noise")
    default = {"sigma": recipe.sigma} if "sigma" in noises.fields(table["name"]) else {}
    return noises.create(table["name"], **{**default, **fields_of(table)})


def deployed_noise(run: Run, spec: Spec | None = None) -> Noise:
    """Make the noise that is asked for, by default that of the certificates of the present weights.

    If the certificates have several noises, take the recipe's if it is among them, and otherwise the one with the most
    rows; warn about the others. A run without certificates has Gaussian noise of the recipe's sigma.
    """
    certified = certified_noises(run)
    if spec is None and certified:
        spec = stated_noise(run)
        trusted.require([str(spec["name"])], run.trusted, run.path)
    noise = noise_of(run.recipe, "gaussian" if spec is None else spec)
    others = [_in_words(other) for other in certified if other != noise.describe()]
    if others:
        names = f"the noise {' and '.join(others)}" if len(others) < 3 else f"{len(others)} noises, such as {others[0]}"
        warnings.warn(
            f"{run.path} has certificates for {names}: they do not hold for the noise used now, {noise}",
            RunWarning,
            stacklevel=3,
        )
    return noise


def _in_words(noise: Mapping[str, Any]) -> str:
    return ", ".join([str(noise.get("name")), *(f"{key} {value}" for key, value in noise.items() if key != "name")])


def open_run(
    run: Run,
    engine: str,
    noise: Noise,
    data: Path | None,
    batch_size: int | None = None,
    data_at_hand: bool = True,
    device: torch.device | None = None,
) -> tuple[str, SmoothedClassifier]:
    """Return the engine that runs a finished run, and its smoothed classifier.

    With `data_at_hand` the engine is compared with the trained model on noisy training images, otherwise, or if the
    training split cannot be read, on random ones. Without a batch size, it is one that suits the device.
    """
    device = device_for(run, device)
    if batch_size is None:
        batch_size = engines.default_batch_size(device, math.prod(model_spec(run).shape))
    if isinstance(batch_size, bool) or not isinstance(batch_size, Integral) or batch_size < 1:
        raise ValueError(f"batch_size = {batch_size!r}, expected a whole number >= 1")
    spec = model_spec(run)
    if batch_size * math.prod(spec.shape) > MOST_VALUES:
        raise ValueError(f"batch_size = {batch_size}, too large for images of shape {spec.shape}. Use a smaller one.")
    asked = chosen_engine(run, engine, device)
    engine_spec = EngineSpec(
        original=trained_model(run, device),
        shape=spec.shape,
        noise=noise,
        batch_size=batch_size,
        artefact=artefact_path(run, asked, run.weights_digest()),
        calibration_images=partial(_calibration_images, run, data, batch_size),
        examples=partial(_examples, run, data, spec.shape, batch_size) if data_at_hand else None,
    )
    name, form = engines.prepare(engine_spec, asked)
    if engine == AUTO:
        record_engine(run, name)
    classifier = SmoothedClassifier(
        engine_spec.original,
        noise=noise,
        classes=spec.classes,
        batch_size=batch_size,
        engine=name,
        names=spec.class_names or None,
        artefact=engine_spec.artefact,
        shape=spec.shape,
    )
    classifier.adopt(name, torch.empty(spec.shape), form)
    return name, classifier


def stays_off(target: torch.device, workers: int, executor: Executor | None = None) -> bool:
    """Return whether this process stays off the GPUs, because other processes count on them.

    A GPU may allow one process alone, and memory is scarce there.
    """
    elsewhere = workers > 1 if executor is None else not isinstance(executor, ThreadPoolExecutor)
    return target.type != "cpu" and elsewhere


def off_the_gpu(run: Run, engine: str, batch_size: int | None, target: torch.device) -> tuple[str, int]:
    """Return the engine and the batch size of workers on a GPU, for a process that opens the run on the CPU."""
    chosen = chosen_engine(run, engine, target)
    size = batch_size or engines.default_batch_size(target, math.prod(model_spec(run).shape))
    return "torch" if chosen == AUTO else chosen, size


def _calibration_images(run: Run, data: Path | None, batch_size: int) -> Tensor:
    images = dataset_of(run, data).part("train")
    return images.batch(torch.arange(min(len(images), CALIBRATION_BLOCKS * batch_size)))


def _examples(run: Run, data: Path | None, shape: tuple[int, int, int], batch_size: int) -> Tensor:
    try:
        return spread_images(dataset_of(run, data).part("train"), batch_size)
    except (DataError, UnnamedDataError, OtherClassesError):  # only the test images may be here
        return engines.drawn(batch_size, shape)
