"""The progress bars: their text, and the cost of an update."""

import io
import math
import re
import time
from collections.abc import Callable

import pytest
from rich.console import Console

from radii.cli import progress
from radii.cli.progress import CertificationBar, CountingBar, TrainingBar
from radii.estimate import Work
from radii.runs.certificates import Row
from radii.training.loop import StepEvent

CALLS = 20_000


def certification(bar: CertificationBar, number: int) -> None:
    bar(CALLS, Row(number, 1, number % 2, 0.5, 0.1, 100))


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


@pytest.mark.parametrize("width", [80, 200])
def test_certified_accuracy_with_its_interval_fits_the_terminal(width: int) -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=width)
    with CertificationBar(console, (0.0, 0.25)) as bar:
        for number in range(100):
            certification(bar, number)
    (last,) = [line for line in plain(out).splitlines() if "100/20000" in line][-1:]
    assert len(last) <= width
    assert "certifying" in last
    below = plain(out).splitlines()[-1]
    assert "50.0% (39.8-60.2) at 0.00, 50.0% (39.8-60.2) at 0.25, ACR 0.250" in below
    assert (below == last) == (width == 200), "what does not fit beside the bar is below it"


@pytest.mark.parametrize("width", [80, 200])
def test_epoch_loss_and_terms_fit_the_terminal(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_MARKS", 0.0)
    out = io.StringIO()
    with TrainingBar(Console(file=out, force_terminal=True, width=width)) as bar:
        for step in range(3):
            bar(StepEvent(2, 90, step, 100, 1.5, None, {"label": 1.25, "agreement": 0.25}))
        bar(StepEvent(3, 90, 0, 100, 1.5, {"noisy_test_accuracy": 0.97659}, {"label": 1.25, "agreement": 0.25}))
    *_, above, below = plain(out).splitlines()
    last = below if width == 200 else above
    assert max(map(len, (above, below))) <= width
    assert "epoch 4/90" in last
    assert "300/9000" in last
    assert "steps/s" in last
    assert "left" in last
    assert "loss 1.5" in last
    assert "noisy test accuracy 0.9765, label 1.2500, agreement 0.2500" in below


def plain(out: io.StringIO) -> str:
    """What was written to a terminal, without its commands."""
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", out.getvalue().replace("\r", "\n")).rstrip()


def test_without_a_terminal_a_line_is_printed_every_half_minute(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = iter(range(0, 10_000, 1))
    monkeypatch.setattr(time, "monotonic", lambda: float(next(clock)))
    out = io.StringIO()
    with CertificationBar(Console(file=out)) as bar:
        for number in range(100):
            certification(bar, number)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3, "one each half minute of a hundred seconds"
    assert re.fullmatch(
        r"certifying: 62 of 20000 images, 1/s, \d+ h \d+ min left, 50.0% \(37.0-63.0\), ACR 0.250, 6,200 copies",
        lines[1],
    )
    assert out.getvalue() == "", "stdout is for results"


def test_rate_excludes_the_work_of_an_earlier_process(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    bar = CountingBar(Console(file=io.StringIO()))
    bar(1000, 2000)
    for step in range(1, 6):
        now[0] += 1.0
        bar(1000 + 2 * step, 2000)
    assert bar.progress.tasks[0].fields["rate"] == 2.0


def test_rate_excludes_the_start_of_the_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    bar = CountingBar(Console(file=io.StringIO()))
    for seconds, done in ((1.0, 0), (2.0, 0), (20.0, 1)):
        now[0] = seconds
        bar(done, 90)
    assert "left" not in bar.line(), "one image after twenty seconds does not mean half an hour"
    now[0] = 22.0
    bar(5, 90)
    assert bar.line() == "5 of 90 images, 2/s, 42.5 s left"


def test_time_left_counts_samples_of_images_in_flight(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two workers count for a minute before an image is finished, and then one image after the other is."""
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    with CertificationBar(Console(file=io.StringIO(), width=200)) as bar:
        bar(100, None)
        now[0] = 60.0
        bar.on_work(lambda: Work(6_000, 55.0, 6_000, 60_000))
        assert bar.line() == "certifying: 0 of 100 images, 55 s to 9 min left"
        now[0] = 61.0
        certification(bar, 0)
        now[0] = 70.0
        bar.on_work(lambda: Work(7_000, 65.0, 6_500, 7_000))
        assert "65 s left" in bar.line()
        bar.on_work(lambda: Work(0, 0.0, 0, 0))  # too soon to look again
        assert "65 s left" in bar.line()
        now[0] = 80.0
        bar.on_work(lambda: Work(8_000, 75.0, 6_000, math.inf))
        assert "over 56.2 s left" in bar.line()


def test_the_noisy_test_accuracy_is_not_rounded_up() -> None:
    bar = TrainingBar(Console(file=io.StringIO()))
    bar(StepEvent(epoch=0, epochs=2, step=1, steps=1, loss=1.0, row={"noisy_test_accuracy": 0.97659}))
    assert "noisy test accuracy 0.9765" in bar.notes()


def test_rate_restarts_with_the_next_training_of_a_chain(monkeypatch: pytest.MonkeyPatch) -> None:
    """A student starts at step 0 after its voter, which must not give a negative rate."""
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    with TrainingBar(Console(file=io.StringIO(), width=200)) as bar:
        for number in (0, 50, 1, 3):
            now[0] += 1
            row = {"noisy_test_accuracy": 0.5} if number == 50 else None
            bar(StepEvent(0, 1, number, 100, 0.5, row))
        assert "2/s" in bar.line()
        assert "-" not in bar.line()
        assert "noisy test accuracy" not in bar.line()
