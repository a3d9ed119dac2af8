"""Attacked accuracy: the share of images whose right answer no attack turned into a wrong one within a radius."""

from collections.abc import Iterator

from radii.reports.inputs import Entry, RunAttack
from radii.reports.metrics import Share
from radii.reports.protocol import describe_noise
from radii.reports.text import radius_text, up
from radii.runs.attacks import Attack
from radii.runs.certificates import Certificates
from radii.runs.readers import is_integer, is_number
from radii.smoothing.certificate import ABSTAIN
from radii.smoothing.norms import L2, NORMS


def largest_attack(entry: Entry) -> RunAttack | None:
    """Return the attack on the most images, and of those the one with the most gradients; None if there is none."""

    def size(candidate: RunAttack) -> tuple[int, int]:
        header = candidate.attack.header
        return len(candidate.attack.rows), header["steps"] * header["copies"]

    return max(entry.attacks, key=size, default=None)


def broken_certificates(entry: Entry) -> int:
    """Count the certificates that an attack has refuted: a change shorter than the radius changed the answer."""
    certified = {row.digest: row for row in entry.certificates.rows if row.digest and row.prediction != ABSTAIN}
    broken = {
        digest
        for digest, answer, distance in _changes(entry)
        if digest in certified
        and distance < certified[digest].radius
        and answer not in (certified[digest].prediction, ABSTAIN)
    }
    return len(broken)


def _changes(entry: Entry) -> Iterator[tuple[str, int | None, float]]:
    """Yield digest, answer and length of every recorded change, from the rows and from the pictures of the attacks."""
    for recorded in entry.attacks:
        for row in recorded.attack.rows:
            if row.distance is not None:
                yield row.digest, row.wrong, row.distance
        for change in recorded.pictures[1].values():
            if isinstance(change, dict) and is_number(change.get("distance")) and is_integer(change.get("answer")):
                yield str(change.get("digest")), change["answer"], change["distance"]


def attacked_accuracy(attack: Attack, radius: float) -> Share | None:
    """Return the share of images that stay right under attack within a radius; None if it is larger than any tried."""
    return Share(*attack.resisted(radius)) if radius <= attack.largest else None


def in_words(attack: Attack) -> str:
    """Describe an attack in one line; shares are upper bounds, rounded up."""
    shares = [
        f"{up(share.value, 1, 2)}% at {radius_text(radius)}"
        for radius in (0.0, *attack.header["radii"])
        if (share := attacked_accuracy(attack, radius))
    ]
    abstained = up(Share(attack.abstained, len(attack.rows)).value, 1, 2) if attack.rows else "0.0"
    errors = f"; {abstained}% get no answer without an attack, counted as errors" if attack.abstained else ""
    norm = NORMS.get(str(attack.header.get("norm")), L2)
    within = "" if norm is L2 else f" in {norm}"
    return f"{len(attack.rows)} images, right and not changed{within}: {', '.join(shares)}{errors} ({budget(attack)})"


def budget(attack: Attack) -> str:
    """Describe the noise, and the budget of an attack for one image and radius."""
    header = attack.header
    noise = describe_noise(Certificates("", (), header))
    return f"{noise}; {header['steps']} steps, {header['copies']} noise copies, {header['samples']:,} votes to decide"
