"""The state of a training run between two steps: everything that a stopped run needs to continue."""

import hashlib
import io
from pathlib import Path
from typing import Any

import torch
from torch import nn

from radii import disk
from radii.runs.run import Run, RunError

DIGEST_BYTES = hashlib.sha256().digest_size
"""At the end of a checkpoint file, after what torch wrote."""


class TrainState:
    """Model, optimiser, position in the schedule, sums of this epoch and the rows of training.csv.

    Randomness is an address, so no random state is kept. A part that is added here is saved and restored.
    """

    def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        self.model = model
        self.optimizer = optimizer
        self.epoch = 0
        self.step = 0
        """Steps done in this epoch."""
        self.seconds = 0.0
        """Time spent in this epoch."""
        self.totals: dict[str, float] = {}
        """Sums of the terms over the images of this epoch."""
        self.history: list[dict[str, Any]] = []
        """The rows of training.csv."""

    def state_dict(self) -> dict[str, Any]:
        """The state as plain data and tensors."""
        parts = {"model": self.model.state_dict(), "optimiser": self.optimizer.state_dict()}
        return {**parts, "progress": {name: getattr(self, name) for name in _POSITION}}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimiser"])
        for name in _POSITION:
            setattr(self, name, state["progress"][name])

    def add(self, terms: dict[str, float]) -> None:
        """Count the summed terms of a step."""
        self.step += 1
        for name, total in terms.items():
            self.totals[name] = self.totals.get(name, 0.0) + total

    def close_epoch(self, row: dict[str, Any]) -> None:
        """Keep the row of a finished epoch and start the next."""
        self.history.append(row)
        self.epoch, self.step, self.seconds, self.totals = self.epoch + 1, 0, 0.0, {}

    def save(self, run: Run) -> None:
        """Write the whole state atomically, followed by its digest; the previous checkpoint is kept."""
        buffer = io.BytesIO()
        torch.save(self.state_dict(), buffer)
        content = buffer.getvalue()
        disk.write(run.checkpoint_file, content + _digest(content), keep=run.previous_checkpoint_file)

    def restore(self, run: Run) -> bytes | None:
        """Restore the last checkpoint, if there is one, and return its content.

        If it is damaged, the one before it is used. training.csv is written again, since the run may have been stopped
        between the two writes.
        """
        found = [path for path in (run.checkpoint_file, run.previous_checkpoint_file) if path.is_file()]
        for path in found:
            if (content := _undamaged(path)) is not None:
                self.load(content, path)
                if path != run.checkpoint_file:
                    disk.remove(run.checkpoint_file)  # or the next save would replace the intact one
                run.write_history(self.history)
                return content
        if found:
            names = " and ".join(map(str, found))
            raise RunError(f"{names} cannot be read, the digest does not match: remove it to start this run again")
        return None

    def load(self, content: bytes, path: Path) -> None:
        """Take over the content of a checkpoint, which `path` names."""
        try:
            self.load_state_dict(torch.load(io.BytesIO(content), weights_only=True))
        except Exception as error:
            raise RunError(
                f"{path} cannot be read ({type(error).__name__}): remove it to start this run again"
            ) from error


def _digest(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()


def _undamaged(path: Path) -> bytes | None:
    """The content of a checkpoint; None if its digest does not match."""
    content = path.read_bytes()
    state, digest = content[:-DIGEST_BYTES], content[-DIGEST_BYTES:]
    return state if _digest(state) == digest else None


_POSITION = ("epoch", "step", "seconds", "totals", "history")
