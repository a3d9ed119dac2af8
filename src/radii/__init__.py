"""Image classifiers whose answers carry a proof: certified l2 radii by randomized smoothing."""

import importlib
from typing import TYPE_CHECKING, Any

__version__: str

if TYPE_CHECKING:
    from radii import bounds
    from radii.certification.attack import attack
    from radii.certification.dataset import certify_dataset
    from radii.certification.load import load
    from radii.certification.one_pass import predict_once
    from radii.certification.population import certify_population
    from radii.certification.predict import certify, predict
    from radii.certification.verify import VerificationResult, verify
    from radii.engines import SmoothedClassifier
    from radii.interop.ensemble import import_ensemble
    from radii.interop.export import export
    from radii.interop.factory import import_model
    from radii.interop.hub import pull, push
    from radii.reports.compare import compare
    from radii.reports.report import report
    from radii.reports.results import Results, read_results
    from radii.runs.attacks import Attack
    from radii.runs.recipe import Recipe
    from radii.runs.run import Run
    from radii.smoothing.certificate import ABSTAIN, Certificate
    from radii.smoothing.normalisation import Normalised
    from radii.training.loop import train
    from radii.training.transfer import transfer

__all__ = [
    "ABSTAIN",
    "Attack",
    "Certificate",
    "Normalised",
    "Recipe",
    "Results",
    "Run",
    "SmoothedClassifier",
    "VerificationResult",
    "__version__",
    "attack",
    "bounds",
    "certify",
    "certify_dataset",
    "certify_population",
    "compare",
    "export",
    "import_ensemble",
    "import_model",
    "load",
    "predict",
    "predict_once",
    "pull",
    "push",
    "read_results",
    "report",
    "train",
    "transfer",
    "verify",
]

_LAZY = {
    "ABSTAIN": "radii.smoothing.certificate",
    "Attack": "radii.runs.attacks",
    "Certificate": "radii.smoothing.certificate",
    "Normalised": "radii.smoothing.normalisation",
    "Recipe": "radii.runs.recipe",
    "Results": "radii.reports.results",
    "Run": "radii.runs.run",
    "SmoothedClassifier": "radii.engines",
    "VerificationResult": "radii.certification.verify",
    "attack": "radii.certification.attack",
    "certify": "radii.certification.predict",
    "certify_dataset": "radii.certification.dataset",
    "certify_population": "radii.certification.population",
    "compare": "radii.reports.compare",
    "export": "radii.interop.export",
    "import_ensemble": "radii.interop.ensemble",
    "import_model": "radii.interop.factory",
    "load": "radii.certification.load",
    "predict": "radii.certification.predict",
    "predict_once": "radii.certification.one_pass",
    "pull": "radii.interop.hub",
    "push": "radii.interop.hub",
    "read_results": "radii.reports.results",
    "report": "radii.reports.report",
    "train": "radii.training.loop",
    "transfer": "radii.training.transfer",
    "verify": "radii.certification.verify",
}


def __getattr__(name: str) -> Any:
    """Import a name when it is first used: the command line and reports start without torch."""
    if name == "bounds":
        return importlib.import_module("radii.bounds")
    if name == "__version__":
        return importlib.import_module("importlib.metadata").version("radii")
    if name not in _LAZY:
        raise AttributeError(f"module 'radii' has no attribute {name!r}")
    return getattr(importlib.import_module(_LAZY[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
