"""Corrupted: the images that `radii corrupt` makes of any dataset, 15 kinds at 5 severities; not a published set."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from radii.datasets._blocks import OWN, only_test, read_kind
from radii.datasets.base import DataError, Dataset, InMemory, Split, existing_folder, named_data
from radii.fields import option
from radii.published_datasets import KINDS

MOST_BYTES = 1 << 24


@dataclass(frozen=True, kw_only=True, eq=False)
class Corrupted(Dataset):
    """A folder of `radii corrupt`: KIND.npy, labels.npy and a record. `severity` 0 is all five, one after the other."""

    kind: str = option("gaussian_noise", choices=tuple(KINDS["cifar10_c"].values()))
    severity: int = option(0, ge=0, le=5)
    _folder: Path = field(init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        folder = existing_folder(named_data(self, "a folder that `radii corrupt` made"))
        self.learned(_folder=folder, **_facts(folder / OWN))

    def split(self, split: Split) -> InMemory:
        only_test(self.name, split)
        return read_kind(self._folder, self.kind, self.severity, self.shape, self.classes)


def _facts(record: Path) -> dict[str, Any]:
    """The shape and the classes of the images, from the record beside them."""
    if not record.is_file():
        raise DataError(f"there is no {record}: name a folder that `radii corrupt` made", "data")
    try:
        with record.open("rb") as file:
            found = json.loads(file.read(MOST_BYTES))
        channels, height, width = (int(side) for side in found["shape"])
        names = tuple(map(str, found["class_names"]))
    except (ValueError, LookupError, TypeError) as error:
        raise DataError(f"{record} does not state shape and class_names: make the images again") from error
    if min(channels, height, width) < 1 or not names:
        raise DataError(f"{record} states images of {channels} x {height} x {width} in {len(names)} classes")
    return {"shape": (channels, height, width), "class_names": names}
