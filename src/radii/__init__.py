"""Image classifiers whose answers carry a proof: certified l2 radii by randomized smoothing."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from radii.api import certify, export, predict
    from radii.experiment.recipe import Recipe
    from radii.experiment.run import Run
    from radii.loops.load import load
    from radii.loops.train import train
    from radii.smoothing.certificate import ABSTAIN, Certificate
    from radii.smoothing.classifier import SmoothedClassifier

__all__ = [
    "ABSTAIN",
    "Certificate",
    "Recipe",
    "Run",
    "SmoothedClassifier",
    "certify",
    "export",
    "load",
    "predict",
    "train",
]

_LAZY = {
    "ABSTAIN": "radii.smoothing.certificate",
    "Certificate": "radii.smoothing.certificate",
    "Recipe": "radii.experiment.recipe",
    "Run": "radii.experiment.run",
    "SmoothedClassifier": "radii.smoothing.classifier",
    "certify": "radii.api",
    "export": "radii.api",
    "load": "radii.loops.load",
    "predict": "radii.api",
    "train": "radii.loops.train",
}


def __getattr__(name: str) -> Any:
    """Names are imported when first used: the command line and reports start without torch."""
    if name not in _LAZY:
        raise AttributeError(f"module 'radii' has no attribute {name!r}")
    return getattr(importlib.import_module(_LAZY[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
