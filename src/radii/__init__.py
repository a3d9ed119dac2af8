"""Image classifiers whose answers carry a proof: certified l2 radii by randomized smoothing."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from radii import bounds
    from radii.api import Results, certify, certify_dataset, export, predict, train, transfer
    from radii.engines import SmoothedClassifier
    from radii.experiment.recipe import Recipe
    from radii.experiment.run import Run
    from radii.loops.load import load
    from radii.report import report
    from radii.smoothing.certificate import ABSTAIN, Certificate

__all__ = [
    "ABSTAIN",
    "Certificate",
    "Recipe",
    "Results",
    "Run",
    "SmoothedClassifier",
    "bounds",
    "certify",
    "certify_dataset",
    "export",
    "load",
    "predict",
    "report",
    "train",
    "transfer",
]

_LAZY = {
    "ABSTAIN": "radii.smoothing.certificate",
    "Certificate": "radii.smoothing.certificate",
    "Recipe": "radii.experiment.recipe",
    "Results": "radii.api",
    "Run": "radii.experiment.run",
    "SmoothedClassifier": "radii.engines",
    "certify": "radii.api",
    "certify_dataset": "radii.api",
    "export": "radii.api",
    "load": "radii.loops.load",
    "predict": "radii.api",
    "train": "radii.api",
    "transfer": "radii.api",
}
_MODULES = ("bounds", "report")
"""Submodules that are public themselves; a call of `report` is one of its function."""


def __getattr__(name: str) -> Any:
    """Names are imported when first used: the command line and reports start without torch."""
    if name in _MODULES:
        return importlib.import_module(f"radii.{name}")
    if name not in _LAZY:
        raise AttributeError(f"module 'radii' has no attribute {name!r}")
    return getattr(importlib.import_module(_LAZY[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
