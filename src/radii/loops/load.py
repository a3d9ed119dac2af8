"""The smoothed classifier of a trained run."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from radii import engines
from radii.datasets.base import DataError
from radii.engines import AUTO, EngineSpec
from radii.experiment import files
from radii.experiment.recipe import Recipe, Spec, fields_of, named_table
from radii.experiment.run import Run
from radii.loops.components import dataset_of, spread_images
from radii.loops.deployment import chosen_engine, record_engine, warn_of_another
from radii.loops.identity import artefact_path
from radii.loops.weights import model_spec, trained_model
from radii.smoothing import noise as noises
from radii.smoothing.classifier import SmoothedClassifier
from radii.smoothing.noise import Noise

CALIBRATION_BLOCKS = 8


def load(
    run: Run | Path | str,
    *,
    engine: str = AUTO,
    noise: Spec = "gaussian",
    data: Path | None = None,
    batch_size: int = 128,
    trust: Collection[str] = (),
) -> SmoothedClassifier:
    """The smoothed classifier of a finished run; `data` is needed only by an engine that calibrates.

    `auto` is the engine named by the certificates of the present weights, or the one that was chosen before; a warning
    is issued if another one is requested. The engine has to give the trained model's classes: on noisy training images
    where `data` names the dataset, and otherwise, since a deployed model does without, on noisy images that are drawn.
    `trust` names the modules whose code the run may import: without it a run directory is only data.
    """
    run = run if isinstance(run, Run) else Run(run, trust)
    name, classifier = open_run(run, engine, noise_of(run.recipe, noise), data, batch_size, data is not None)
    warn_of_another(run, name)
    return classifier


def noise_of(recipe: Recipe, spec: Spec = "gaussian") -> Noise:
    """A noise by name and fields; where it has a sigma, the recipe's is the default."""
    table: Mapping[str, Any] = named_table(spec, "noise")
    fields = fields_of(table)
    try:
        return noises.create(table["name"], **{"sigma": recipe.sigma, **fields})
    except LookupError as error:
        if "has no field 'sigma'" not in str(error):
            raise
        return noises.create(table["name"], **fields)


def open_run(
    run: Run, engine: str, noise: Noise, data: Path | None, batch_size: int, data_at_hand: bool = True
) -> tuple[str, SmoothedClassifier]:
    """The engine that was chosen for a finished run, and the smoothed classifier that it carries.

    With `data_at_hand` the engine is compared with the trained model on noisy training images; on drawn ones without,
    and where the training split cannot be read.
    """
    spec = model_spec(run)
    wanted = chosen_engine(run, engine)
    artefact = artefact_path(run, wanted, files.digest(run.weights()))

    def calibration_images() -> Tensor:
        images = dataset_of(run, data).part("train")
        return images.batch(torch.arange(min(len(images), CALIBRATION_BLOCKS * batch_size)))

    def examples() -> Tensor:
        try:
            return spread_images(dataset_of(run, data).part("train"), batch_size)
        except DataError:  # test images may be all there is
            return engines.drawn(batch_size, spec.shape)

    prepared = EngineSpec(
        trained_model(run),
        spec.shape,
        noise,
        batch_size,
        artefact,
        calibration_images,
        examples if data_at_hand else None,
    )
    name, fast = engines.prepare(prepared, wanted)
    if engine == AUTO:
        record_engine(run, name)
    return name, SmoothedClassifier(fast, noise=noise, classes=spec.classes, batch_size=batch_size)
