"""Attacked accuracy: the share of images for which an attack found no wrong answer within a radius."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from radii.reports.entries import Entry
from radii.reports.summary import Share, radius_text, up
from radii.runs import attacks, gallery
from radii.runs.attacks import Attack
from radii.runs.readers import is_integer, is_number
from radii.smoothing.certificate import ABSTAIN


def attack_on(entry: Entry) -> Attack | None:
    """The attack with the most images on what was certified: the same weights and images, under the same noise."""
    return max((each for _, each in _attacks_on(entry)), key=_size, default=None)


def _attacks_on(entry: Entry) -> list[tuple[Path, Attack]]:
    header = entry.certificates.header
    if entry.run is None or "weights" not in header:
        return []
    about = header.get("data"), header.get("noise", {}).get("name", "gaussian"), entry.certificates.sigma
    return [each for each in attacks.files_of_weights(entry.run, header["weights"]) if _about(each[1].header) == about]


def _about(header: Mapping[str, Any]) -> tuple[Any, ...]:
    return header["data"], header["noise"].get("name"), header["noise"].get("sigma")


def _size(attack: Attack) -> tuple[int, int]:
    return len(attack.rows), attack.header["steps"] * attack.header["copies"]


def broken_certificates(entry: Entry) -> int:
    """How many certified images any attack changed inside their certified radius; each is a wrong certificate."""
    certified = {row.digest: row for row in entry.certificates.rows if row.digest and row.prediction != ABSTAIN}
    return len(
        {
            digest
            for digest, answer, distance in _changes(entry)
            if digest in certified
            and distance < certified[digest].radius
            and answer not in (certified[digest].prediction, ABSTAIN)
        }
    )


def _changes(entry: Entry) -> Iterator[tuple[str, int | None, float]]:
    """The digest, the answer and the length of every change that was kept, from the rows and from the pictures."""
    for path, attack in _attacks_on(entry):
        for row in attack.rows:
            if row.distance is not None:
                yield row.digest, row.wrong, row.distance
        if attacks.pictures_file(path).is_file():
            for facts in gallery.read(attacks.pictures_file(path))[1].values():
                if isinstance(facts, dict) and is_number(facts.get("distance")) and is_integer(facts.get("answer")):
                    yield str(facts.get("digest")), facts["answer"], facts["distance"]


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
