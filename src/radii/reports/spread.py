"""How certified radii are spread over the images: what an average hides.

An average certified radius grows when easy images get easier. These numbers show where it comes from: the share of
the votes for the top class, from the hardest image to the easiest; the images with the largest radius that their
samples can prove; the part of the easiest fifth; and the worst class.
"""

import math
import os
from collections.abc import Sequence
from typing import NamedTuple

from radii.reports.inputs import Entry
from radii.reports.metrics import Share, Summary
from radii.reports.tables import Table, text_table
from radii.reports.text import UNKNOWN, class_name, down, radius_text, up
from radii.runs.run import Run

QUANTILES = (0.1, 0.25, 0.5, 0.75)
EASIEST = 0.2
COMBINED = "ensemble"
"""The method of a run that was made of others without training."""
EQUALLY = "no"
REWEIGHTING = {
    "catrs": "by confidence",
    "consistency": EQUALLY,
    "crown_ibp": EQUALLY,
    "denoising": EQUALLY,
    "gaussian": EQUALLY,
    "macer": "right images only, in a term",
    "smoothadv": EQUALLY,
    "smoothmix": "right images only, in a term",
    "stability": EQUALLY,
    "standard": EQUALLY,
    "transfer": EQUALLY,
}
"""How objectives, by name, leave out or weight images by how well they are classified."""


class WorstClass(NamedTuple):
    """The class with the lowest certified accuracy at a radius."""

    label: int
    share: Share


def top_probabilities(summary: Summary) -> list[float]:
    """Return the share of the votes that the top class of every image got, sorted; empty if votes are not recorded."""
    counted = (row.counts.values() for row in summary.certificates.rows)
    return sorted(max(counts) / votes for counts in counted if (votes := sum(counts)) > 0)


def quantile(values: Sequence[float], share: float) -> float:
    """Return the smallest of sorted values such that at least this share of them are not larger."""
    return values[max(0, math.ceil(share * len(values)) - 1)]


def at_the_cap(summary: Summary) -> Share | None:
    """Count the correct images with the largest radius that their samples can prove; None if that is not recorded.

    That is the largest tested radius, or the radius if all votes are for one class.
    """
    if summary.tested_radii is not None:
        return summary.at(max(summary.tested_radii))
    rows = summary.certificates.rows
    if not all(row.counts for row in rows):
        return None
    return Share(sum(row.correct and len(row.counts) == 1 for row in rows), summary.images)


def easiest_share(summary: Summary) -> float | None:
    """Return the share of the ACR that comes from the fifth with the largest radii; None if it is not known exactly."""
    if summary.tested_radii is not None:
        return None
    radii = sorted((row.radius if row.correct else 0.0 for row in summary.certificates.rows), reverse=True)
    total = math.fsum(radii)
    easiest = math.fsum(radii[: math.ceil(EASIEST * len(radii))])
    return easiest / total if total > 0 else None


def worst_class(summary: Summary, radius: float) -> WorstClass | None:
    """Return the class with the lowest certified accuracy; None if the radius was not tested or there is one class."""
    if not summary.decided(radius):
        return None
    classes = [WorstClass(label, own.at(radius)) for label, own in summary.by_class().items()]
    return min(classes, key=lambda worst: (worst.share.value, worst.label)) if len(classes) > 1 else None


def reweighting(entry: Entry) -> str:
    """Describe which images the run's training leaves out or weights, or that of a run behind it, such as a teacher.

    Empty if that is not known, as of methods of one's own.
    """
    if not entry.run or not entry.own:
        return ""
    own, *others = _methods(entry.run)
    if (words := REWEIGHTING.get(own, "")) not in ("", EQUALLY):
        return words
    for name in others:
        if (words := REWEIGHTING.get(name, "")) not in ("", EQUALLY):
            return f"through a {name} run: {words}"
    known = [REWEIGHTING.get(name) == EQUALLY for name in (own, *others) if name != COMBINED]
    return EQUALLY if known and all(known) else ""


def _methods(run: Run) -> list[str]:
    """Return the objectives of a run, its teachers, initial runs and members; empty names of those that are gone."""
    methods: list[str] = []
    waiting, seen = [run], set[str]()
    while waiting:
        run = waiting.pop(0)
        if (path := os.path.realpath(run.path)) in seen:
            continue
        seen.add(path)
        parents = [source for key in run.origin() if key != "soft_labels" and (source := run.source(key))]
        if not run.recipe_file.is_file():
            methods.append("")
        elif run.stated_recipe().objective["name"] == "imported" and parents:
            methods.append(COMBINED)
        else:
            methods.append(run.stated_recipe().objective["name"])
        waiting += [Run(parent, run.trusted) for parent in parents]
    return methods


def spread(entries: Sequence[Entry], radius: float) -> Table:
    """Return the table of the spread of votes and radii, with the worst class at a radius."""
    head = [
        "",
        *(f"p {100 * share:g} %" for share in QUANTILES),
        "at the cap",
        "easiest fifth",
        f"worst class at {radius_text(radius)}",
        "reweighted",
    ]
    return text_table(head, [_row(entry, radius) for entry in entries])


def _row(entry: Entry, radius: float) -> list[str]:
    summary = entry.summary
    probabilities = top_probabilities(summary)
    cap, easiest, worst = at_the_cap(summary), easiest_share(summary), worst_class(summary, radius)
    worst_text = UNKNOWN
    if worst is not None:
        share = f"{down(worst.share.value, 1, 2)} % of {worst.share.images:,}"
        worst_text = f"{class_name(worst.label, entry.class_names)}: {share}"
    return [
        entry.name,
        *(down(quantile(probabilities, share), 4) if probabilities else UNKNOWN for share in QUANTILES),
        UNKNOWN if cap is None else f"{up(cap.value, 1, 2)} %",
        UNKNOWN if easiest is None else f"{down(easiest, 1, 2)} %",
        worst_text,
        reweighting(entry) or UNKNOWN,
    ]


def as_json(entry: Entry, radius: float) -> dict[str, object]:
    """Return the same numbers for report.json; unknown ones are None."""
    summary = entry.summary
    probabilities = top_probabilities(summary)
    cap, worst = at_the_cap(summary), worst_class(summary, radius)
    return {
        "top_probability": {f"{share:g}": quantile(probabilities, share) for share in QUANTILES if probabilities},
        "at_the_cap": cap and cap.value,
        "acr_from_easiest_fifth": easiest_share(summary),
        "worst_class": worst and {"label": worst.label, "radius": radius, "certified": worst.share.value},
        "reweighted": reweighting(entry) or None,
    }
