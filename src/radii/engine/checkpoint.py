"""The state of a training run between two steps, on disk."""

import io
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from radii.experiment import files
from radii.experiment.run import Run, RunError


@dataclass
class Progress:
    """How far a training run has come. Randomness is an address, so no random state is kept."""

    epoch: int = 0
    step: int = 0
    """Steps done in this epoch."""
    seconds: float = 0.0
    """Time spent in this epoch."""
    totals: dict[str, float] = field(default_factory=dict)
    """Sums of the terms over the images of this epoch."""
    history: list[dict[str, Any]] = field(default_factory=list)
    """The rows of training.csv."""


def save(run: Run, model: nn.Module, optimiser: torch.optim.Optimizer, progress: Progress) -> None:
    """Write the whole state in one move."""
    content = io.BytesIO()
    state = {"model": model.state_dict(), "optimiser": optimiser.state_dict(), "progress": vars(progress)}
    torch.save(state, content)
    files.write(run.checkpoint_file, content.getvalue())


def restore(run: Run, model: nn.Module, optimiser: torch.optim.Optimizer) -> Progress:
    """Bring model and optimiser to where the run stopped; a run never started is at its beginning."""
    if not run.checkpoint_file.is_file():
        return Progress()
    try:
        state = torch.load(run.checkpoint_file, weights_only=True)
        model.load_state_dict(state["model"])
        optimiser.load_state_dict(state["optimiser"])
        return Progress(**state["progress"])
    except Exception as error:
        raise RunError(
            f"{run.checkpoint_file} cannot be read ({type(error).__name__}): remove it to start this run again"
        ) from error
