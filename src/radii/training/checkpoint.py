"""Save and restore the state of a training, so that it continues after a stop with the same weights."""

import hashlib
import io
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.amp.grad_scaler import GradScaler

from radii import disk
from radii.runs.run import Run, RunError

DIGEST_BYTES = hashlib.sha256().digest_size
"""A checkpoint file ends with the SHA-256 of the rest."""
PROGRESS = ("epoch", "step", "seconds", "core_seconds", "totals", "history")
"""The attributes of a TrainState that are plain data."""


class TrainState:
    """Model, optimizer, gradient scaler, position in the schedule, sums of this epoch and rows of training.csv.

    Random numbers are drawn by address, so no random state is saved.
    """

    def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer, scaler: GradScaler | None = None) -> None:
        self.model = model
        self.optimizer = optimizer
        self.scaler = scaler or GradScaler("cpu", enabled=False)
        self.epoch = 0
        self.step = 0
        """Steps done in this epoch."""
        self.seconds = 0.0
        """Time spent in this epoch."""
        self.core_seconds = 0.0
        """Processor time spent in this epoch, summed over the threads of this process."""
        self.totals: dict[str, float] = {}
        """Sums of the terms over the images of this epoch."""
        self.history: list[dict[str, Any]] = []
        """The rows of training.csv."""

    def state_dict(self) -> dict[str, Any]:
        """Return the state as plain data and tensors."""
        return {
            "model": self.model.state_dict(),
            "optimiser": self.optimizer.state_dict(),
            **({"scaler": self.scaler.state_dict()} if self.scaler.is_enabled() else {}),
            "progress": {name: getattr(self, name) for name in PROGRESS},
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimiser"])
        if self.scaler.is_enabled():
            self.scaler.load_state_dict(state["scaler"])
        for name in PROGRESS:  # a checkpoint of an older version has no core_seconds
            setattr(self, name, state["progress"].get(name, getattr(self, name)))

    def add(self, terms: dict[str, float]) -> None:
        """Add the summed terms of a finished step."""
        self.step += 1
        for name, total in terms.items():
            self.totals[name] = self.totals.get(name, 0.0) + total

    def close_epoch(self, row: dict[str, Any]) -> None:
        """Keep the row of a finished epoch and begin the next epoch."""
        self.history.append(row)
        self.epoch, self.step, self.seconds, self.core_seconds, self.totals = self.epoch + 1, 0, 0.0, 0.0, {}

    def save(self, run: Run) -> None:
        """Write the state and its digest atomically, and keep the previous checkpoint."""
        buffer = io.BytesIO()
        torch.save(self.state_dict(), buffer)
        content = buffer.getvalue()
        disk.write(run.checkpoint_file, content + hashlib.sha256(content).digest(), keep=run.previous_checkpoint_file)

    def restore(self, run: Run) -> bytes | None:
        """Restore the last checkpoint, if there is one, and return its content.

        If it is damaged, the previous one is used. training.csv is written again, because the training may have been
        stopped between the two writes.
        """
        checkpoints = [path for path in (run.checkpoint_file, run.previous_checkpoint_file) if path.is_file()]
        for path in checkpoints:
            if (content := read_checkpoint(path)) is not None:
                self.load(content, path)
                if path != run.checkpoint_file:
                    disk.remove(run.checkpoint_file)  # otherwise the next save would replace the intact one
                run.write_history(self.history)
                return content
        if checkpoints:
            names = " and ".join(map(str, checkpoints))
            raise RunError(f"{names} cannot be read, the digest does not match: remove it to start this run again")
        return None

    def load(self, content: bytes, path: Path) -> None:
        """Restore the state from the content of the checkpoint at `path`."""
        try:
            # To the CPU: the device that wrote the checkpoint may not exist here.
            self.load_state_dict(torch.load(io.BytesIO(content), map_location="cpu", weights_only=True))
        except (MemoryError, torch.OutOfMemoryError) as error:
            raise RunError(
                f"There is too little memory to load {path}. Free some, and type the command again."
            ) from error
        except Exception as error:
            raise RunError(
                f"{path} cannot be read ({type(error).__name__}): remove it to start this run again"
            ) from error


def read_checkpoint(path: Path) -> bytes | None:
    """Return the content of a checkpoint, or None if its digest does not match."""
    content = path.read_bytes()
    state, digest = content[:-DIGEST_BYTES], content[-DIGEST_BYTES:]
    return state if hashlib.sha256(state).digest() == digest else None
