"""The pictures of a page: what a radius looks like, and test images by radius with the attacks on them."""

import base64
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from radii.reports.attacks import largest_attack
from radii.reports.inputs import Entry
from radii.reports.protocol import norm_name
from radii.reports.text import down, radius_text
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
    """An image that an attack changed."""

    pixels: "Pixels"
    length: float
    answer: int


@dataclass(frozen=True)
class Pictures:
    """The pictures of one input by image number, and those that an attack changed."""

    clean: "Mapping[int, Pixels]"
    changed: "Mapping[str, Pixels]"
    changes: Mapping[str, Any]
    """Length of the change and the answer to it, by the names of `changed`."""

    def change(self, index: int, kind: str) -> Change | None:
        """Return the image changed `inside` or `outside` of the certified radius, if there is one."""
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
    """Tell whether a change is of this image, and is inside or outside of its radius as the name says.

    The attack may have been made when the image had another radius.
    """
    length: Any = change.get("distance") if isinstance(change, dict) else None
    if row is None or not is_number(length):
        return False
    return bool(change.get("digest") == row.digest and (length <= row.radius) == name.endswith("-inside"))


class Image(NamedTuple):
    """A picture of the page: its content as a data URL, and its description."""

    source: str
    words: str


def _image(pixels: "Pixels", words: str) -> Image:
    """Encode a picture; values outside [0, 1] are shown as the nearest."""
    import numpy as np
    from PIL import Image as Pillow

    levels = (np.clip(pixels, 0, 1) * 255).round().astype(np.uint8)
    shown = Pillow.fromarray(levels[0]) if len(levels) == 1 else Pillow.fromarray(levels.transpose(1, 2, 0))
    content = io.BytesIO()
    shown.save(content, "PNG", optimize=True)
    return Image(f"data:image/png;base64,{base64.b64encode(content.getvalue()).decode()}", words)


class Look(NamedTuple):
    """One picture with changes of the length of a radius."""

    about: str
    images: Sequence[Image]


def look(inputs: Sequence[tuple[Entry, Pictures]], radius: float) -> Look | None:
    """Show a picture as it is, with noise of the length of a radius, and with a worst change of that length."""
    for entry, pictures in inputs:
        for row in gallery.choice(entry.certificates.rows).get("Median radius", []):
            if row.index in pictures.clean:
                size = f"{radius_text(radius)} ({norm_name(entry.certificates)}, pixels in [0, 1])"
                about = f"What a radius of {size} looks like (image {row.index} of {entry.name})."
                return Look(about, _changed_by(pictures, row.index, radius, entry.certificates.norm or L2))
    return None


def _changed_by(pictures: Pictures, index: int, radius: float, norm: Norm) -> list[Image]:
    clean, size = pictures.clean[index], radius_text(radius)
    images = [_image(clean, "A test picture"), _image(with_noise(clean, radius, norm), f"with noise of length {size}")]
    if change := pictures.change(index, "outside") or pictures.change(index, "inside"):
        words = f"with a change of length {size} in the direction that an attack found worst"
        images.append(_image(scaled(clean, change.pixels, radius, norm), words))
    return images


def with_noise(pixels: "Pixels", length: float, norm: Norm = L2) -> "Pixels":
    """Add Gaussian noise, scaled to exactly this length in a norm."""
    import numpy as np

    noise = np.random.default_rng(0).standard_normal(pixels.shape)
    return scaled(pixels, (pixels + noise).astype(np.float32), length, norm)


def scaled(pixels: "Pixels", changed: "Pixels", length: float, norm: Norm = L2) -> "Pixels":
    """Change a picture in the direction of another, by this length in a norm."""
    import numpy as np

    change = changed.astype(np.float64) - pixels
    size = norm.length(change)
    return (pixels + (change * (length / size) if size else 0.0)).astype(np.float32)


class Card(NamedTuple):
    """A test image of a gallery, with what its certificate and the attacks on it say."""

    images: Sequence[Image]
    label: str
    answer: str
    radius: str
    votes: str
    outcome: str


class Gallery(NamedTuple):
    """The test images of one input, in groups such as those with the largest radius."""

    name: str
    groups: Mapping[str, Sequence[Card]]


def galleries(inputs: Sequence[tuple[Entry, Pictures]]) -> list[Gallery]:
    """Return a gallery for every input that has pictures."""
    return [
        Gallery(
            entry.name,
            {
                title: [_card(row, pictures, entry.class_names) for row in rows if row.index in pictures.clean]
                for title, rows in gallery.choice(entry.certificates.rows).items()
            },
        )
        for entry, pictures in inputs
    ]


def _card(row: Row, pictures: Pictures, names: Sequence[str]) -> Card:
    label = _class(row.label, names)
    images = [_image(pictures.clean[row.index], f"test image {row.index}, {label}")]
    for kind in ("inside", "outside"):
        if change := pictures.change(row.index, kind):
            images.append(_image(change.pixels, f"test image {row.index}, attacked {kind} the radius"))
    answer = "right" if row.correct else f"answered {_class(row.prediction, names)}"
    most = sorted(row.counts.items(), key=lambda item: -item[1])[:MOST_VOTES]
    votes = ", ".join(f"{count:,} for {_class(label, names)}" for label, count in most)
    return Card(
        images,
        label,
        answer,
        down(row.radius, 3),
        f"Votes: {votes}" if votes else "",
        _outcome(row, pictures.change(row.index, "inside"), pictures.change(row.index, "outside"), names),
    )


def _outcome(row: Row, inside: Change | None, outside: Change | None, names: Sequence[str]) -> str:
    """Say what the attacks on an image did; empty without any."""
    if inside is None and outside is None:
        return ""
    first = ""
    if inside is not None:
        first = f"Inside, at {down(inside.length, 3)}: {_after(inside.answer, row, names)}. "
    if outside is None:
        return first + NOTHING_FOUND
    return f"{first}Outside, at {down(outside.length, 3)}: answers {_class(outside.answer, names)}."


def _after(answer: int, row: Row, names: Sequence[str]) -> str:
    """Say what an attack inside the radius did."""
    if answer == row.prediction:
        return "the attack fails"
    return "the vote is too close for an answer" if answer == ABSTAIN else f"answers {_class(answer, names)}"


def _class(label: int, names: Sequence[str]) -> str:
    if label == ABSTAIN:
        return "nothing"
    return names[label] if 0 <= label < len(names) else f"class {label}"
