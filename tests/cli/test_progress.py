"""The progress bars: their text, and the cost of an update."""

import io
import time
from collections.abc import Callable

import pytest
from rich.console import Console

from radii.cli.progress import CertificationBar, CountingBar, TrainingBar
from radii.experiment.certificates import Row
from radii.loops.train import StepEvent

CALLS = 20_000


def certification(bar: CertificationBar, number: int) -> None:
    bar(CALLS, Row(number, 1, number % 2, 0.5, 0.1))


def counting(bar: CountingBar, number: int) -> None:
    bar(number, CALLS)


def training(bar: TrainingBar, number: int) -> None:
    bar(StepEvent(number // 100, CALLS // 100, number % 100, 100, 0.5, None))


@pytest.mark.parametrize("terminal", [False, True])
@pytest.mark.parametrize(
    ("make", "call"), [(CertificationBar, certification), (CountingBar, counting), (TrainingBar, training)]
)
def test_cost_of_an_update_does_not_grow(
    terminal: bool, make: Callable[[Console], CertificationBar], call: Callable[[CertificationBar, int], None]
) -> None:
    console = Console(file=io.StringIO(), force_terminal=terminal, width=100)
    began = time.process_time()
    with make(console) as bar:
        for number in range(CALLS):
            call(bar, number)
    assert time.process_time() - began < 2


def test_certified_and_correct_images_are_counted() -> None:
    out = io.StringIO()
    with CertificationBar(Console(file=out, force_terminal=True, width=120)) as bar:
        for number in range(10):
            certification(bar, number)
    assert "10/20000" in out.getvalue()
    assert "5 certified and correct" in out.getvalue()


def test_the_noisy_test_accuracy_is_not_rounded_up() -> None:
    bar = TrainingBar(Console(file=io.StringIO()))
    bar(StepEvent(epoch=0, epochs=2, step=1, steps=1, loss=1.0, row={"noisy_test_accuracy": 0.97659}))
    assert bar.progress.tasks[0].fields["note"].endswith("noisy test accuracy 0.9765")
