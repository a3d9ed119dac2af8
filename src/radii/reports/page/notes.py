"""The result in words, and what a reader must know before comparing inputs."""

from collections.abc import Callable, Sequence

from radii.reports import protocol
from radii.reports.attacks import broken_certificates, budget, largest_attack
from radii.reports.inputs import GONE, Entry
from radii.reports.metrics import radii_of
from radii.reports.text import down, percent_range, radius_text, up
from radii.runs.attacks import Attack
from radii.runs.certificates import Certificates

USUAL = 0.5
"""The radius of the headline if no sigma is known."""
RETRAINED = "certificates of weights that the run no longer has: it was trained again since; certify it again"
SOME_RADII = "only some radii were tested; a dash marks an untested radius, ≥ a bound from a larger one"
KNOWN_LABEL = (
    "evaluated with the label known: a prediction is the label or an abstention, and no samples were used to find "
    "the class. A deployed model has to find it with a pilot: certificates made without labels give those numbers"
)
NO_CERTIFIER = "the certifier is not recorded, so the intervals do not include its failure probability"
ROUNDED = "the radii were printed with three significant digits, which can round a radius up"
ADVICE = {
    protocol.BUDGETS: "ACR grows with the number of samples, compare it with care",
    protocol.IMAGES: "their numbers are not directly comparable",
    protocol.RECORDS: "it is unknown whether the others were certified in the same way",
}
"""The consequence of a difference between inputs; for other differences the values are listed."""


def claim(entries: Sequence[Entry]) -> str:
    """Say in a sentence what a certificate means, with the largest of the failure probabilities."""
    norms = protocol.norm_names([entry.certificates for entry in entries])
    failures = [entry.certificates.failure for entry in entries]
    known = [failure for failure in failures if failure is not None]
    sure = f", and such a proof fails with a probability of at most {max(known)} per image" if known else ""
    return (
        f"A certificate is a proof: no change of the image that is shorter, in {norms}, than the radius can change "
        f"the smoothed classifier’s answer{sure if len(known) == len(failures) else ''}.{_rounding(entries)}"  # noqa: RUF001
    )


def _rounding(entries: Sequence[Entry]) -> str:
    """Say what noise in floating point cannot promise; empty if all noise is on a grid."""
    if all(entry.certificates.header.get("noise", {}).get("name") == "grid" for entry in entries):
        return ""
    return (
        " It holds for noise in exact arithmetic. With noise drawn in float32 it promises nothing about a base "
        "classifier that was built to look at the last bits of its input; with the noise grid it does."
    )


def headline_radius(entries: Sequence[Entry], radii: Sequence[float] = ()) -> float:
    """Choose the radius of the table nearest to twice the smallest sigma, among those that all inputs tested."""
    summaries = [entry.summary for entry in entries]
    candidates = [radius for radius in radii or radii_of(summaries) if radius > 0] or [USUAL]
    decided = [radius for radius in candidates if all(summary.decided(radius) for summary in summaries)]
    sigmas = [entry.certificates.sigma for entry in entries if entry.certificates.sigma]
    target = 2 * min(sigmas) if sigmas else USUAL
    return min(decided or candidates, key=lambda radius: (abs(radius - target), radius))


def headline(entry: Entry, radius: float) -> str:
    """Say what is guaranteed within a radius, with its interval, and how often there is no answer."""
    summary, size = entry.summary, radius_text(radius)
    known, abstained = summary.known(radius), summary.known_abstentions
    pictures = f"{summary.images:,} picture{'s' * (summary.images != 1)}"
    if known is None:
        words = f"Within {size} nothing was tested ({pictures})"
    elif known.exact:
        interval = percent_range(summary.interval(radius))
        words = f"Within {size}, {down(known.value, 1, 2)} % of test pictures are guaranteed ({interval}, {pictures})"
    else:
        words = f"Within {size}, at least {down(known.value, 1, 2)} % of test pictures are guaranteed ({pictures})"
    return f"{words}." if abstained is None else f"{words}; {up(abstained.value, 1, 2)} % get no answer."


def notes(entries: Sequence[Entry]) -> list[str]:
    """List everything that the numbers themselves do not show."""
    return [*_about_single(entries), *_about_some(entries), *_about_all(entries)]


def _about_single(entries: Sequence[Entry]) -> list[str]:
    found = []
    for entry in entries:
        if (words := protocol.describe_images(entry.certificates)).endswith("so far"):
            found.append(f"{entry.short_name}: {words}.")
        if words := protocol.bias_warning(entry.certificates, entry.class_names):
            found.append(f"{entry.short_name}: {words}.")
    return found


def _about_some(entries: Sequence[Entry]) -> list[str]:
    """List the notes that several inputs may share."""
    foreign = [entry for entry in entries if entry.certificates.certifier is None]
    shared = {
        RETRAINED: [entry for entry in entries if entry.weights == GONE],
        SOME_RADII: [entry for entry in entries if entry.summary.tested_radii is not None],
        KNOWN_LABEL: [entry for entry in entries if protocol.label_known(entry.certificates)],
        NO_CERTIFIER: foreign,
        ROUNDED: [entry for entry in foreign if _has_rounded_radii(entry.certificates)],
    }
    for entry in entries:
        if found := largest_attack(entry):
            shared.setdefault(_about_attack(entry, found.attack), []).append(entry)
    return [f"{_listed(some, entries)}: {words}." for words, some in shared.items() if some]


def _about_attack(entry: Entry, attack: Attack) -> str:
    """State the budget of an attack and how many certificates it broke."""
    broken = broken_certificates(entry)
    inside = f"{broken} certified images changed inside their radius" if broken else "no certificate was broken"
    unanswered = f", {attack.abstained:,} without an answer, counted as errors" if attack.abstained else ""
    return f"attacked on {len(attack.rows):,} images{unanswered} ({budget(attack)}), {inside}"


def _has_rounded_radii(certificates: Certificates) -> bool:
    return all(float(f"{row.radius:.3}") == row.radius for row in certificates.rows)


def _listed(some: Sequence[Entry], entries: Sequence[Entry]) -> str:
    return "All inputs" if len(some) == len(entries) > 1 else ", ".join(entry.short_name for entry in some)


def _about_all(entries: Sequence[Entry]) -> list[str]:
    files = [entry.certificates for entry in entries]
    differing = protocol.differences(files)
    found = [f"{words}: {ADVICE.get(words) or _values(entries, protocol.ASPECTS[words])}." for words in differing]
    if len({str(file.header["seed"]) for file in files if "seed" in file.header}) > 1:
        found.append(f"The seeds differ: {_values(entries, lambda file: file.header.get('seed'))}.")
    if differing:
        found.append("No best is marked, as the inputs were not certified in the same way.")
    elif len(files) > 1 and not protocol.comparable(files):
        found.append(f"No best is marked: that takes at least {protocol.FEWEST_IMAGES} images.")
    return found


def _values(entries: Sequence[Entry], value: Callable[[Certificates], object]) -> str:
    """List every value with the names of its inputs; the most frequent one last, for "the others"."""
    names: dict[str, list[str]] = {}
    for entry in entries:
        names.setdefault(_value_text(value(entry.certificates)), []).append(entry.short_name)
    *few, (usual, others) = sorted(names.items(), key=lambda item: len(item[1]))
    listed = [f"{text} ({', '.join(some)})" for text, some in few]
    return ", ".join([*listed, f"{usual} ({', '.join(others) if len(others) < 2 else 'the others'})"])


def _value_text(value: object) -> str:
    if isinstance(value, bool):
        return "known" if value else "not known"
    return "not recorded" if value is None else str(value)
