"""Progress bars. Without a terminal, a line is printed every half minute instead."""

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn
from rich.text import Text

from radii.estimate import TimeLeft, Work
from radii.reports.metrics import Share
from radii.reports.text import down, duration, left_text, radius_text, up
from radii.runs.attacks import AttackedImage
from radii.runs.certificates import Row

if TYPE_CHECKING:
    from radii.training.loop import StepEvent

SECONDS_BETWEEN_LINES = 30.0
"""Seconds between two lines of progress, if the output is not a terminal."""
SECONDS_BETWEEN_MARKS = 0.2
"""Seconds between two updates of the notes and the rate: formatting the notes may cost more than a step."""
MARKS = 150
"""The number of marks that the rate is computed from: half a minute."""
BESIDE_THE_BAR = 68
"""Columns taken by a short bar, the count, the rate and the time left."""


class _Bar:
    """Shows a count, the rate, the time left, and notes, the most important first."""

    def __init__(self, console: Console, description: str, unit: str) -> None:
        self.console, self.unit = console, unit
        texts = [_Column(text) for text in (_count, self._rate, self._time_left, self._notes_beside)]
        columns = (TextColumn("{task.description}"), BarColumn(None), *texts)
        self.progress = _TwoLines(*columns, console=console, disable=not console.is_terminal, expand=True)
        self.task = self.progress.add_task(description, total=None, notes=(), rate=0.0)
        self._marks: deque[tuple[float, float]] = deque(maxlen=MARKS)
        self._first: int | None = None
        self._marked = self._printed = time.monotonic()

    def __enter__(self) -> Any:
        self.progress.start()
        self._marked = self._printed = time.monotonic()
        return self

    def __exit__(self, *_: object) -> None:
        self._mark(time.monotonic())
        self.progress.stop()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Hide the bar while something else is printed or asked."""
        shown = self.progress.live.is_started
        self.progress.stop()
        yield
        if shown:
            self.progress.start()

    def notes(self) -> Sequence[str]:
        """Return the texts to show beside the bar."""
        return ()

    def update(self, done: int, total: int, description: str | None = None) -> None:
        """Show how much is done."""
        self.progress.update(self.task, completed=done, total=total, description=description)
        self._first = done if self._first is None else self._first
        now = time.monotonic()
        if now - self._marked > SECONDS_BETWEEN_MARKS:
            self._mark(now)
        if not self.console.is_terminal and not self.console.quiet and now - self._printed > SECONDS_BETWEEN_LINES:
            self._printed = now
            # stdout is for results.
            Console(stderr=True, highlight=False, emoji=False).print(self.line(), soft_wrap=True, markup=False)

    def _mark(self, now: float) -> None:
        """Mark how much is done now, and update the rate of the last half minute and the notes.

        Marks begin after the first progress. So neither the work of an earlier process nor the start of this one counts
        for the rate.
        """
        self._marked, done = now, self.progress.tasks[0].completed
        if done != self._first:
            self._marks.append((now, done))
        then, before = self._marks[0] if self._marks else (now, done)
        rate = (done - before) / (now - then) if now > then else 0.0
        self.progress.update(self.task, notes=tuple(self.notes()), rate=rate)

    def line(self) -> str:
        """Return the progress as a line of text."""
        task = self.progress.tasks[0]
        counted = f"{task.completed:.0f} of {task.total or 0:.0f} {self.unit}"
        rate = f"{task.fields['rate']:.3g}/s" if task.fields["rate"] else ""
        texts = [f"{task.description}: {counted}".lstrip(": "), rate, self._time_left(task), *self.notes()]
        return ", ".join(filter(None, texts))

    def _rate(self, task: Task) -> str:
        return f"{task.fields['rate']:.3g} {self.unit}/s" if task.fields["rate"] else ""

    def _time_left(self, task: Task) -> str:
        rate = task.fields["rate"]
        return f"{duration(((task.total or 0) - task.completed) / rate)} left" if rate else ""

    def _notes_beside(self, task: Task) -> str:
        return fitting(task.fields["notes"], self.console.width - BESIDE_THE_BAR)


def _count(task: Task) -> str:
    return f"{task.completed:.0f}/{'?' if task.total is None else format(task.total, '.0f')}"


class _Column(ProgressColumn):
    """A column that shows a text about the task."""

    def __init__(self, text: Callable[[Task], str]) -> None:
        super().__init__()
        self.text = text

    def render(self, task: Task) -> Text:
        return Text(self.text(task), no_wrap=True)


class _TwoLines(Progress):
    """Shows the bar, and below it the notes that do not fit beside it."""

    def get_renderables(self) -> Iterable[RenderableType]:
        yield from super().get_renderables()
        for task in self.tasks:
            notes = task.fields["notes"]
            beside = len(fitting(notes, self.console.width - BESIDE_THE_BAR))
            if below := ", ".join(notes)[beside:].removeprefix(", "):
                yield Text(below, no_wrap=True, overflow="ellipsis")


def fitting(notes: Sequence[str], width: int) -> str:
    """Join the first notes, as many as fit into a width."""
    first: list[str] = []
    for note in notes:
        if len(", ".join([*first, note])) > width:
            break
        first.append(note)
    return ", ".join(first)


class TrainingBar(_Bar):
    """Shows the steps done over the whole run, the loss with its terms and the last noisy test accuracy."""

    def __init__(self, console: Console) -> None:
        super().__init__(console, "", "steps")
        self.accuracy = ""
        self.event: StepEvent | None = None

    def __call__(self, event: "StepEvent") -> None:
        if self.event and (event.epoch, event.step) < (self.event.epoch, self.event.step):
            self.accuracy = ""  # the next training in a chain has begun
            self._marks.clear()
        if event.row:
            self.accuracy = f"noisy test accuracy {down(event.row['noisy_test_accuracy'], 4)}"
        self.event = event
        total = event.epochs * event.steps if event.total is None else event.total
        done = min(total, event.epoch * event.steps + event.step)
        epoch = f"epoch {min(event.epoch + 1, event.epochs)}/{event.epochs}"
        self.update(done, total, epoch)

    def notes(self) -> Sequence[str]:
        if self.event is None:
            return ()
        loss, *terms = loss_texts(self.event.loss, self.event.terms)
        return [note for note in (loss, self.accuracy, *terms) if note]


def loss_texts(loss: float, terms: Mapping[str, float]) -> list[str]:
    """Return the loss, and its terms if there are several."""
    return [f"loss {loss:.4f}", *(f"{name} {value:.4f}" for name, value in terms.items() if len(terms) > 1)]


class CertificationBar(_Bar):
    """Shows images and noisy copies done, and the certified accuracy so far, with its interval over the images."""

    def __init__(self, console: Console, radii: Sequence[float] = (0.0,), *, independent: bool = True) -> None:
        super().__init__(console, "certifying", "images")
        self.independent = independent  # corruptions of one image are not independent: they get no interval
        self.images, self.samples, self.radius_sum = 0, 0, 0.0
        self.total = 0
        self.certified = dict.fromkeys(radii, 0)
        self.time_left = TimeLeft()

    def __call__(self, total: int, row: Row | None) -> None:
        if row is not None:
            self.images += 1
            self.samples += row.samples or 0
            self.radius_sum += row.radius * row.correct
            for radius in self.certified:
                self.certified[radius] += row.correct and row.radius >= radius
        self.total = total
        self.update(self.images, total)

    def on_work(self, work: Callable[[], Work]) -> None:
        """Update the time left from the samples counted so far."""
        self.time_left.update(work, time.monotonic())
        self.update(self.images, self.total)

    def _time_left(self, task: Task) -> str:
        left = self.time_left.range()
        return super()._time_left(task) if left is None else left_text(*left) if task.completed != task.total else ""

    def notes(self) -> Sequence[str]:
        if not self.images:
            return ()
        shares = [self._share(radius, count) for radius, count in self.certified.items()]
        return [*shares, f"ACR {down(self.radius_sum / self.images, 3)}", f"{self.samples:,} copies"]

    def _share(self, radius: float, count: int) -> str:
        share = Share(count, self.images)
        lower, upper = share.interval()
        where = f" at {radius_text(radius)}" if radius or len(self.certified) > 1 else ""
        around = f" ({down(lower, 1, 2)}-{up(upper, 1, 2)})" if self.independent else ""
        return f"{down(share.value, 1, 2)}%{around}{where}"


class AttackBar(_Bar):
    """Shows the images done, and how many of them the attack changed."""

    def __init__(self, console: Console) -> None:
        super().__init__(console, "attacking", "images")
        self.images = self.broken = 0

    def __call__(self, total: int, row: AttackedImage | None) -> None:
        if row is not None:
            self.images += 1
            self.broken += row.distance is not None
        self.update(self.images, total)

    def notes(self) -> Sequence[str]:
        return [f"{self.broken} of {self.images} with a wrong answer"] if self.images else ()


class CountingBar(_Bar):
    """Shows the images done and the time left."""

    def __init__(self, console: Console) -> None:
        super().__init__(console, "", "images")

    def __call__(self, done: int, total: int) -> None:
        self.update(done, total)
