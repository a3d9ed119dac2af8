"""The cost of robustness: accuracy without noise, and the noisy copies and time per answer."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from radii.reports.metrics import Share, Summary, right_share
from radii.reports.text import down, up
from radii.runs.run import Run

WITHOUT_NOISE = ("imported", "standard")
"""Objectives whose models were not trained with noise, as far as is known."""
LOST = 0.5
"""A model loses its answers under noise if less than this share of its right answers stays right."""


class AnswerCost(NamedTuple):
    """The mean cost of a certificate: noisy copies, and milliseconds on one core or GPU."""

    copies: float
    milliseconds: float

    def __str__(self) -> str:
        return f"{self.copies:,.0f} copies, {milliseconds(self.milliseconds)}"


def milliseconds(value: float) -> str:
    """Format a time in milliseconds; as seconds from 1000 on."""
    return f"{value:.3g} ms" if value < 1000 else f"{value / 1000:.3g} s"


def answer_cost(summary: Summary) -> AnswerCost | None:
    """Return the mean cost of an answer; None if the rows do not record their samples and seconds."""
    samples, seconds = summary.samples, summary.seconds
    if not samples or not seconds:
        return None
    return AnswerCost(samples / summary.images, 1000 * seconds / summary.images)


def share_in_words(share: Share, failure: float = 0.0) -> str:
    """Format a share in per cent with its 95 % interval, in ASCII; `failure` is that of `Share.interval`."""
    lower, upper = share.interval(failure)
    return f"{down(share.value, 1, 2)} % ({down(lower, 1, 2)}-{up(upper, 1, 2)})"


def check_in_words(check: Mapping[str, Any]) -> str:
    """Format the accuracy without noise."""
    return f"{share_in_words(right_share(check))} of {check['images']:,} test images right without noise"


def noisy_in_words(check: Mapping[str, Any]) -> str:
    """Format the accuracy of single noisy copies by sigma; empty if it was not measured."""
    if not (noisy := check.get("noisy")):
        return ""
    shares = [f"{down(right_share(row).value, 1, 2)} % at sigma {row['sigma']:g}" for row in noisy]
    return f"one noisy copy each of {noisy[0]['images']:,} images: {', '.join(shares)}"


def _loses_answers(check: Mapping[str, Any], sigma: float) -> bool:
    """Return whether most right answers are lost at the largest measured sigma that is at most `sigma`."""
    below = [row for row in check.get("noisy", ()) if row["sigma"] <= sigma]
    if not below or not check["right"]:
        return False
    nearest = max(below, key=lambda row: float(row["sigma"]))
    return right_share(nearest).value < LOST * right_share(check).value


def never_saw_noise(run: Run, sigma: float) -> bool:
    """Return whether a run fails under noise because it was never trained with noise."""
    return run.stated_recipe().objective["name"] in WITHOUT_NOISE and _loses_answers(run.check(), sigma)
