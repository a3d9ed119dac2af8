"""How certified radii are spread over the images: what an average hides.

An average certified radius grows when easy images get easier. These numbers tell where it comes from: how sure the
votes are, from the hardest image to the easiest, how many images have the largest radius that the samples can prove,
what the easiest fifth adds, and which class fares worst.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from radii.reports.inputs import Entry
from radii.reports.metrics import Share, Summary, Value
from radii.reports.tables import Cell, Table
from radii.reports.text import UNKNOWN, down, radius_text, up

QUANTILES = (0.1, 0.25, 0.5, 0.75)
EASIEST = 0.2
REWEIGHTING = {
    "macer": "right images only, in a term",
    "smoothmix": "right images only, in a term",
    "catrs": "by confidence",
}
"""How an objective leaves out or weights images by how well they are classified, by its name."""


class WorstClass(NamedTuple):
    """The class with the lowest certified accuracy at a radius."""

    label: int
    share: Share


def top_probabilities(summary: Summary) -> list[float]:
    """Return the share of the votes that the top class of every image got, sorted; empty if votes are not recorded."""
    counted = (row.counts.values() for row in summary.certificates.rows)
    return sorted(max(counts) / votes for counts in counted if (votes := sum(counts)) > 0)


def quantile(values: Sequence[float], share: float) -> float:
    """Return the smallest of sorted values that at least this share of them do not exceed."""
    return values[max(0, math.ceil(share * len(values)) - 1)]


def at_the_cap(summary: Summary) -> Share | None:
    """Count the correct images with the largest radius that their samples can prove: more samples would prove more.

    That is the largest radius that was tested, or that of votes for one class alone. None if neither is recorded.
    """
    if summary.tested_radii is not None:
        return summary.at(max(summary.tested_radii))
    rows = summary.certificates.rows
    if not all(row.counts for row in rows):
        return None
    return Share(sum(row.correct and len(row.counts) == 1 for row in rows), summary.images)


def easiest_share(summary: Summary) -> Value | None:
    """Return the share of the ACR that the fifth of the images with the largest radii adds; None if the ACR is 0."""
    radii = sorted((row.radius if row.correct else 0.0 for row in summary.certificates.rows), reverse=True)
    total = math.fsum(radii)
    easiest = math.fsum(radii[: math.ceil(EASIEST * len(radii))])
    return Value(easiest / total, summary.tested_radii is None) if total > 0 else None


def worst_class(summary: Summary, radius: float) -> WorstClass | None:
    """Return the class with the lowest certified accuracy at a radius; None if there is one class only."""
    classes = [WorstClass(label, own.at(radius)) for label, own in summary.by_class().items()]
    return min(classes, key=lambda worst: (worst.share.value, worst.label)) if len(classes) > 1 else None


def reweighting(entry: Entry) -> str:
    """Say which images the run's training leaves out or weighs differently; empty if none, or if that is unknown."""
    return REWEIGHTING.get(entry.run.recipe.objective["name"], "") if entry.run and entry.own else ""


def spread(entries: Sequence[Entry], radius: float) -> Table:
    """Return the table of the spread of radii and votes, with the worst class at a radius."""
    head = [
        "",
        *(f"p {100 * share:g} %" for share in QUANTILES),
        "at the cap",
        "easiest fifth",
        f"worst class at {radius_text(radius)}",
        "reweighted",
    ]
    return Table(head, [[Cell(entry.name), *_cells(entry, radius)] for entry in entries])


def _cells(entry: Entry, radius: float) -> list[Cell]:
    summary = entry.summary
    probabilities = top_probabilities(summary)
    quantiles = [down(quantile(probabilities, share), 4) if probabilities else UNKNOWN for share in QUANTILES]
    cap, easiest = at_the_cap(summary), easiest_share(summary)
    return [
        *map(Cell, quantiles),
        Cell(UNKNOWN if cap is None else f"{up(cap.value, 1, 2)} %"),
        Cell(f"{down(easiest.value, 1, 2)} %" if easiest and easiest.exact else UNKNOWN),
        Cell(_worst_text(entry, radius)),
        Cell(reweighting(entry) or UNKNOWN),
    ]


def _worst_text(entry: Entry, radius: float) -> str:
    worst = worst_class(entry.summary, radius) if entry.summary.decided(radius) else None
    if worst is None:
        return UNKNOWN
    names = entry.class_names
    name = names[worst.label] if 0 <= worst.label < len(names) else f"class {worst.label}"
    return f"{name}: {down(worst.share.value, 1, 2)} % of {worst.share.images:,}"


def as_json(entry: Entry, radius: float) -> dict[str, object]:
    """Return the same numbers for report.json; unknown ones are None."""
    summary = entry.summary
    probabilities = top_probabilities(summary)
    cap, easiest = at_the_cap(summary), easiest_share(summary)
    worst = worst_class(summary, radius) if summary.decided(radius) else None
    return {
        "top_probability": {f"{share:g}": quantile(probabilities, share) for share in QUANTILES if probabilities},
        "at_the_cap": cap and cap.value,
        "acr_from_easiest_fifth": easiest.value if easiest and easiest.exact else None,
        "worst_class": worst and {"label": worst.label, "radius": radius, "certified": worst.share.value},
        "reweighted": reweighting(entry) or None,
    }
