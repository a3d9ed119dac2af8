"""The certified accuracy of a run as plain data, for the card of an exported model."""

from typing import Any

from radii.reports.summary import Summary, down, radii_of
from radii.runs import certificates
from radii.runs.certificates import Certificates
from radii.runs.run import Run

DIGITS = 4


def certified(run: Run) -> list[dict[str, Any]]:
    """Every certificate file of the run's present weights: how it was made, and the certified accuracy at radii."""
    weights = run.weights_digest()
    begun = [file for file in sorted(run.certificates.glob("*.tsv")) if certificates.has_rows(file)]
    found = [certificates.read(file) for file in begun]
    return [facts(each) for each in found if each.header.get("weights") == weights]


def facts(found: Certificates) -> dict[str, Any]:
    """One certificate file: how it was made, and the certified accuracy at radii, rounded down."""
    summary, header = Summary(found), found.header
    # A certifier that tests given radii proves nothing exact between them.
    radii = found.parameters.get("radii") or radii_of([summary])
    return {
        "certificates": found.name,
        "certifier": found.certifier,
        "parameters": dict(found.parameters),
        "noise": header.get("noise"),
        "engine": header.get("engine"),
        "dataset": header.get("dataset"),
        "split": header.get("split", "test"),
        "evaluated_on": header.get("evaluated_on"),
        "images": summary.images,
        "certified_accuracy": {f"{radius:g}": _down(summary.at(radius).value) for radius in radii},
        "average_certified_radius": _down(summary.acr),
    }


def _down(value: float) -> float:
    return float(down(value, DIGITS))
