"""The certified accuracy of a run as plain data, for the model card of an export and for `radii show --json`."""

from typing import Any

from radii.reports.inputs import begun_files
from radii.reports.metrics import Summary, radii_of
from radii.reports.protocol import label_known
from radii.reports.text import down
from radii.runs import certificates
from radii.runs.certificates import Certificates
from radii.runs.run import Run

DIGITS = 4


def certified(run: Run) -> list[dict[str, Any]]:
    """Return every certificate file of the run's present weights, as `describe` does."""
    weights = run.weights_digest()
    files = [certificates.read(path) for path in begun_files(run)]
    return [describe(file) for file in files if file.header.get("weights") == weights]


def describe(file: Certificates) -> dict[str, Any]:
    """Return how a certificate file was made, and the certified accuracy at the radii that were tested, rounded down.

    The average certified radius is null if only some radii were tested; then `average_certified_radius_at_least` is
    what is known of it.
    """
    summary, header = Summary(file), file.header
    radii = radii_of([summary]) if summary.tested_radii is None else summary.tested_radii
    acr = summary.known_acr
    return {
        "certificates": file.name,
        "certifier": file.certifier,
        "parameters": dict(file.parameters),
        "noise": header.get("noise"),
        "norm": None if file.norm is None else file.norm.name,
        "engine": header.get("engine"),
        "dataset": header.get("dataset"),
        "split": header.get("split", "test"),
        "evaluated_on": header.get("evaluated_on"),
        "label_known": None if file.certifier is None else label_known(file),
        "images": summary.images,
        "certified_accuracy": {f"{radius:g}": _down(summary.at(radius).value) for radius in radii},
        "average_certified_radius": _down(acr.value) if acr and acr.exact else None,
        "average_certified_radius_at_least": _down(acr.value) if acr else None,
    }


def _down(value: float) -> float:
    return float(down(value, DIGITS))
