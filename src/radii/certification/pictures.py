"""The pictures that a report shows, left in the run by those who have the dataset open."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from radii import disk
from radii.datasets import Images
from radii.runs import gallery
from radii.runs.certificates import Row


def keep_pictures(certificates: Path, made: Sequence[Row], images: Images) -> None:
    """Write the images of a certificate file, of these rows, that are worth a look: a report needs no dataset then.

    The caller holds the lock of the certificate file.
    """
    path, rows = gallery.pictures_file(certificates), gallery.chosen(made)
    wanted = {str(row.index): row.digest for row in rows}
    if path.parent.is_dir():
        disk.sweep(path.parent, [path.name])
    if not wanted or _kept(path) == wanted:
        return
    pictures = {str(row.index): images.batch(torch.tensor([row.index]))[0].numpy() for row in rows}
    if {len(pixels) for pixels in pictures.values()} <= gallery.CHANNELS:
        gallery.write(path, pictures, wanted)


def _kept(path: Path) -> dict[str, Any] | None:
    """What a file says of the pictures that it holds; a damaged one is written again."""
    try:
        return gallery.read(path)[1] if path.is_file() else None
    except ValueError:
        return None
