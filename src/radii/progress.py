"""One bar a person can read; silent when the output is not a terminal."""

from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from radii.experiment.certificates import Row

if TYPE_CHECKING:
    from radii.engine.train import Tick


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

    def __call__(self, tick: "Tick") -> None:
        if tick.row:
            self.accuracy = f", noisy test accuracy {tick.row['noisy_test_accuracy']:.4f}"
        self.progress.update(
            self.task,
            description=f"epoch {min(tick.epoch + 1, tick.epochs)} of {tick.epochs}",
            total=tick.epochs * tick.steps,
            completed=tick.epoch * tick.steps + tick.step,
            note=f"loss {tick.loss:.4f}{self.accuracy}",
        )


class CertificationBar(_Bar):
    """Images done, the rate, the time left and the running certified accuracy."""

    def __init__(self, console: Console) -> None:
        super().__init__(console, "images")
        self.rows: list[Row] = []

    def __call__(self, total: int, row: Row | None) -> None:
        if row is not None:
            self.rows.append(row)
        self.progress.update(
            self.task, description="certifying", total=total, completed=len(self.rows), note=self.summary()
        )

    def summary(self) -> str:
        """What the rows so far say, in a line."""
        if not self.rows:
            return "no image yet"
        correct = [row for row in self.rows if row.correct]
        share = len(correct) / len(self.rows)
        radius = self.average_radius()
        return f"{len(self.rows)} images, {share:.1%} certified and correct, average certified radius {radius:.3f}"

    def average_radius(self) -> float:
        """Over all images; one that is wrong or abstained on counts as nothing."""
        return sum(row.radius for row in self.rows if row.correct) / max(1, len(self.rows))


class CountingBar(_Bar):
    """Images done and the time left."""

    def __init__(self, console: Console) -> None:
        super().__init__(console, "images")

    def __call__(self, done: int, total: int) -> None:
        self.progress.update(self.task, total=total, completed=done)
