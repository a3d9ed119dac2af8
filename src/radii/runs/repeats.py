"""Repeats: other certifications of the same images and weights; each is another chance of a false certificate."""

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from radii.runs import certificates
from radii.runs.certificates import Certificates, Row

DRAWS = (
    "procedure",
    "parameters",
    "noise",
    "stream",
    "seed",
    "batch_size",
    "engine",
    "artefact",
    "device",
    "label_known",
    "from",
)
"""Fields of a header that decide what is drawn for an image, and what follows from it."""


def repeats(certified: Certificates, others: Iterable[Certificates]) -> list[Certificates]:
    """Return one other file for each other way in which images of this file were certified with the same weights."""
    ways: dict[str, Certificates] = {_draws(certified, certified): certified}
    for other in others:
        same = "weights" in certified.header and other.header.get("weights") == certified.header["weights"]
        if same and _draws(certified, other) not in ways and shared_images(certified, other):
            ways[_draws(certified, other)] = other
    return list(ways.values())[1:]


def repeats_note(certified: Certificates, others: Iterable[Certificates], images: str = "its images") -> str:
    """Say how often images of a file were also certified with other settings; empty if they were not."""
    repeated = repeats(certified, others)
    if not repeated:
        return ""
    count = len(repeated)
    words = f"{images} were also certified {count} time{'s' * (count != 1)} with other settings of the same weights"
    failures = [failure for file in (certified, *repeated) if (failure := file.failure) is not None]
    if len(failures) <= count:
        return words
    return f"{words}: the failure probability of the best of them is up to {min(1.0, sum(failures)):.4g}"


def beside(path: Path, read: Callable[[Path], Certificates] = certificates.read) -> list[Certificates]:
    """Read the other certificate files in the folder of a file; those that cannot be read are left out."""
    files = []
    for other in sorted(path.parent.glob("*.tsv")):
        if other != path and certificates.header_file(other).is_file():
            try:
                files.append(read(other))
            except (ValueError, OSError):
                continue
    return files


def shared_images(one: Certificates, other: Certificates) -> int:
    """Count the images that both files have a row of."""
    digests = {row.index: row.digest for row in one.rows}
    return overlap(other.header, other.rows, one.header, digests, digests.__getitem__)


def overlap(
    other: Mapping[str, Any],
    rows: Sequence[Row],
    header: Mapping[str, Any],
    images: Collection[int],
    digest_of: Callable[[int], str],
) -> int:
    """Count the images of a header that have a row in another file: by index in the same data, else by digest."""
    if not rows:
        return 0
    if _same_data(header, other):
        return len({row.index for row in rows} & set(images))
    return len({row.digest for row in rows} & {digest_of(index) for index in images})


def _draws(certified: Certificates, other: Certificates) -> str:
    """Return what determines another file's draws for the images of this file: its settings and their numbers in it."""
    numbers = [] if _same_data(certified.header, other.header) else _numbers(certified, other)
    return json.dumps([numbers, *(other.header.get(key) for key in DRAWS)], sort_keys=True)


def _numbers(certified: Certificates, other: Certificates) -> list[tuple[str, int]]:
    """Return the shared images whose number, and so whose noise, differs in the other file: digests and numbers."""
    own = {row.digest: row.index for row in certified.rows if row.digest}
    return [(row.digest, row.index) for row in other.rows if own.get(row.digest, row.index) != row.index]


def _same_data(header: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Return whether a number names the same image in both files, as far as the other one states its data."""
    return other.get("data") in (None, header.get("data"))
