"""The pictures of a page: what a radius looks like, and test pictures by radius with the attacks on them."""

from collections.abc import Sequence

from radii.reports.chart import text
from radii.reports.entries import Entry
from radii.reports.pictures import Pictures, image, pictures_of, scaled, with_noise
from radii.reports.summary import down, radius_text
from radii.runs import gallery
from radii.runs.certificates import Row
from radii.smoothing.certificate import ABSTAIN

MOST_VOTES = 3
"""Classes whose votes are shown."""
NOTHING_FOUND = "No wrong answer was found outside."


def look(entries: Sequence[Entry], radius: float) -> str:
    """One picture as it is, with noise of the length of a radius, and with a worst change of that length."""
    for entry in entries:
        found = pictures_of(entry)
        rows = gallery.choice(entry.certificates.rows).get("Median radius", []) if found else []
        for row in rows:
            if found and row.index in found.clean:
                return _look(entry, found, row.index, radius)
    return ""


def _look(entry: Entry, found: Pictures, index: int, radius: float) -> str:
    clean, size = found.clean[index], radius_text(radius)
    shown = [(clean, "A test picture"), (with_noise(clean, radius), f"with noise of length {size}")]
    if change := found.change(index, "outside") or found.change(index, "inside"):
        words = f"with a change of length {size} in the direction that an attack found worst"
        shown.append((scaled(clean, change[0], radius), words))
    figures = "".join(
        f"<figure>{image(pixels, words)}<figcaption>{words}</figcaption></figure>" for pixels, words in shown
    )
    about = f"What a radius of {size} looks like (image {index} of {text(entry.name)})."
    return f'<div class="look"><p class="quiet">{about}</p><div class="pictures">{figures}</div></div>'


def galleries(entries: Sequence[Entry]) -> str:
    """A gallery for every input that has pictures, the first one open."""
    found = [(entry, pictures) for entry in entries if (pictures := pictures_of(entry))]
    parts = [_gallery(entry, pictures, opened=number == 0) for number, (entry, pictures) in enumerate(found)]
    return "\n".join(parts)


def _gallery(entry: Entry, pictures: Pictures, *, opened: bool) -> str:
    names = entry.run.class_names() if entry.run else ()
    groups = "".join(
        f'<div class="group"><h3>{title}</h3><div class="pictures">{_cards(rows, pictures, names)}</div></div>'
        for title, rows in gallery.choice(entry.certificates.rows).items()
    )
    return f'<details class="card gallery"{" open" * opened}><summary>{text(entry.name)}</summary>{groups}</details>'


def _cards(rows: Sequence[Row], pictures: Pictures, names: Sequence[str]) -> str:
    return "".join(_card(row, pictures, names) for row in rows if row.index in pictures.clean)


def _card(row: Row, pictures: Pictures, names: Sequence[str]) -> str:
    label = _class(row.label, names)
    answer = "right" if row.correct else f"answered {_class(row.prediction, names)}"
    shown = [image(pictures.clean[row.index], f"test image {row.index}, {label}"), *_changes(row, pictures)]
    words = f"<strong>{text(label)}</strong>, {text(answer)}, radius {down(row.radius, 3)}"
    return (
        f'<figure><div class="strip">{"".join(shown)}</div><figcaption>{words}<br>{text(_votes(row, names))}'
        f"{_outcome(row, pictures, names)}</figcaption></figure>"
    )


def _changes(row: Row, pictures: Pictures) -> list[str]:
    words = {"inside": "attacked inside the radius", "outside": "attacked outside the radius"}
    found = {kind: pictures.change(row.index, kind) for kind in words}
    return [image(change[0], f"test image {row.index}, {words[kind]}") for kind, change in found.items() if change]


def _outcome(row: Row, pictures: Pictures, names: Sequence[str]) -> str:
    """What the attacks beside the picture did."""
    inside, outside = pictures.change(row.index, "inside"), pictures.change(row.index, "outside")
    if inside is None and outside is None:
        return ""
    first = "" if inside is None else f"Inside, at {down(inside[1], 3)}: {_after(inside[2], row, names)}. "
    said = "" if outside is None else _class(outside[2], names)
    second = NOTHING_FOUND if outside is None else f"Outside, at {down(outside[1], 3)}: answers {said}."
    return f"<br>{text(first + second)}"


def _after(answer: int, row: Row, names: Sequence[str]) -> str:
    """What an attack inside the radius did."""
    if answer == row.prediction:
        return "the attack fails"
    return "the vote is too close for an answer" if answer == ABSTAIN else f"answers {_class(answer, names)}"


def _votes(row: Row, names: Sequence[str]) -> str:
    counts = sorted(row.counts.items(), key=lambda item: -item[1])[:MOST_VOTES]
    votes = ", ".join(f"{count:,} for {_class(label, names)}" for label, count in counts)
    return f"Votes: {votes}" if votes else ""


def _class(label: int, names: Sequence[str]) -> str:
    if label == ABSTAIN:
        return "nothing"
    return names[label] if 0 <= label < len(names) else f"class {label}"
