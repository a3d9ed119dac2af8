"""Logs of training and certification for TensorBoard, MLflow and Weights & Biases, each with its extra."""

import hashlib
import importlib
import os
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from radii import disk
from radii.cli.arguments import OPTIONS, Switch
from radii.errors import MissingExtraError, RunWarning
from radii.runs import readers
from radii.runs.certificates import Row
from radii.runs.run import Run

if TYPE_CHECKING:
    from radii.runs.certificates import OnImage
    from radii.training.loop import OnStep, StepEvent

FOLDER = "tensorboard"
IDS = "trackers.json"
"""The file of a run with its ids at trackers, so that a continued run continues its page."""
SECONDS_BETWEEN = 2.0
"""Seconds between two sets of scalars that are sent over a network: a step may take a millisecond."""
Scalars = Mapping[str, float]


class Tracker(ABC):
    """Writes scalars somewhere. It starts with the first ones, because training creates the run's directory.

    The work goes on if it cannot write; a warning says so once.
    """

    extra: str
    often = True
    """Whether every step is written; otherwise some, and the last."""

    def __init__(self, run: Path) -> None:
        self.run = run
        self._waiting: tuple[Scalars, int] | None = None
        self._last = -SECONDS_BETWEEN
        self._started = self._broken = False
        self.find()

    def write(self, scalars: Scalars, number: int, *, now: bool = False) -> None:
        """Write the scalars of a step; without `now` a tracker that is not written often may skip them."""
        if not self.often and not now and time.monotonic() - self._last < SECONDS_BETWEEN:
            self._waiting = scalars, number
            return
        self._waiting, self._last = None, time.monotonic()
        self._try(lambda: self.log(scalars, number))

    def close(self) -> None:
        if self._waiting is not None:
            scalars, number = self._waiting
            self._try(lambda: self.log(scalars, number))
        if self._started:
            self._try(self.end)

    def _try(self, action: Callable[[], None]) -> None:
        if self._broken:
            return
        try:
            if not self._started:
                self._started = True
                self.start()
            action()
        except Exception as error:  # of another library, which may need a network
            self._broken = True
            reason = f"{type(error).__name__}: {readers.short(error, 200)}"
            message = f"{self.extra} cannot be written to ({reason}): the work goes on without it"
            warnings.warn(message, RunWarning, stacklevel=2)

    @abstractmethod
    def find(self) -> None:
        """Import the library, or raise a MissingExtraError."""

    @abstractmethod
    def start(self) -> None:
        """Begin, or continue what an earlier process began."""

    @abstractmethod
    def log(self, scalars: Scalars, number: int) -> None:
        """Write the scalars of a step."""

    @abstractmethod
    def end(self) -> None:
        """Say that the process has ended."""


class TensorBoard(Tracker):
    """Files for TensorBoard in RUN/tensorboard."""

    extra = "tensorboard"

    def find(self) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise MissingExtraError("TensorBoard is not installed.", self.extra) from error
        self._make = SummaryWriter

    def start(self) -> None:
        self._writer: Any = self._make(str(self.run / FOLDER))

    def log(self, scalars: Scalars, number: int) -> None:
        for name, value in scalars.items():
            self._writer.add_scalar(name, value, number)

    def end(self) -> None:
        self._writer.close()


class MLflow(Tracker):
    """A run of MLflow, where MLFLOW_TRACKING_URI and MLFLOW_EXPERIMENT_NAME say."""

    extra = "mlflow"
    often = False

    def find(self) -> None:
        self._mlflow = _imported("mlflow", "MLflow", self.extra)

    def start(self) -> None:
        known = _known_id(self.run, self.extra)
        run = self._mlflow.start_run(run_id=known) if known else self._mlflow.start_run(run_name=Run(self.run).name)
        if not known:
            _keep_id(self.run, self.extra, run.info.run_id)
            self._mlflow.log_params(_parameters(self.run))

    def log(self, scalars: Scalars, number: int) -> None:
        self._mlflow.log_metrics(dict(scalars), step=number)

    def end(self) -> None:
        self._mlflow.end_run()


class WeightsAndBiases(Tracker):
    """A run of Weights & Biases, in the project `radii` unless WANDB_PROJECT names another."""

    extra = "wandb"
    often = False

    def find(self) -> None:
        self._wandb = _imported("wandb", "Weights & Biases", self.extra)

    def start(self) -> None:
        known = _known_id(self.run, self.extra)
        name = Run(self.run).name
        number = known or hashlib.sha256(f"{self.run.resolve()} {time.time_ns()}".encode()).hexdigest()[:16]
        self._page: Any = self._wandb.init(
            project=os.environ.get("WANDB_PROJECT", "radii"),
            id=number,
            name=name,
            resume="allow",
            config=_parameters(self.run),
        )
        if not known:
            _keep_id(self.run, self.extra, number)

    def log(self, scalars: Scalars, number: int) -> None:
        # A continued training repeats steps, which W&B's own counter would refuse.
        self._page.log({**scalars, "number": number})

    def end(self) -> None:
        self._page.finish()


TRACKERS: dict[str, type[Tracker]] = {kind.extra: kind for kind in (TensorBoard, MLflow, WeightsAndBiases)}


@OPTIONS
@dataclass(frozen=True, kw_only=True)
class Trackers:
    """The options of a verb that ask for trackers."""

    tensorboard: Switch = False
    """Also write the progress for TensorBoard, to RUN/tensorboard."""
    mlflow: Switch = False
    """Also log it to MLflow, where MLFLOW_TRACKING_URI says."""
    wandb: Switch = False
    """Also log it to Weights & Biases, in the project radii or WANDB_PROJECT."""

    def names(self) -> list[str]:
        """Return the names of the trackers that are asked for."""
        return [name for name in TRACKERS if getattr(self, name)]


NO_TRACKERS = Trackers()


@contextmanager
def step_writer(run: Path, on_step: "OnStep", names: Sequence[str]) -> Iterator["OnStep"]:
    """Wrap `on_step` to write the loss and the noisy test accuracy to trackers as well."""
    with _trackers(run, names) as trackers:
        if not trackers:
            yield on_step
            return

        def write_step(event: "StepEvent") -> None:
            on_step(event)
            number, row = event.epoch * event.steps + event.step, event.row
            if row is None:
                scalars = {"loss": event.loss, **{f"terms/{name}": value for name, value in event.terms.items()}}
            else:
                scalars = {name: row[name] for name in ("noisy_test_accuracy", "learning_rate")}
            for tracker in trackers:
                tracker.write(scalars, number, now=row is not None)

        yield write_step


@contextmanager
def image_writer(run: Path, on_image: "OnImage", names: Sequence[str]) -> Iterator["OnImage"]:
    """Wrap `on_image` to write the certified accuracy so far to trackers as well."""
    with _trackers(run, names) as trackers:
        if not trackers:
            yield on_image
            return
        done = correct = 0
        radii = 0.0

        def write_image(total: int, row: Row | None) -> None:
            nonlocal done, correct, radii
            on_image(total, row)
            if row is not None:
                done, correct, radii = done + 1, correct + row.correct, radii + row.radius * row.correct
                scalars = {"certified/accuracy": correct / done, "certified/average_radius": radii / done}
                for tracker in trackers:
                    tracker.write(scalars, done)

        yield write_image


@contextmanager
def _trackers(run: Path, names: Sequence[str]) -> Iterator[list[Tracker]]:
    with ExitStack() as held:
        yield [held.enter_context(closing(TRACKERS[name](run))) for name in names]


def _imported(module: str, title: str, extra: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtraError(f"{title} is not installed.", extra) from error


def _known_id(run: Path, tracker: str) -> str | None:
    """Return the run's id at a tracker, if an earlier process started a run there."""
    file = run / IDS
    try:
        known = readers.json_object(file).get(tracker) if file.is_file() else None
    except (ValueError, OSError):
        return None
    return known if isinstance(known, str) else None


def _keep_id(run: Path, tracker: str, number: str) -> None:
    file = run / IDS
    known = readers.json_object(file) if file.is_file() else {}
    disk.write_json(file, {**known, tracker: number})


def _parameters(run: Path) -> dict[str, Any]:
    """Return the recipe as one table of plain values, such as training.epochs."""
    return {key: str(value) for key, value in Run(run).stated_recipe().flat().items() if value is not None}
