"""Publishers' files, found under the data folder or downloaded and checked by hash."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pooch

from radii.datasets.base import DataError, Dataset, existing_folder

SECONDS_TO_ANSWER = 10


@dataclass(frozen=True)
class Published:
    """A publisher's file: where it can be downloaded, and the hash that verifies it."""

    url: str
    md5: str
    unpacked: str = ""
    """The folder in an archive, which may be used instead of it."""

    @property
    def name(self) -> str:
        return self.url.rpartition("/")[2]


def folders(dataset: Dataset) -> list[Path]:
    """Where a dataset's files may be; a download goes to the first."""
    if dataset.data is None:
        return [Path(pooch.os_cache("radii")) / dataset.name]
    return [existing_folder(dataset.data) / dataset.name, dataset.data]


def locate(dataset: Dataset, files: Sequence[Published]) -> list[Path]:
    """The paths of publisher's files; missing ones are downloaded, existing ones are kept."""
    places = folders(dataset)
    for folder in places:
        paths = [folder / file.name for file in files]
        if all(path.is_file() for path in paths):
            return paths
    try:
        return [_present(places[0], file) for file in files]
    except Exception as error:
        # A wrong hash is a ValueError with its own message; network errors are too long to show.
        reason = str(error) if type(error) is ValueError else type(error).__name__
        raise DataError(
            f"{dataset.name} was not found and cannot be downloaded ({reason}): put {_listing(files)} "
            f"into {places[0]}, or name another folder",
            "data",
        ) from error


def md5_of(path: Path) -> str:
    """The hash that publishers state for their files."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def _present(folder: Path, file: Published) -> Path:
    path = folder / file.name
    if not path.is_file():
        downloader = pooch.HTTPDownloader(timeout=SECONDS_TO_ANSWER)
        pooch.retrieve(file.url, known_hash=f"md5:{file.md5}", fname=file.name, path=folder, downloader=downloader)
    return path


def _listing(files: Sequence[Published]) -> str:
    return " and ".join(f"{f.name} (or its folder {f.unpacked})" if f.unpacked else f.name for f in files)
