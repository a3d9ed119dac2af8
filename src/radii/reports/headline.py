"""The result in words, for a reader who wants one number."""

from collections.abc import Sequence

from radii.reports.entries import Entry
from radii.reports.summary import Value, down, radii_of, radius_text, up

USUAL = 0.5
"""The radius of the headline where no sigma is known."""


def headline_radius(entries: Sequence[Entry], radii: Sequence[float] = ()) -> float:
    """The radius of the headline: the one of the table nearest to twice the smallest sigma, tested by all if any is."""
    measured = [entry.summary for entry in entries]
    candidates = [radius for radius in radii or radii_of(measured) if radius > 0] or [USUAL]
    decided = [radius for radius in candidates if all(each.decided(radius) for each in measured)]
    sigmas = [entry.certificates.sigma for entry in entries if entry.certificates.sigma]
    wanted = 2 * min(sigmas) if sigmas else USUAL
    return min(decided or candidates, key=lambda radius: (abs(radius - wanted), radius))


def sentence(entry: Entry, radius: float) -> str:
    """What is guaranteed within a radius, with its interval, and how often there is no answer."""
    summary, pictures = entry.summary, f"{entry.summary.images:,} picture{'s' * (entry.summary.images != 1)}"
    known, abstained = summary.known(radius), summary.known_abstentions
    if known is None:
        first = f"Within {radius_text(radius)} nothing was tested ({pictures})"
    elif not known.exact:
        first = f"Within {radius_text(radius)}, {_percent(known)} of test pictures are guaranteed ({pictures})"
    else:
        lower, upper = summary.interval(radius)
        interval = f"{down(lower, 1, 2)}–{up(upper, 1, 2)}"  # noqa: RUF001
        first = (
            f"Within {radius_text(radius)}, {_percent(known)} of test pictures are guaranteed ({interval}, {pictures})"
        )
    return f"{first}." if abstained is None else f"{first}; {up(abstained.value, 1, 2)} % get no answer."


def _percent(known: Value) -> str:
    return f"{'' if known.exact else 'at least '}{down(known.value, 1, 2)} %"
