from dataclasses import dataclass, replace
from typing import ClassVar

import pytest
from torch import nn

from radii.objectives import Batch, Step, Terms
from radii.objectives.consistency import Consistency
from radii.runs import recipe as recipes
from radii.training import timing
from radii.training.build import build


@dataclass(frozen=True, kw_only=True, eq=False)
class Watched(Consistency):
    """Notes for each step whether it is Gaussian training."""

    seen: ClassVar[list[bool]] = []

    def terms(self, model: nn.Module, batch: Batch, step: Step) -> Terms:
        self.seen.append(step.progress < self.gaussian_start)
        return super().terms(model, batch, step)


@pytest.mark.parametrize("start", [0.0, 0.4, 1.0])
def test_timed_steps_are_as_often_gaussian_as_those_of_the_training(start: float) -> None:
    components = build(recipes.read(recipes.find("digits/consistency-0.25")))
    Watched.seen.clear()
    timing.time_steps(replace(components, objective=Watched(sigma=0.25, gaussian_start=start)))
    assert sum(Watched.seen[1:]) == start * timing.TIMED_STEPS
