"""Teacher tapes: a teacher's logits for every epoch and training image, recorded once for all later students.

Noise and augmentation of a training step depend on its address, not on the student. So a teacher gives every student
of the same schedule the same logits.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from radii import disk
from radii.datasets import Images
from radii.device import default_device
from radii.runs import readers
from radii.runs.recipe import Recipe
from radii.runs.run import Run

FOLDER = "tapes"
MOST_BYTES = 1 << 30
"""A larger tape is not recorded; the teacher then runs for every student."""
DIGEST_BYTES = hashlib.sha256().digest_size
"""A file of the tape ends with the digest of the tape's name, the epoch and the logits."""


class Tape:
    """The logits of one teacher for one schedule: a file for every epoch, written when the epoch is complete."""

    def __init__(self, folder: Path, images: int, classes: int, writable: bool) -> None:
        self.folder, self.shape, self.writable = folder, (images, classes), writable
        self._epoch: int | None = None
        self._recorded: Tensor | None = None
        self._recording = torch.empty(0)
        self._missing = 0

    def logits(self, epoch: int, indices: Tensor) -> Tensor | None:
        """Return the recorded logits [image, class] of an epoch's images, or None if the epoch is not recorded."""
        self._turn_to(epoch)
        if self._recorded is None:
            return None
        if self._recorded.device != indices.device:
            self._recorded = self._recorded.to(indices.device)  # once an epoch, so that no step waits
        return self._recorded[indices]

    def record(self, epoch: int, indices: Tensor, logits: Tensor) -> None:
        """Keep the logits of a step; the epoch is written with its last image."""
        self._turn_to(epoch)
        if not self.writable or logits.dtype != torch.float32:
            return
        if self._missing == self.shape[0]:
            self._recording = torch.empty(self.shape, device=logits.device)
        self._recording[indices] = logits.detach()
        self._missing -= len(indices)
        if self._missing == 0:
            self._write(epoch, self._recording.cpu())

    def has_epochs(self, count: int) -> bool:
        """Return whether the first epochs, so many of them, have files."""
        return all(self._file(epoch).is_file() for epoch in range(count))

    def _write(self, epoch: int, logits: Tensor) -> None:
        """Write an epoch's logits, in 16 bits if nothing is lost: a teacher in bfloat16 gives such logits."""
        halves = logits.bfloat16()
        exact = torch.equal(halves.float(), logits)
        content = (halves if exact else logits).view(torch.uint8).numpy().tobytes()
        with disk.locked(self.folder, wait=True):  # several students may record one tape
            disk.write(self._file(epoch), content + self._digest(epoch, content))

    def _turn_to(self, epoch: int) -> None:
        """Load the logits of an epoch at its first step."""
        if epoch != self._epoch:
            self._epoch, self._missing, self._recorded = epoch, self.shape[0], self._read(epoch)

    def _read(self, epoch: int) -> Tensor | None:
        """Return an epoch's logits; None, so that they are recorded again, if the file is missing, damaged or wrong."""
        file = self._file(epoch)
        values = self.shape[0] * self.shape[1]
        dtypes = {values * dtype.itemsize + DIGEST_BYTES: dtype for dtype in (torch.bfloat16, torch.float32)}
        if not file.is_file() or file.is_symlink() or (dtype := dtypes.get(file.stat().st_size)) is None:
            return None
        whole = file.read_bytes()
        content, digest = whole[:-DIGEST_BYTES], whole[-DIGEST_BYTES:]
        if self._digest(epoch, content) != digest:
            return None
        return torch.frombuffer(bytearray(content), dtype=dtype).view(self.shape).float()

    def _digest(self, epoch: int, content: bytes) -> bytes:
        return hashlib.sha256(f"{self.folder.name} {epoch}\n".encode() + content).digest()

    def _file(self, epoch: int) -> Path:
        return self.folder / f"epoch-{epoch:04}.logits"


def open_tape(teacher: Run, function: str, recipe: Recipe, images: Images, classes: int) -> Tape | None:
    """Open the tape of a teacher for a student's recipe, in the teacher's folder; None if it would be too large.

    Its name is a digest of everything that the logits depend on. `function` is the digest of the teacher's model table.
    """
    training = recipe.training
    assert training is not None
    if training.epochs * len(images) * classes * torch.float32.itemsize > MOST_BYTES:
        return None
    header = tape_header(teacher, function, recipe, images.digest)
    name = hashlib.sha256(json.dumps(header, sort_keys=True).encode()).hexdigest()[:16]
    folder = teacher.path / FOLDER / name
    stated = folder / "tape.json"
    writable = os.access(teacher.path, os.W_OK)
    if writable:
        disk.make_folder(folder)
        with disk.locked(folder, wait=True):
            disk.sweep(folder, [stated.name, *(f"epoch-{epoch:04}.logits" for epoch in range(training.epochs_begun))])
            if not stated.is_file():
                disk.write_json(stated, header)
    if stated.is_file() and readers.json_object(stated) != header:
        return None
    return Tape(folder, len(images), classes, writable)


def tape_header(teacher: Run, function: str, recipe: Recipe, data: str) -> Mapping[str, Any]:
    """Return what a teacher's logits depend on: its function, the images, the addresses of noise and augmentation."""
    training = recipe.training
    assert training is not None
    device = default_device().type
    return {
        "teacher": teacher.weights_digest(),
        "model": function,
        "data": data,
        "dataset": {key: value for key, value in recipe.dataset.items() if key != "path"},
        "sigma": recipe.sigma,
        "seed": recipe.seed,
        "images_per_step": training.images_per_step,
        "precision": training.precision,
        **({} if training.stream is None else {"stream": training.stream}),
        **({} if device == "cpu" else {"device": device}),  # other devices draw and round differently
    }
