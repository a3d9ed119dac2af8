"""How certificates were made: what a file records, and whether two files are comparable."""

import json
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

from radii.runs.certificates import Certificates

FEWEST_IMAGES = 100
"""With fewer images, one image is more than one per cent, and the best is chance."""
BUDGETS = "The certifiers or their budgets differ"
IMAGES = "The inputs were certified on different images"
RECORDS = "Only some inputs record their certifier"


def asked(made: Certificates) -> tuple[float, ...] | None:
    """The radii that were tested, where a certifier tests given ones; None where it bounds the radius itself."""
    if made.certifier == "prediction":
        return (0.0,)
    radii, radius = made.parameters.get("radii"), made.parameters.get("radius")
    stated: Sequence[Any] = radii if isinstance(radii, list | tuple) else [radius]
    return tuple(sorted({float(each) for each in stated if _is_number(each)})) or None


def label_known(made: Certificates) -> bool:
    """Whether the label itself was tested, so that every prediction is the label or an abstention."""
    return bool(made.header.get("label_known", made.certifier == "sequential"))


def chosen(made: Certificates) -> int | None:
    """The number of images that were to be certified, where that is recorded."""
    every, total, most = (made.header.get(key) for key in ("every", "images", "most"))
    if not isinstance(every, int) or not isinstance(total, int) or every < 1:
        return None
    return len(range(0, total, every)[: most if isinstance(most, int) else None])


def evaluated(made: Certificates) -> str:
    """What the certificates are about, where it is not the test split of the run's own dataset; empty otherwise."""
    other, split = made.header.get("evaluated_on"), made.header.get("split", "test")
    if not isinstance(other, Mapping):
        return "" if split == "test" else str(split)
    stated = {key: value for key, value in other.items() if key not in ("name", "validation")}
    # Of the corruptions 0 is the default, which is no severity but all of them.
    fields = ["all severities" if each == ("severity", 0) else f"{each[0]} {each[1]}" for each in stated.items()]
    return ", ".join([str(other["name"]), *fields])


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _settings(made: Certificates) -> Hashable:
    stated = {key: value for key, value in made.parameters.items() if key != "failure" and value is not None}
    return made.certifier, json.dumps(stated, sort_keys=True)


def _noise(made: Certificates) -> Hashable:
    noise = made.header.get("noise")
    # Files without the field were made with Gaussian noise.
    return str(noise.get("name")) if isinstance(noise, Mapping) else "gaussian"


ASPECTS: Mapping[str, Callable[[Certificates], Hashable]] = {
    "The inputs are of different datasets": lambda made: str(made.header.get("dataset")),
    "The inputs are of different splits": lambda made: str(made.header.get("split", "test")),
    BUDGETS: _settings,
    "The failure probabilities differ": lambda made: made.failure,
    "The noises differ": _noise,
    "The label was known for some inputs only": label_known,
}
"""What must be equal, beside the images, for numbers to be comparable, keyed by the note for a difference."""


def differences(made: Sequence[Certificates]) -> list[str]:
    """How the certification of the inputs differs, as notes; files without a recorded certifier are not compared."""
    recorded = [each for each in made if each.certifier is not None]
    found = [words for words, value in ASPECTS.items() if len(set(map(value, recorded))) > 1]
    if _on_different_images(made):
        found.append(IMAGES)
    if 0 < len(recorded) < len(made):
        found.append(RECORDS)
    return found


def _on_different_images(made: Sequence[Certificates]) -> bool:
    if len({frozenset((row.index, row.label) for row in each.rows) for each in made}) > 1:
        return True
    digests: dict[int, str] = {}
    images = [(row.index, getattr(row, "digest", None)) for each in made for row in each.rows]
    return any(digests.setdefault(index, digest) != digest for index, digest in images if digest)


def comparable(made: Sequence[Certificates]) -> bool:
    """Whether one of them can be called the best: several, certified in the same way on enough of the same images."""
    return len(made) > 1 and min(len(each.rows) for each in made) >= FEWEST_IMAGES and not differences(made)
