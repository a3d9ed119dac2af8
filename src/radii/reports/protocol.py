"""How certificates were made, as their header says, and whether files of certificates can be compared."""

import json
from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from radii.reports.text import UNKNOWN, ordinal
from radii.runs.certificates import Certificates
from radii.runs.readers import is_integer, is_number

FEWEST_IMAGES = 100
"""The fewest images for which a best is named: of fewer, one image is more than one per cent."""
BUDGETS = "The certifiers or their budgets differ"
IMAGES = "The inputs were certified on different images"
UNRECORDED_NORM = "a norm that is not recorded"
RECORDS = "Only some inputs record their certifier"


def tested_radii(certificates: Certificates) -> tuple[float, ...] | None:
    """Return the radii that were tested; None if the certifier bounds the radius itself."""
    if certificates.certifier == "prediction":
        return (0.0,)
    radii, radius = certificates.parameters.get("radii"), certificates.parameters.get("radius")
    stated: Sequence[Any] = radii if isinstance(radii, list | tuple) else [radius]
    return tuple(sorted({float(value) for value in stated if is_number(value)})) or None


def label_known(certificates: Certificates) -> bool:
    """Return whether the label itself was tested, so that every prediction is the label or an abstention."""
    return bool(certificates.header.get("label_known", certificates.certifier == "sequential"))


def planned_images(certificates: Certificates) -> int | None:
    """Return the number of images that the command chose; None if that is not recorded."""
    every, total, most = (certificates.header.get(key) for key in ("every", "images", "most"))
    if not isinstance(every, int) or not isinstance(total, int) or every < 1:
        return None
    return len(range(0, total, every)[: most if isinstance(most, int) else None])


def evaluated_on(certificates: Certificates) -> str:
    """Name the dataset and split, if they are not the test split of the run's own dataset; empty otherwise."""
    other, split = certificates.header.get("evaluated_on"), certificates.header.get("split", "test")
    if not isinstance(other, Mapping):
        return "" if split == "test" else str(split)
    stated = {key: value for key, value in other.items() if key not in ("name", "validation")}
    # Severity 0, the default for corrupted images, means all severities.
    fields = ["all severities" if item == ("severity", 0) else f"{item[0]} {item[1]}" for item in stated.items()]
    return ", ".join([str(other["name"]), *fields])


def describe_images(certificates: Certificates) -> str:
    """Describe which images were certified."""
    count, header, planned = len(certificates.rows), certificates.header, planned_images(certificates)
    if planned is None:
        return _describe_indices(sorted(row.index for row in certificates.rows))
    every, total, most = header["every"], header["images"], header.get("most")
    dataset = f" of {evaluated_on(certificates)}" if "evaluated_on" in header else ""
    images = f"{total:,} {header.get('split', 'test')} images{dataset}"
    chosen = images if every == 1 else f"every {ordinal(every)} of {images}"
    if most is not None and most <= planned:
        # Many test sets are sorted, by class or by who wrote a digit.
        words = f"the first {most:,} of {chosen} (may be biased)"
    else:
        words = f"all {images}" if every == 1 else f"{chosen} ({planned:,})"
    return words if count == planned else f"{words}, {count:,} of them so far"


def _describe_indices(indices: Sequence[int]) -> str:
    """Describe images by their indices, for files that do not record how they were chosen."""
    count, first, last = len(indices), indices[0], indices[-1]
    strides = {b - a for a, b in pairwise(indices)}
    if len(strides) != 1:
        return f"{count:,} image{'s' * (count > 1)}"
    stride = strides.pop()
    what = "images" if stride == 1 else f"every {ordinal(stride)} image,"
    return f"{what} {first:,} to {last:,} ({count:,})"


def describe_certifier(certificates: Certificates) -> str:
    """Describe the certifier and its parameters."""
    if certificates.certifier is None:
        return UNKNOWN
    parameters = certificates.parameters.items()
    stated = ", ".join(f"{key} {_parameter(value)}" for key, value in parameters if value is not None)
    return f"{certificates.certifier}: {stated}" if stated else certificates.certifier


def _parameter(value: Any) -> str:
    if isinstance(value, list | tuple):
        return " ".join(map(_parameter, value))
    return f"{value:,}" if is_integer(value) else str(value)


def bias_warning(certificates: Certificates, class_names: Sequence[str] = ()) -> str:
    """Warn if enough images for all classes are of less than half of them; empty otherwise."""
    rows = certificates.rows
    labels = {label for row in rows for label in (row.label, row.prediction, *row.counts)}
    classes, seen, count = max(len(class_names), max(labels) + 1), len({row.label for row in rows}), len(rows)
    if count < classes or 2 * seen >= classes:
        return ""
    return f"the {count:,} images are of {seen} of {classes} classes: a biased choice, which says little of the others"


def _settings(certificates: Certificates) -> Hashable:
    parameters = certificates.parameters.items()
    stated = {key: value for key, value in parameters if key != "failure" and value is not None}
    return certificates.certifier, json.dumps(stated, sort_keys=True)


def describe_noise(certificates: Certificates) -> str:
    """Describe the noise, its parameters and the norm of its radii."""
    if "noise" not in certificates.header:
        return UNKNOWN
    name = str(certificates.noise.get("name"))
    stated = [f"{key} {_parameter(value)}" for key, value in certificates.noise.items() if key != "name"]
    return ", ".join([name, *stated, f"radii in {norm_name(certificates)}"])


def norm_name(certificates: Certificates) -> str:
    """Name the norm of the radii."""
    return UNRECORDED_NORM if certificates.norm is None else certificates.norm.name


def norm_names(files: Sequence[Certificates]) -> str:
    """Name the norms of the radii of several files, such as "l2" or "l1 or l2"."""
    return " or ".join(sorted({norm_name(certificates) for certificates in files}))


def radius_title(files: Sequence[Certificates]) -> str:
    """Return the title of an axis of radii."""
    return f"Radius ({norm_names(files)}, pixels in [0, 1])"


ASPECTS: Mapping[str, Callable[[Certificates], Hashable]] = {
    "The inputs are of different datasets": lambda certificates: str(certificates.header.get("dataset")),
    "The inputs are of different splits": lambda certificates: str(certificates.header.get("split", "test")),
    BUDGETS: _settings,
    "The failure probabilities differ": lambda certificates: certificates.failure,
    "The noises differ": lambda certificates: str(certificates.noise.get("name")),
    "The radii are of different norms, which do not compare": norm_name,
    "The label was known for some inputs only": label_known,
}
"""What must be equal, besides the images, for numbers to be comparable; the key is the note on a difference."""


def differences(files: Sequence[Certificates]) -> list[str]:
    """List how the certification of files differs, as notes; files without a recorded certifier are not compared."""
    recorded = [certificates for certificates in files if certificates.certifier is not None]
    notes = [note for note, value in ASPECTS.items() if len(set(map(value, recorded))) > 1]
    if _on_different_images(files):
        notes.append(IMAGES)
    if 0 < len(recorded) < len(files):
        notes.append(RECORDS)
    return notes


def _on_different_images(files: Sequence[Certificates]) -> bool:
    if len({frozenset((row.index, row.label) for row in certificates.rows) for certificates in files}) > 1:
        return True
    digests: dict[int, str] = {}
    images = [(row.index, row.digest) for certificates in files for row in certificates.rows]
    return any(digests.setdefault(index, digest) != digest for index, digest in images if digest)


def comparable(files: Sequence[Certificates]) -> bool:
    """Return whether one of the files can be called the best: same protocol, same images, and enough of them."""
    if len(files) < 2 or min(len(certificates.rows) for certificates in files) < FEWEST_IMAGES:
        return False
    return not differences(files)
