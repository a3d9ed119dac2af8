"""Progress bars; silent when the output is not a terminal."""

from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from radii.experiment.certificates import Row
from radii.report.summary import down

if TYPE_CHECKING:
    from radii.loops.train import StepEvent


class _Bar:
    def __init__(self, console: Console, unit: str) -> None:
        self.progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn(unit),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}"),
            console=console,
            disable=not console.is_terminal,
        )
        self.task = self.progress.add_task("", total=None, note="")

    def __enter__(self) -> Any:
        self.progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.progress.stop()


class TrainingBar(_Bar):
    """Steps done over the whole run, the loss and the last noisy test accuracy."""

    def __init__(self, console: Console) -> None:
        super().__init__(console, "steps")
        self.accuracy = ""

    def __call__(self, event: "StepEvent") -> None:
        if event.row:
            self.accuracy = f", noisy test accuracy {down(event.row['noisy_test_accuracy'], 4)}"
        self.progress.update(
            self.task,
            description=f"epoch {min(event.epoch + 1, event.epochs)} of {event.epochs}",
            total=event.epochs * event.steps,
            completed=event.epoch * event.steps + event.step,
            note=f"loss {event.loss:.4f}{self.accuracy}",
        )


class CertificationBar(_Bar):
    """Images done, the time left, and how many are certified and correct so far."""

    def __init__(self, console: Console) -> None:
        super().__init__(console, "images")
        self.images = self.correct = 0

    def __call__(self, total: int, row: Row | None) -> None:
        if row is not None:
            self.images += 1
            self.correct += row.correct
        note = f"{self.correct} certified and correct" if self.images else ""
        self.progress.update(self.task, description="certifying", total=total, completed=self.images, note=note)


class CountingBar(_Bar):
    """Images done and the time left."""

    def __init__(self, console: Console) -> None:
        super().__init__(console, "images")

    def __call__(self, done: int, total: int) -> None:
        self.progress.update(self.task, total=total, completed=done)
