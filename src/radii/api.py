"""Certify or predict a single image as a deployed model does, and export a run."""

import secrets
from collections.abc import Collection
from dataclasses import replace
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
    label: int | None = None,
    seed: int | None = None,
    index: int = 0,
    **fields: Any,
) -> Certificate:
    """Certify one image; `procedure` names the certifier and `fields` are its parameters.

    Without a seed the noise is fresh and secret, as a deployed model needs; an evaluation states its seed in advance
    and gives every image of a dataset its own `index`, its number in the dataset: the noise is determined by the seed
    and the index, and with equal noise the errors of different images are not independent. Where the certifier can
    use a `label`, the probability of that class is tested directly.
    """
    for name, value in {"seed": seed, "index": index}.items():
        if value is not None and value < 0:
            raise ValueError(f"{name} = {value}, expected a whole number >= 0")
    address = NoiseAddress(secrets.randbits(128) if seed is None else seed, index)
    return certifiers.create(procedure, **fields).certify(classifier, image, address, label)


def predict(
    classifier: SmoothedClassifier,
    image: Tensor,
    procedure: str = "prediction",
    *,
    seed: int | None = None,
    index: int = 0,
    **fields: Any,
) -> Certificate:
    """The smoothed classifier's class for one image, or an abstention; the radius is 0.

    The classifier that votes by default; `procedure="soft"` asks the one of the largest mean probability, which is
    what certificates of `soft` are about. Deploy the one that was certified.
    """
    return replace(certify(classifier, image, procedure, seed=seed, index=index, **fields), radius=0.0)


def export(run: Run | Path | str, path: Path | str, trust: Collection[str] = ()) -> Path:
    """Write a run's base classifier as one ONNX file, checked against torch, and a card of its certificates beside it.

    `trust` names the modules of others whose code the run may use.
    """
    from radii.loops.export import export_onnx
    from radii.report.card import certified

    run = run if isinstance(run, Run) else Run(run, trust)
    return export_onnx(run, path, certified=certified(run))
