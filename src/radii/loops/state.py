"""The state of a training run between two steps: all that a stopped run needs to continue."""

import io
from typing import Any

import torch
from torch import nn

from radii.experiment import files
from radii.experiment.run import Run, RunError


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
        """Write the whole state in one move."""
        content = io.BytesIO()
        torch.save(self.state_dict(), content)
        files.write(run.checkpoint_file, content.getvalue())

    def restore(self, run: Run) -> None:
        """Go to where the run stopped; a run never started is at its beginning."""
        if not run.checkpoint_file.is_file():
            return
        try:
            self.load_state_dict(torch.load(run.checkpoint_file, weights_only=True))
        except Exception as error:
            raise RunError(
                f"{run.checkpoint_file} cannot be read ({type(error).__name__}): remove it to start this run again"
            ) from error


_POSITION = ("epoch", "step", "seconds", "totals", "history")
