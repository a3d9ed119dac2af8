"""Attacked accuracy: the share of images for which an attack found no wrong answer within a radius."""

from collections.abc import Mapping
from typing import Any

from radii.experiment import attacks
from radii.experiment.attacks import Attack
from radii.report.entries import Entry
from radii.report.summary import Share, radius_text, up


def attack_on(entry: Entry) -> Attack | None:
    """The attack with the most images on what was certified: the same weights, under the same noise."""
    header = entry.certificates.header
    if entry.run is None or "weights" not in header:
        return None
    noise = header.get("noise", {}).get("name", "gaussian")
    found = [each for _, each in attacks.of_weights(entry.run, header["weights"]) if _same_images(each, header)]
    return max((each for each in found if each.header["noise"].get("name") == noise), key=_size, default=None)


def _same_images(attack: Attack, header: Mapping[str, Any]) -> bool:
    return bool(attack.header["data"] == header.get("data"))


def _size(attack: Attack) -> tuple[int, int]:
    return len(attack.rows), attack.header["steps"] * attack.header["copies"]


def broken_certificates(entry: Entry) -> int:
    """How many certified images the attack changed inside their certified radius; each is a wrong certificate."""
    attack = attack_on(entry)
    if attack is None:
        return 0
    certified = {row.digest: row for row in entry.certificates.rows if row.correct and row.digest}
    return sum(
        row.distance is not None and row.digest in certified and row.distance < certified[row.digest].radius
        for row in attack.rows
    )


def attacked_accuracy(attack: Attack, radius: float) -> Share | None:
    """The share of images that the attack did not break within a radius; None beyond the largest radius tried."""
    return Share(*attack.resisted(radius)) if radius <= attack.largest else None


def in_words(attack: Attack) -> str:
    """An attack in one line, shares rounded up: they are bounds from above."""
    radii = (0.0, *attack.header["radii"])
    shares = [
        f"{up(share.value, 1, 2)}% at {radius_text(radius)}"
        for radius in radii
        if (share := attacked_accuracy(attack, radius))
    ]
    return f"{len(attack.rows)} images, without a wrong answer found: {', '.join(shares)} ({budget(attack)})"


def budget(attack: Attack) -> str:
    """What an attack spent on every image and radius, as text."""
    header = attack.header
    return f"{header['steps']} steps, {header['copies']} noise copies, {header['samples']:,} votes to decide"
