"""The files of a run for a worker that cannot read them: sent as bytes, kept until the worker opens another session.

Nothing here is believed: a session compares the digest of the weights with the one that it was told.
"""

import shutil
import tempfile
import weakref
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TypeVar

import torch
from torch import Tensor

from radii import disk
from radii.datasets import Images
from radii.workers.remote import NotHereError

Opened = TypeVar("Opened")
LEFT_OUT = ("checkpoint", "training.csv", "soft-labels", "events", "report", ".")
"""The beginnings of the names of files that certification does not need."""


def shipped_files(run: Path) -> dict[str, bytes]:
    """The files of a run that certification needs, by name."""
    found = (path for path in sorted(run.iterdir()) if path.is_file())
    return {path.name: path.read_bytes() for path in found if not path.name.startswith(LEFT_OUT)}


def opened(sent: Mapping[str, bytes], open_in: Callable[[Path], Opened]) -> Opened:
    """What is opened in a temporary folder with these files, which is removed with it."""
    folder = Path(tempfile.mkdtemp(prefix="radii-"))
    try:
        for name, content in sent.items():
            disk.write(folder / Path(name).name, content)
        found = open_in(folder)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    weakref.finalize(found, shutil.rmtree, folder, ignore_errors=True)
    return found


class AbsentImages(Images):
    """The images of a split that cannot be read here."""

    def __init__(self, digest: str) -> None:
        self.labels = torch.zeros(0, dtype=torch.int64)
        self._digest = digest

    @cached_property
    def digest(self) -> str:
        return self._digest

    def batch(self, indices: Tensor, rng: torch.Generator | None = None) -> Tensor:
        raise NotHereError(f"the images {indices.tolist()} are not here: they have to be sent")
