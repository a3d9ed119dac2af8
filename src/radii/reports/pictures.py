"""The pictures of a run as they are shown on a page, and what a change of a given length looks like."""

import base64
import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from radii.reports.attacked import attack_on
from radii.reports.chart import text
from radii.reports.entries import Entry
from radii.runs import attacks, gallery
from radii.runs.certificates import Row
from radii.runs.readers import is_integer, is_number

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Pixels = NDArray[np.float32]


@dataclass(frozen=True)
class Pictures:
    """The pictures of one input by image number, and the changed ones of an attack."""

    clean: "Mapping[int, Pixels]"
    changed: "Mapping[str, Pixels]"
    facts: Mapping[str, Any]

    def change(self, index: int, kind: str) -> "tuple[Pixels, float, int] | None":
        """A changed picture, `inside` or `outside` of the certified radius: pixels, length of the change, answer."""
        name = f"{index}-{kind}"
        facts = self.facts.get(name)
        if name not in self.changed or index not in self.clean or not isinstance(facts, dict):
            return None
        length: Any = facts.get("distance")
        answer: Any = facts.get("answer")
        if self.changed[name].shape != self.clean[index].shape:
            return None
        if not is_number(length) or not length > 0 or not is_integer(answer):
            return None
        return self.changed[name], float(length), int(answer)


def pictures_of(entry: Entry) -> Pictures | None:
    """The pictures that certification and attack left in the run; only those whose digests the certificates have."""
    path = _pictures_file(entry)
    if path is None or not path.is_file():
        return None
    rows = {str(row.index): row for row in entry.certificates.rows}
    found, facts = gallery.read(path)
    clean = {
        int(name): pixels for name, pixels in found.items() if name in rows and facts.get(name) == rows[name].digest
    }
    changed, about = _attacked(entry)
    mine = {name: each for name, each in about.items() if _fits(name, each, rows.get(name.partition("-")[0]))}
    return Pictures(clean, changed, mine) if clean else None


def _pictures_file(entry: Entry) -> Path | None:
    if entry.run is None:
        return None
    return gallery.pictures_file(entry.run.certificates / f"{entry.certificates.name}.tsv")


def _fits(name: str, facts: Any, row: Row | None) -> bool:
    """Whether a change is of this image, and inside or outside of this radius as it was of the one attacked."""
    length: Any = facts.get("distance") if isinstance(facts, dict) else None
    if row is None or not is_number(length):
        return False
    return bool(facts.get("digest") == row.digest and (length <= row.radius) == name.endswith("-inside"))


def _attacked(entry: Entry) -> "tuple[dict[str, Pixels], dict[str, Any]]":
    best = attack_on(entry)
    if entry.run is None or best is None:
        return {}, {}
    for path, attack in attacks.files_of_weights(entry.run, best.header["weights"]):
        if attack.header == best.header and attacks.pictures_file(path).is_file():
            return gallery.read(attacks.pictures_file(path))
    return {}, {}


def image(pixels: "Pixels", description: str) -> str:
    """A picture as an element of a page, its pixels inside the page; values outside [0, 1] are shown as the nearest."""
    return f'<img alt="{text(description)}" src="data:image/png;base64,{_png(pixels)}">'


def _png(pixels: "Pixels") -> str:
    import numpy as np
    from PIL import Image

    levels = (np.clip(pixels, 0, 1) * 255).round().astype(np.uint8)
    shown = Image.fromarray(levels[0]) if len(levels) == 1 else Image.fromarray(levels.transpose(1, 2, 0))
    content = io.BytesIO()
    shown.save(content, "PNG", optimize=True)
    return base64.b64encode(content.getvalue()).decode()


def with_noise(pixels: "Pixels", length: float) -> "Pixels":
    """The picture with Gaussian noise of an exact length in l2."""
    import numpy as np

    noise = np.random.default_rng(0).standard_normal(pixels.shape)
    return scaled(pixels, (pixels + noise).astype(np.float32), length)


def scaled(pixels: "Pixels", changed: "Pixels", length: float) -> "Pixels":
    """The picture with a change in the same direction, of this length."""
    import numpy as np

    change = changed.astype(np.float64) - pixels
    size = float(np.linalg.norm(change))
    return (pixels + (change * (length / size) if size else 0.0)).astype(np.float32)
