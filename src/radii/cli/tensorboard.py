"""Logs of training and certification for TensorBoard, with the extra radii[tensorboard]."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from radii.errors import ParameterError, install
from radii.runs.certificates import Row

if TYPE_CHECKING:
    from radii.certification.certify import OnImage
    from radii.training.loop import OnStep, StepEvent

FOLDER = "tensorboard"


@contextmanager
def step_writer(run: Path, on_step: "OnStep", *, enabled: bool) -> Iterator["OnStep"]:
    """Wrap `on_step` to write the loss and the noisy test accuracy as well, if `enabled`."""
    if not enabled:
        yield on_step
        return
    with closing(_Writer(run / FOLDER)) as writer:

        def write_step(event: "StepEvent") -> None:
            on_step(event)
            number = event.epoch * event.steps + event.step
            if event.row is None:
                writer.add_scalar("loss", event.loss, number)
                for name, value in event.terms.items():
                    writer.add_scalar(f"terms/{name}", value, number)
            else:
                writer.add_scalar("noisy_test_accuracy", event.row["noisy_test_accuracy"], number)
                writer.add_scalar("learning_rate", event.row["learning_rate"], number)

        yield write_step


@contextmanager
def image_writer(run: Path, on_image: "OnImage", *, enabled: bool) -> Iterator["OnImage"]:
    """Wrap `on_image` to write the certified accuracy so far as well, if `enabled`."""
    if not enabled:
        yield on_image
        return
    with closing(_Writer(run / FOLDER)) as writer:
        done = correct = 0
        radii = 0.0

        def write_image(total: int, row: Row | None) -> None:
            nonlocal done, correct, radii
            on_image(total, row)
            if row is not None:
                done, correct, radii = done + 1, correct + row.correct, radii + row.radius * row.correct
                writer.add_scalar("certified/accuracy", correct / done, done)
                writer.add_scalar("certified/average_radius", radii / done, done)

        yield write_image


class _Writer:
    """Writes scalars. The folder is created with the first one, because training creates the run's directory."""

    def __init__(self, folder: Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise ParameterError(f"TensorBoard is not installed: {install('tensorboard')}") from error
        self._make = SummaryWriter
        self._folder = folder
        self._writer: Any = None

    def add_scalar(self, name: str, value: float, number: int) -> None:
        if self._writer is None:
            self._writer = self._make(str(self._folder))
        self._writer.add_scalar(name, value, number)

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
