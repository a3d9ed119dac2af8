"""Pictures of the most interesting test images of a certificate file."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from radii import disk
from radii.runs import readers
from radii.runs.certificates import Row
from radii.smoothing.certificate import ABSTAIN

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FEW = 3
"""Images in each group."""
CHANNELS = {1, 3}
"""Channels of a picture that can be shown: grey, or red, green and blue."""
MOST_BYTES = 1 << 26
"""Bytes of a file of pictures."""


def choice(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Choose images with the smallest, median and largest radius, and errors with the largest radius."""
    proven = sorted((row for row in rows if row.correct and row.radius > 0), key=lambda row: (row.radius, row.index))
    errors = (row for row in rows if not row.correct and row.prediction != ABSTAIN)
    wrong = sorted(errors, key=lambda row: (-row.radius, row.index))
    half = max(0, (len(proven) - FEW) // 2)
    groups = {
        "Smallest radius": proven[:FEW],
        "Median radius": proven[half : half + FEW],
        "Largest radius": proven[-FEW:][::-1],
        "Wrong, with the largest radius": wrong[:FEW],
    }
    # An image is shown in the first of its groups only.
    first = {row.index: title for title, group in reversed(groups.items()) for row in group}
    unique = {title: [row for row in group if first[row.index] == title] for title, group in groups.items()}
    return {title: group for title, group in unique.items() if group}


def chosen(rows: Sequence[Row]) -> list[Row]:
    """Return all images of the choice."""
    return [row for group in choice(rows).values() for row in group]


def pictures_file(certificates: Path) -> Path:
    """Return the file with the pictures of a certificate file, in the run's folder `pictures`."""
    return certificates.parent.parent / "pictures" / f"{certificates.name.removesuffix('.tsv')}.safetensors"


def write(path: Path, pictures: "Mapping[str, NDArray[np.float32]]", records: Mapping[str, Any]) -> None:
    """Write pictures [channel, height, width] by name, with a record of each."""
    from safetensors.numpy import save

    disk.make_folder(path.parent)
    disk.write(path, save(dict(pictures), {"facts": json.dumps(records, sort_keys=True)}))


def read(path: Path) -> "tuple[dict[str, NDArray[np.float32]], dict[str, Any]]":
    """Read a file of pictures and their records; raise a ValueError for any other content."""
    import numpy as np
    from safetensors import SafetensorError
    from safetensors.numpy import load

    records = readers.parse_object(readers.weights_metadata(path).get("facts", "{}"), f"the header of {path}")
    try:
        pictures = load(readers.content(path, MOST_BYTES))
    except (SafetensorError, KeyError, ValueError) as error:
        raise ValueError(f"{path} holds no pictures ({readers.short(error)}): remove it") from error
    for name, pixels in pictures.items():
        if pixels.ndim != 3 or pixels.shape[0] not in CHANNELS or pixels.dtype != np.float32 or not pixels.size:
            raise ValueError(f"{path}: {readers.short(name)} is no picture, expected float32 [channel, height, width]")
        if not np.isfinite(pixels).all():
            raise ValueError(f"{path}: {readers.short(name)} has pixels that are no numbers: remove the file")
    return pictures, records
