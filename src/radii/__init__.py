"""Image classifiers whose answers carry a proof: certified l2 radii by randomized smoothing."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from radii import bounds
    from radii.certification.dataset import certify_dataset
    from radii.certification.load import load
    from radii.certification.predict import certify, predict
    from radii.engines import SmoothedClassifier
    from radii.interop.export import export
    from radii.reports.report import report
    from radii.reports.results import Results
    from radii.runs.recipe import Recipe
    from radii.runs.run import Run
    from radii.smoothing.certificate import ABSTAIN, Certificate
    from radii.training.loop import train
    from radii.training.transfer import transfer

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
    "Recipe": "radii.runs.recipe",
    "Results": "radii.reports.results",
    "Run": "radii.runs.run",
    "SmoothedClassifier": "radii.engines",
    "certify": "radii.certification.predict",
    "certify_dataset": "radii.certification.dataset",
    "export": "radii.interop.export",
    "load": "radii.certification.load",
    "predict": "radii.certification.predict",
    "report": "radii.reports.report",
    "train": "radii.training.loop",
    "transfer": "radii.training.transfer",
}


def __getattr__(name: str) -> Any:
    """Names are imported when first used: the command line and reports start without torch."""
    if name == "bounds":
        return importlib.import_module("radii.bounds")
    if name not in _LAZY:
        raise AttributeError(f"module 'radii' has no attribute {name!r}")
    return getattr(importlib.import_module(_LAZY[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
