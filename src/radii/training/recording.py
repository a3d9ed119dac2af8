"""What a training or a certification reports to its caller is also written to the run's events."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from radii.runs.certificates import Row
from radii.runs.events import EventLog, working

if TYPE_CHECKING:
    from radii.certification.certify import OnImage
    from radii.training.train import OnStep, StepEvent


@contextmanager
def recorded_steps(run: Path, on_step: "OnStep", first: bool) -> Iterator["OnStep"]:
    """The sink of the steps: every finished epoch, and a step every few seconds, are events too; of rank 0 alone."""
    if not first:
        yield on_step
        return
    with working(run, "train") as log:

        def sink(event: "StepEvent") -> None:
            if event.row is not None:
                log.write("epoch", **event.row, epochs=event.epochs)
            elif log.due():
                facts = {"epoch": event.epoch, "epochs": event.epochs, "step": event.step, "steps": event.steps}
                log.write("step", **facts, loss=event.loss, terms=dict(event.terms))
            on_step(event)

        yield sink


def recorded_images(log: EventLog, on_image: "OnImage") -> "OnImage":
    """How many images are done, certified and correct, and their mean radius, every few seconds and at the end."""
    done = correct = 0
    radii = 0.0

    def sink(total: int, row: Row | None) -> None:
        nonlocal done, correct, radii
        if row is not None:
            done += 1
            correct += row.correct
            radii += row.radius * row.correct
            if done == total or log.due():
                log.write("image", done=done, images=total, correct=correct, mean_radius=radii / done)
        on_image(total, row)

    return sink
