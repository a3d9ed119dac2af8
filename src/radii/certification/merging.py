"""Part files of shards as one certificate file, with the pictures that a certification leaves for a report."""

import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from radii.certification.evaluated import evaluated, named_in
from radii.certification.pictures import keep_pictures
from radii.datasets import Images
from radii.datasets.base import DataError
from radii.errors import RunWarning
from radii.runs.certificates import Row
from radii.runs.run import Run
from radii.runs.shards import merge


def merge_shards(run: Run, data: Path | None = None) -> list[Path]:
    """Merge the part files of a run: the certificate files, as certification without shards leaves them.

    `data` is where the images are; where they cannot be read only the pictures for a report are left out.
    """
    return merge(run, partial(_with_pictures, run, data))


def _with_pictures(run: Run, data: Path | None, path: Path, header: Mapping[str, Any], rows: Sequence[Row]) -> None:
    try:
        keep_pictures(path, rows, _images(run, data, header))
    except (ValueError, LookupError, OSError) as error:
        reason = error.args[0] if isinstance(error, LookupError) and error.args else error
        warnings.warn(
            f"{path} has no pictures for a report: {reason}; merge again where the data are", RunWarning, stacklevel=2
        )


def _images(run: Run, data: Path | None, header: Mapping[str, Any]) -> Images:
    images = evaluated(run, *named_in(run, header), data).images
    if images.digest != header.get("data"):
        raise DataError("the images there are others than those that were certified", "data")
    return images
