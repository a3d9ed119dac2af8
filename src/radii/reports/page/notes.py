"""The headlines of the page, and notes on what a reader must know before comparing inputs."""

from collections.abc import Callable, Sequence

from radii.reports import protocol
from radii.reports.attacks import broken_certificates, budget, largest_attack
from radii.reports.inputs import EDITED, GONE, Entry
from radii.reports.metrics import radii_of
from radii.reports.text import UNKNOWN, down, percent_range, radius_text, up
from radii.runs.attacks import Attack
from radii.runs.certificates import Certificates
from radii.runs.repeats import repeats_note

DEFAULT_RADIUS = 0.5
"""The radius of the headline if no sigma is known."""
RETRAINED = "certificates of weights that the run no longer has: it was trained again since; certify it again"
CHANGED = (
    "certificates of another function: the model in the recipe was changed since; restore recipe.toml, or certify again"
)
SOME_RADII = "only some radii were tested; a dash marks an untested radius, ≥ a bound from a larger one"
KNOWN_LABEL = (
    "evaluated with the label known: a prediction is the label or an abstention, and no samples were used to find "
    "the class. A deployed model has to find it with a pilot: certificates made without labels give those numbers"
)
NO_CERTIFIER = "the certifier is not recorded, so the intervals do not include its failure probability"
ROUNDED = "the radii were printed with three significant digits, which can round a radius up"
ADVICE = {
    protocol.BUDGETS: "ACR grows with the number of samples: compare it with care",
    protocol.IMAGES: "Their numbers are not directly comparable",
    protocol.RECORDS: "It is unknown whether the others were certified in the same way",
}
"""What follows from a difference between inputs."""
DESCRIBED: dict[str, Callable[[Certificates], object]] = {
    **protocol.ASPECTS,
    protocol.BUDGETS: protocol.describe_certifier,
    protocol.IMAGES: protocol.describe_images,
    protocol.RECORDS: lambda file: "not recorded" if file.certifier is None else "recorded",
}
"""How a note on a difference describes each input."""
MOST_NAMED = 8
"""The most inputs that a note names; of more inputs, those with the most frequent value are "the others"."""


def claim(entries: Sequence[Entry]) -> str:
    """Return what a certificate means, with the largest of the failure probabilities if all are known."""
    norms = protocol.norm_names([entry.certificates for entry in entries])
    failures = [entry.certificates.failure for entry in entries]
    known = [failure for failure in failures if failure is not None]
    sure = f", and such a proof fails with a probability of at most {max(known)} per image" if known else ""
    return (
        f"A certificate is a proof: no change of the image that is shorter, in {norms}, than the radius can change "
        f"the smoothed classifier’s answer{sure if len(known) == len(failures) else ''}.{_rounding(entries)}"  # noqa: RUF001
    )


def noise_words(entries: Sequence[Entry]) -> str:
    """Describe the noise, of each input if they differ."""
    differ = len({_noise(entry.certificates) for entry in entries}) > 1
    return f"Noise: {_values(entries, _noise) if differ else _noise(entries[0].certificates)}."


def _noise(certificates: Certificates) -> str:
    """Describe the noise of a file; the sigma of another tool's log may be known from its name alone."""
    if "noise" in certificates.header:
        stated = {key: value for key, value in certificates.noise.items() if key != "name"}
        parameters = ", ".join(f"{key} {_value_text(value)}" for key, value in stated.items())
        return f"{certificates.noise.get('name')}{f' of {parameters}' if parameters else ''}, pixels in [0, 1]"
    return "not recorded" if certificates.sigma is None else f"sigma {certificates.sigma:g}, pixels in [0, 1]"


def _rounding(entries: Sequence[Entry]) -> str:
    """Return the limitation of noise in floating point; empty if all noise is on a grid."""
    if all(entry.certificates.header.get("noise", {}).get("name") == "grid" for entry in entries):
        return ""
    return (
        " It holds for noise in exact arithmetic. With noise drawn in float32 it promises nothing about a base "
        "classifier that was built to look at the last bits of its input; with the noise grid it does."
    )


def headline_radius(entries: Sequence[Entry], radii: Sequence[float] = ()) -> float:
    """Choose the radius nearest to twice the smallest sigma, among those that all inputs tested."""
    summaries = [entry.summary for entry in entries]
    candidates = [radius for radius in radii or radii_of(summaries) if radius > 0] or [DEFAULT_RADIUS]
    decided = [radius for radius in candidates if all(summary.decided(radius) for summary in summaries)]
    sigmas = [entry.certificates.sigma for entry in entries if entry.certificates.sigma]
    target = 2 * min(sigmas) if sigmas else DEFAULT_RADIUS
    return min(decided or candidates, key=lambda radius: (abs(radius - target), radius))


def headline(entry: Entry, radius: float) -> str:
    """Return the share that is guaranteed within a radius, with its interval, and the share without an answer."""
    summary, size = entry.summary, f"radius {radius_text(radius)} ({protocol.norm_name(entry.certificates)})"
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
    """List what the numbers do not show: how they were made, and whether they compare."""
    return [*_about_single(entries), *_about_some(entries), *_about_all(entries)]


def _about_single(entries: Sequence[Entry]) -> list[str]:
    """List the notes on the images of inputs, and on images that were certified several times."""
    sentences = []
    repeated: dict[str, list[Entry]] = {}
    for entry in entries:
        if (words := protocol.describe_images(entry.certificates)).endswith("so far"):
            sentences.append(f"{entry.short_name}: {words}.")
        if words := protocol.bias_warning(entry.certificates, entry.class_names):
            sentences.append(f"{entry.short_name}: {words}.")
        others = [other.certificates for other in entries if other is not entry]
        if words := repeats_note(entry.certificates, [*others, *entry.beside]):
            repeated.setdefault(words, []).append(entry)
    for words, members in repeated.items():
        shared = words if len(members) == 1 else words.replace("its images", "their images", 1)
        sentences.append(f"{_listed(members, entries)}: {shared}.")
    return sentences


def _about_some(entries: Sequence[Entry]) -> list[str]:
    """List the notes that several inputs may share."""
    foreign = [entry for entry in entries if entry.certificates.certifier is None]
    shared = {
        RETRAINED: [entry for entry in entries if entry.weights == GONE],
        CHANGED: [entry for entry in entries if entry.weights == EDITED],
        SOME_RADII: [entry for entry in entries if entry.summary.tested_radii is not None],
        KNOWN_LABEL: [entry for entry in entries if protocol.label_known(entry.certificates)],
        NO_CERTIFIER: foreign,
        ROUNDED: [entry for entry in foreign if _has_rounded_radii(entry.certificates)],
    }
    for entry in entries:
        if largest := largest_attack(entry):
            shared.setdefault(_about_attack(entry, largest.attack), []).append(entry)
    return [f"{_listed(members, entries)}: {words}." for words, members in shared.items() if members]


def _about_attack(entry: Entry, attack: Attack) -> str:
    """Describe an attack, and how many certificates of the input were broken."""
    broken = broken_certificates(entry)
    inside = f"{broken} certified images changed inside their radius" if broken else "no certificate was broken"
    unanswered = f", {attack.abstained:,} without an answer, counted as errors" if attack.abstained else ""
    return f"attacked on {len(attack.rows):,} images{unanswered} ({budget(attack)}), {inside}"


def _has_rounded_radii(certificates: Certificates) -> bool:
    return all(float(f"{row.radius:.3}") == row.radius for row in certificates.rows)


def _listed(members: Sequence[Entry], entries: Sequence[Entry]) -> str:
    return "All inputs" if len(members) == len(entries) > 1 else ", ".join(entry.short_name for entry in members)


def _about_all(entries: Sequence[Entry]) -> list[str]:
    """List the notes on the differences between inputs."""
    files = [entry.certificates for entry in entries]
    differing = protocol.differences(files)
    sentences = [_difference(words, entries) for words in differing]
    if len({str(file.header["seed"]) for file in files if "seed" in file.header}) > 1:
        sentences.append(f"The seeds differ: {_values(entries, lambda file: file.header.get('seed'))}.")
    if differing:
        sentences.append("No best is marked, as the inputs were not certified in the same way.")
    elif len(files) > 1 and not protocol.comparable(files):
        sentences.append(f"No best is marked: that takes at least {protocol.FEWEST_IMAGES} images.")
    return sentences


def _difference(words: str, entries: Sequence[Entry]) -> str:
    """Return the note on a difference, with the value of each input, and what follows."""
    advice = f" {ADVICE[words]}." if words in ADVICE else ""
    return f"{words}: {_values(entries, DESCRIBED[words])}.{advice}"


def _values(entries: Sequence[Entry], value: Callable[[Certificates], object]) -> str:
    """List every value with the names of its inputs, the most frequent one last."""
    names: dict[str, list[str]] = {}
    for entry in entries:
        names.setdefault(_value_text(value(entry.certificates)), []).append(entry.short_name)
    *few, (usual, others) = sorted(names.items(), key=lambda item: len(item[1]))
    last = ["the others"] if few and len(entries) > MOST_NAMED else others
    return "; ".join(f"{text} ({', '.join(members)})" for text, members in [*few, (usual, last)])


def _value_text(value: object) -> str:
    if isinstance(value, bool):
        return "known" if value else "not known"
    return "not recorded" if value in (None, "None", UNKNOWN) else str(value)
