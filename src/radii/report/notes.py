"""What a reader must know before comparing, in sentences."""

from collections.abc import Callable, Sequence

from radii.experiment.certificates import Certificates
from radii.report import protocol, weights
from radii.report.entries import Entry
from radii.report.facts import bias, choice

RETRAINED = "certificates of weights that are no longer there: the run was trained anew since; certify it again"
SOME_RADII = "only some radii were asked; a dash stands for what was not, ≥ for what a larger radius proves of it"
KNOWN_LABEL = (
    "evaluated with the label known: an answer is the label or an abstention, and no samples went into finding the "
    "class. A deployed model has to find it, by a pilot: radii.certify without a label gives those figures"
)
NO_CERTIFIER = "the certifier is not on record, so the intervals leave out its failure probability"
ROUNDED = "the radii were printed with three significant digits, which can round a radius up"
ADVICE = {
    protocol.BUDGETS: "ACR grows with the samples spent, compare it with care",
    protocol.IMAGES: "their numbers do not compare one to one",
    protocol.RECORDS: "whether the others were made alike cannot be told",
}
"""What follows from a difference between inputs; of the others the values are listed."""


def notes(entries: Sequence[Entry]) -> list[str]:
    """Everything that the figures themselves do not show."""
    return [*_about_each(entries), *_about_some(entries), *_about_all(entries)]


def _about_each(entries: Sequence[Entry]) -> list[str]:
    found = []
    for entry in entries:
        if (words := choice(entry.certificates)).endswith("so far"):
            found.append(f"{entry.short_name}: {words}.")
        if words := bias(entry.certificates, entry.run.class_names() if entry.run else ()):
            found.append(f"{entry.short_name}: {words}.")
    return found


def _about_some(entries: Sequence[Entry]) -> list[str]:
    """Sentences on the inputs that have something in common."""
    foreign = [entry for entry in entries if entry.certificates.certifier is None]
    told = {
        RETRAINED: [entry for entry in entries if entry.weights == weights.GONE],
        SOME_RADII: [entry for entry in entries if entry.summary.asked is not None],
        KNOWN_LABEL: [entry for entry in entries if protocol.label_known(entry.certificates)],
        NO_CERTIFIER: foreign,
        ROUNDED: [entry for entry in foreign if _rounded(entry.certificates)],
    }
    return [f"{_listed(some, entries)}: {words}." for words, some in told.items() if some]


def _about_all(entries: Sequence[Entry]) -> list[str]:
    made = [entry.certificates for entry in entries]
    differing = protocol.differences(made)
    found = [f"{words}: {_consequence(words, entries)}." for words in differing]
    if len({str(each.header["seed"]) for each in made if "seed" in each.header}) > 1:
        found.append(f"The seeds differ: {_values(entries, lambda each: each.header.get('seed'))}.")
    if differing:
        found.append("No best is marked, as the inputs were not certified alike.")
    elif len(made) > 1 and not protocol.comparable(made):
        found.append(f"No best is marked: that takes at least {protocol.FEWEST_IMAGES} images.")
    return found


def _consequence(words: str, entries: Sequence[Entry]) -> str:
    return ADVICE.get(words) or _values(entries, protocol.ASPECTS[words])


def _values(entries: Sequence[Entry], value: Callable[[Certificates], object]) -> str:
    """Every value with the names of those that have it; those that most have is the others'."""
    names: dict[str, list[str]] = {}
    for entry in entries:
        names.setdefault(_text(value(entry.certificates)), []).append(entry.short_name)
    *few, (usual, others) = sorted(names.items(), key=lambda item: len(item[1]))
    told = [f"{text} ({', '.join(some)})" for text, some in few]
    return ", ".join([*told, f"{usual} ({', '.join(others) if len(others) < 2 else 'the others'})"])


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "known" if value else "not known"
    return "not on record" if value is None else str(value)


def _listed(some: Sequence[Entry], entries: Sequence[Entry]) -> str:
    return "All inputs" if len(some) == len(entries) > 1 else ", ".join(entry.short_name for entry in some)


def _rounded(made: Certificates) -> bool:
    return all(float(f"{row.radius:.3}") == row.radius for row in made.rows)
