"""Keep the pictures of certified images that a report shows, also when the parts of several shards are merged."""

import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from radii import disk
from radii.certification.data import evaluated_images, named_in
from radii.datasets import DataError, Samples, samples_of
from radii.errors import RunWarning
from radii.runs import gallery
from radii.runs.certificates import Row
from radii.runs.run import Run
from radii.runs.shards import merge


def merge_shards(run: Run, data: Path | None = None) -> list[Path]:
    """Merge the part files of a run into the certificate files that certification without shards would write.

    `data` is the folder of the images. If they cannot be read, only the pictures for a report are left out.
    """
    return merge(run, partial(_with_pictures, run, data))


def _with_pictures(run: Run, data: Path | None, path: Path, header: Mapping[str, Any], rows: Sequence[Row]) -> None:
    try:
        images = evaluated_images(run, *named_in(run, header), data).images
        if images.digest != header.get("data"):
            raise DataError("the images there are not those that were certified", "data")
        keep_pictures(path, rows, samples_of(images))
    except (ValueError, LookupError, OSError) as error:
        reason = error.args[0] if isinstance(error, LookupError) and error.args else error
        warnings.warn(
            f"{path} has no pictures for a report: {reason}; merge again where the data are", RunWarning, stacklevel=2
        )


def keep_pictures(certificates: Path, rows: Sequence[Row], samples: Samples) -> None:
    """Store the most interesting images of a certificate file, so that a report needs no dataset.

    The caller holds the lock of the certificate file.
    """
    path, chosen = gallery.pictures_file(certificates), gallery.chosen(rows)
    digests = {str(row.index): row.digest for row in chosen}
    if path.parent.is_dir():
        disk.sweep(path.parent, [path.name])
    if not digests or _stored_digests(path) == digests:
        return
    pictures = {str(row.index): samples.sample(row.index)[0].numpy() for row in chosen}
    if {len(pixels) for pixels in pictures.values()} <= gallery.CHANNELS:
        gallery.write(path, pictures, digests)


def _stored_digests(path: Path) -> dict[str, Any] | None:
    """Return the digests in a file of pictures; None if it is missing or damaged: it is then written again."""
    try:
        return gallery.read(path)[1] if path.is_file() else None
    except ValueError:
        return None
