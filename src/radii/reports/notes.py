"""Notes that a reader needs before comparing inputs."""

from collections.abc import Callable, Sequence

from radii.reports import attacked, protocol, weights
from radii.reports.entries import Entry
from radii.reports.facts import bias, choice
from radii.runs.attacks import Attack
from radii.runs.certificates import Certificates

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


def notes(entries: Sequence[Entry]) -> list[str]:
    """Everything that the numbers themselves do not show."""
    return [*_about_each(entries), *_about_some(entries), *_about_all(entries)]


def _about_each(entries: Sequence[Entry]) -> list[str]:
    found = []
    for entry in entries:
        if (words := choice(entry.certificates)).endswith("so far"):
            found.append(f"{entry.short_name}: {words}.")
        if words := bias(entry.certificates, entry.run.class_names() if entry.run else ()):
            found.append(f"{entry.short_name}: {words}.")
    return found


def _attack(entry: Entry, attack: Attack) -> str:
    """The budget of an attack, and what it did to certificates: each may be wrong with its failure probability."""
    broken = attacked.broken_certificates(entry)
    inside = f"{broken} certified images changed inside their radius" if broken else "no certificate was broken"
    return f"attacked on {len(attack.rows):,} images ({attacked.budget(attack)}), {inside}"


def _about_some(entries: Sequence[Entry]) -> list[str]:
    """Notes that several inputs may share."""
    foreign = [entry for entry in entries if entry.certificates.certifier is None]
    shared = {
        RETRAINED: [entry for entry in entries if entry.weights == weights.GONE],
        SOME_RADII: [entry for entry in entries if entry.summary.asked is not None],
        KNOWN_LABEL: [entry for entry in entries if protocol.label_known(entry.certificates)],
        NO_CERTIFIER: foreign,
        ROUNDED: [entry for entry in foreign if _rounded(entry.certificates)],
    }
    for entry in entries:
        if attack := attacked.attack_on(entry):
            shared.setdefault(_attack(entry, attack), []).append(entry)
    return [f"{_listed(some, entries)}: {words}." for words, some in shared.items() if some]


def _about_all(entries: Sequence[Entry]) -> list[str]:
    made = [entry.certificates for entry in entries]
    differing = protocol.differences(made)
    found = [f"{words}: {_consequence(words, entries)}." for words in differing]
    if len({str(each.header["seed"]) for each in made if "seed" in each.header}) > 1:
        found.append(f"The seeds differ: {_values(entries, lambda each: each.header.get('seed'))}.")
    if differing:
        found.append("No best is marked, as the inputs were not certified in the same way.")
    elif len(made) > 1 and not protocol.comparable(made):
        found.append(f"No best is marked: that takes at least {protocol.FEWEST_IMAGES} images.")
    return found


def _consequence(words: str, entries: Sequence[Entry]) -> str:
    return ADVICE.get(words) or _values(entries, protocol.ASPECTS[words])


def _values(entries: Sequence[Entry], value: Callable[[Certificates], object]) -> str:
    """Every value with the names of the inputs that have it; the most frequent one last, for "the others"."""
    names: dict[str, list[str]] = {}
    for entry in entries:
        names.setdefault(_text(value(entry.certificates)), []).append(entry.short_name)
    *few, (usual, others) = sorted(names.items(), key=lambda item: len(item[1]))
    listed = [f"{text} ({', '.join(some)})" for text, some in few]
    return ", ".join([*listed, f"{usual} ({', '.join(others) if len(others) < 2 else 'the others'})"])


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "known" if value else "not known"
    return "not recorded" if value is None else str(value)


def _listed(some: Sequence[Entry], entries: Sequence[Entry]) -> str:
    return "All inputs" if len(some) == len(entries) > 1 else ", ".join(entry.short_name for entry in some)


def _rounded(made: Certificates) -> bool:
    return all(float(f"{row.radius:.3}") == row.radius for row in made.rows)
