"""The pictures of the page: changes of the length of a radius, and test images with the attacks on them."""

import base64
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from radii.reports.attacks import largest_attack
from radii.reports.inputs import Entry
from radii.reports.protocol import norm_name
from radii.reports.text import class_name, down, radius_text
from radii.runs import gallery
from radii.runs.certificates import Row
from radii.runs.readers import is_integer, is_number
from radii.smoothing.certificate import ABSTAIN
from radii.smoothing.norms import L2, Norm

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Pixels = NDArray[np.float32]

MOST_VOTES = 3
"""The most classes whose votes are shown."""
NOTHING_FOUND = "No wrong answer was found outside."


class Change(NamedTuple):
    """An image that an attack changed, the length of the change, and the answer to it."""

    pixels: "Pixels"
    length: float
    answer: int


@dataclass(frozen=True)
class Pictures:
    """The pictures of one input by index, and those that an attack changed by name, such as 3-inside."""

    clean: "Mapping[int, Pixels]"
    changed: "Mapping[str, Pixels]"
    changes: Mapping[str, Any]
    """The records of the changes, by name."""

    def change(self, index: int, kind: str) -> Change | None:
        """Return the image that was changed `inside` or `outside` of its radius, if there is one."""
        name = f"{index}-{kind}"
        record = self.changes.get(name)
        if name not in self.changed or index not in self.clean or not isinstance(record, dict):
            return None
        length: Any = record.get("distance")
        answer: Any = record.get("answer")
        if self.changed[name].shape != self.clean[index].shape:
            return None
        if not is_number(length) or not length > 0 or not is_integer(answer):
            return None
        return Change(self.changed[name], float(length), int(answer))


def read_pictures(entry: Entry) -> Pictures | None:
    """Read the pictures of a run's certification and attack whose digests match the certificates."""
    if entry.run is None:
        return None
    path = gallery.pictures_file(entry.run.certificates / f"{entry.certificates.name}.tsv")
    if not path.is_file():
        return None
    rows = {str(row.index): row for row in entry.certificates.rows}
    pictures, digests = gallery.read(path)
    clean = {
        int(name): pixels
        for name, pixels in pictures.items()
        if name in rows and digests.get(name) == rows[name].digest
    }
    attack = largest_attack(entry)
    changed, changes = attack.pictures if attack else ({}, {})
    own = {name: change for name, change in changes.items() if _fits(name, change, rows.get(name.partition("-")[0]))}
    return Pictures(clean, changed, own) if clean else None


def _fits(name: str, change: Any, row: Row | None) -> bool:
    """Return whether a change is of this image, and inside or outside of its radius as the name says.

    The image may have had another radius when it was attacked.
    """
    length: Any = change.get("distance") if isinstance(change, dict) else None
    if row is None or not is_number(length):
        return False
    return bool(change.get("digest") == row.digest and (length <= row.radius) == name.endswith("-inside"))


class Image(NamedTuple):
    """A picture of the page as a data URL, and its description."""

    source: str
    words: str


def _image(pixels: "Pixels", words: str) -> Image:
    """Encode a picture; values outside of [0, 1] are clipped."""
    import numpy as np
    from PIL import Image as Pillow

    levels = (np.clip(pixels, 0, 1) * 255).round().astype(np.uint8)
    shown = Pillow.fromarray(levels[0]) if len(levels) == 1 else Pillow.fromarray(levels.transpose(1, 2, 0))
    content = io.BytesIO()
    shown.save(content, "PNG", optimize=True)
    return Image(f"data:image/png;base64,{base64.b64encode(content.getvalue()).decode()}", words)


class Look(NamedTuple):
    """A picture, and the same one with changes of the length of a radius."""

    about: str
    images: Sequence[Image]


def look(inputs: Sequence[tuple[Entry, Pictures]], radius: float) -> Look | None:
    """Return a picture as it is, with noise of the length of a radius, and with an attack's change of that length."""
    for entry, pictures in inputs:
        for row in gallery.choice(entry.certificates.rows).get("Median radius", []):
            if row.index in pictures.clean:
                size = f"{radius_text(radius)} ({norm_name(entry.certificates)}, pixels in [0, 1])"
                about = f"What a radius of {size} looks like (image {row.index} of {entry.name})."
                return Look(about, _changed_by(pictures, row.index, radius, entry.certificates.norm or L2))
    return None


def _changed_by(pictures: Pictures, index: int, radius: float, norm: Norm) -> list[Image]:
    clean, size = pictures.clean[index], radius_text(radius)
    images = [_image(clean, "A test picture"), _image(_with_noise(clean, radius, norm), f"with noise of length {size}")]
    if change := pictures.change(index, "outside") or pictures.change(index, "inside"):
        words = f"with a change of length {size} in the direction that an attack found worst"
        images.append(_image(_scaled(clean, change.pixels, radius, norm), words))
    return images


def _with_noise(pixels: "Pixels", length: float, norm: Norm) -> "Pixels":
    """Add Gaussian noise, scaled to this length in a norm."""
    import numpy as np

    noise = np.random.default_rng(0).standard_normal(pixels.shape)
    return _scaled(pixels, (pixels + noise).astype(np.float32), length, norm)


def _scaled(pixels: "Pixels", changed: "Pixels", length: float, norm: Norm) -> "Pixels":
    """Change a picture in the direction of another, by this length in a norm."""
    import numpy as np

    change = changed.astype(np.float64) - pixels
    size = norm.length(change)
    return (pixels + (change * (length / size) if size else 0.0)).astype(np.float32)


class GalleryItem(NamedTuple):
    """A test image of a gallery with the changed ones, and what its certificate and the attacks on it say."""

    images: Sequence[Image]
    label: str
    answer: str
    radius: str
    votes: str
    outcome: str


class Gallery(NamedTuple):
    """The test images of one input, in groups such as those with the largest radius."""

    name: str
    groups: Mapping[str, Sequence[GalleryItem]]


def galleries(inputs: Sequence[tuple[Entry, Pictures]]) -> list[Gallery]:
    """Return a gallery for every input that has pictures."""
    return [
        Gallery(
            entry.name,
            {
                title: [_item(row, pictures, entry.class_names) for row in rows if row.index in pictures.clean]
                for title, rows in gallery.choice(entry.certificates.rows).items()
            },
        )
        for entry, pictures in inputs
    ]


def _item(row: Row, pictures: Pictures, names: Sequence[str]) -> GalleryItem:
    label = class_name(row.label, names)
    images = [_image(pictures.clean[row.index], f"test image {row.index}, {label}")]
    changes = {kind: pictures.change(row.index, kind) for kind in ("inside", "outside")}
    for kind, change in changes.items():
        if change:
            images.append(_image(change.pixels, f"test image {row.index}, attacked {kind} the radius"))
    most = sorted(row.counts.items(), key=lambda item: -item[1])[:MOST_VOTES]
    votes = ", ".join(f"{count:,} for {class_name(label, names)}" for label, count in most)
    return GalleryItem(
        images,
        label,
        "right" if row.correct else f"answered {_answer(row.prediction, names)}",
        down(row.radius, 3),
        f"Votes: {votes}" if votes else "",
        _outcome(row, changes["inside"], changes["outside"], names),
    )


def _outcome(row: Row, inside: Change | None, outside: Change | None, names: Sequence[str]) -> str:
    """Describe the outcome of the attacks on an image; empty if there was none."""
    if inside is None and outside is None:
        return ""
    within, beyond = "", NOTHING_FOUND
    if inside is not None:
        within = f"Inside, at {down(inside.length, 3)}: {_outcome_inside(inside.answer, row, names)}. "
    if outside is not None:
        beyond = f"Outside, at {down(outside.length, 3)}: answers {_answer(outside.answer, names)}."
    return within + beyond


def _outcome_inside(answer: int, row: Row, names: Sequence[str]) -> str:
    if answer == row.prediction:
        return "the attack fails"
    return "the vote is too close for an answer" if answer == ABSTAIN else f"answers {class_name(answer, names)}"


def _answer(prediction: int, names: Sequence[str]) -> str:
    return "nothing" if prediction == ABSTAIN else class_name(prediction, names)
