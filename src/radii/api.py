"""Certify or predict a single image as a deployed model does, and export a run."""

import secrets
from collections.abc import Collection
from pathlib import Path
from typing import Any

from torch import Tensor

from radii import certifiers
from radii.experiment.run import Run
from radii.smoothing.addresses import NoiseAddress
from radii.smoothing.certificate import Certificate
from radii.smoothing.classifier import SmoothedClassifier


def certify(
    classifier: SmoothedClassifier,
    image: Tensor,
    procedure: str = "fixed",
    *,
    seed: int | None = None,
    label: int | None = None,
    **fields: Any,
) -> Certificate:
    """Certify one image; `procedure` names the certifier and `fields` are its parameters.

    Without a seed the noise is fresh and secret, as a deployed model needs; an evaluation states its seed in advance.
    Where the certifier can use a `label`, the probability of that class is tested directly.
    """
    if seed is not None and seed < 0:
        raise ValueError(f"seed = {seed}, expected a whole number >= 0")
    address = NoiseAddress(secrets.randbits(128) if seed is None else seed)
    return certifiers.create(procedure, **fields).certify(classifier, image, address, label)


def predict(classifier: SmoothedClassifier, image: Tensor, *, seed: int | None = None, **fields: Any) -> Certificate:
    """The smoothed classifier's class for one image, or an abstention; the radius is 0."""
    return certify(classifier, image, "prediction", seed=seed, **fields)


def export(run: Run | Path | str, path: Path | str, trust: Collection[str] = ()) -> Path:
    """Write a run's base classifier as one ONNX file, checked against torch, and a card of its certificates beside it.

    `trust` names the modules of others whose code the run may use.
    """
    from radii.loops.export import export_onnx
    from radii.report.card import certified

    run = run if isinstance(run, Run) else Run(run, trust)
    return export_onnx(run, path, certified=certified(run))
