"""The bars claim no more than was measured."""

import io

from rich.console import Console

from radii.cli.progress import TrainingBar
from radii.loops.train import StepEvent


def test_the_noisy_test_accuracy_is_not_rounded_up() -> None:
    bar = TrainingBar(Console(file=io.StringIO()))
    bar(StepEvent(epoch=0, epochs=2, step=1, steps=1, loss=1.0, row={"noisy_test_accuracy": 0.97659}))
    assert bar.progress.tasks[0].fields["note"].endswith("noisy test accuracy 0.9765")
