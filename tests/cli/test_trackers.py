"""Training and certification for TensorBoard, and with stand-ins of MLflow and Weights & Biases."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from radii.cli import trackers
from radii.cli.trackers import Trackers, image_writer, step_writer
from radii.errors import ParameterError, RunWarning
from radii.runs.certificates import Row
from radii.runs.run import Run
from radii.training.loop import StepEvent

ROW = {"noisy_test_accuracy": 0.5, "learning_rate": 0.1}


@pytest.mark.slow
def test_scalars_are_written_for_tensorboard(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="the extra radii[tensorboard] is not installed")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator  # type: ignore[import-untyped]

    steps: list[StepEvent] = []
    with step_writer(tmp_path, steps.append, ["tensorboard"]) as on_step:
        assert not (tmp_path / "tensorboard").exists(), "a run is created by training, not by its log"
        on_step(StepEvent(0, 2, 1, 3, 1.5, None, {"label": 1.5}))
        on_step(StepEvent(1, 2, 0, 3, 1.5, ROW))
    with image_writer(tmp_path, lambda *_: None, ["tensorboard"]) as on_image:
        on_image(2, None)
        on_image(2, Row(0, 1, 1, 0.5, 1.0))
    assert len(steps) == 2
    found = EventAccumulator(str(tmp_path / "tensorboard"))
    found.Reload()
    assert [event.value for event in found.Scalars("terms/label")] == [1.5]
    assert [(event.step, event.value) for event in found.Scalars("noisy_test_accuracy")] == [(3, 0.5)]
    assert [event.value for event in found.Scalars("certified/average_radius")] == [0.5]


def test_nothing_is_written_unless_enabled(tmp_path: Path) -> None:
    with step_writer(tmp_path, print, Trackers().names()) as on_step:
        assert on_step is print
    assert list(tmp_path.iterdir()) == []
    assert Trackers(tensorboard=True, wandb=True).names() == ["tensorboard", "wandb"]


@pytest.mark.parametrize(
    ("name", "module"), [("tensorboard", "torch.utils.tensorboard"), ("mlflow", "mlflow"), ("wandb", "wandb")]
)
def test_missing_extra_is_named_in_the_error(
    name: str, module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ParameterError, match=rf"pip install .*\[{name}\]"), step_writer(tmp_path, print, [name]):
        pass


class Service:
    """A stand-in of a tracking service: what was logged, by the id of a page."""

    def __init__(self) -> None:
        self.pages: dict[str, list[Any]] = {}
        self.parameters: dict[str, Any] = {}
        self.open = ""
        self.ended = 0

    def begin(self, number: str) -> None:
        self.open = number
        self.pages.setdefault(number, [])

    def log(self, scalars: dict[str, float], step: int | None = None) -> None:
        self.pages[self.open].append((scalars, step))

    def end(self) -> None:
        self.ended += 1


@pytest.fixture
def mlflow(monkeypatch: pytest.MonkeyPatch) -> Service:
    """MLflow's fluent interface."""
    service = Service()

    def start_run(run_id: str | None = None, run_name: str | None = None) -> Any:
        assert (run_id is None) != (run_name is None)
        service.begin(run_id or f"{run_name}-{len(service.pages)}")
        return SimpleNamespace(info=SimpleNamespace(run_id=service.open))

    fluent = {
        "start_run": start_run,
        "log_params": service.parameters.update,
        "log_metrics": service.log,
        "end_run": service.end,
    }
    monkeypatch.setitem(sys.modules, "mlflow", SimpleNamespace(**fluent))
    monkeypatch.setattr(trackers, "SECONDS_BETWEEN", 0.0)
    return service


@pytest.fixture
def wandb(monkeypatch: pytest.MonkeyPatch) -> Service:
    """W&B's `init` and the run that it returns."""
    service = Service()

    def init(*, project: str, id: str, name: str, resume: str, config: dict[str, Any]) -> Any:
        assert (project, resume) == ("radii", "allow")
        service.begin(id)
        service.parameters |= {**config, "page name": name}
        return SimpleNamespace(log=service.log, finish=service.end)

    monkeypatch.delenv("WANDB_PROJECT", raising=False)
    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(init=init))
    monkeypatch.setattr(trackers, "SECONDS_BETWEEN", 0.0)
    return service


def track(run: Path, name: str) -> None:
    """Log two steps of training and an image of certification, in two processes as it were."""
    with step_writer(run, lambda _: None, [name]) as on_step:
        on_step(StepEvent(0, 2, 1, 3, 1.5, None, {"label": 1.5}))
        on_step(StepEvent(1, 2, 0, 3, 1.5, ROW))
    with image_writer(run, lambda *_: None, [name]) as on_image:
        on_image(2, None)
        on_image(2, Row(0, 1, 1, 0.5, 1.0))


def test_mlflow_gets_parameters_and_metrics_of_one_run(mlflow: Service, digits_run: Callable[..., Run]) -> None:
    run = digits_run()
    track(run.path, "mlflow")
    assert mlflow.parameters["model.name"] == "digits_cnn"
    assert mlflow.parameters["training.epochs"] == "2"
    ((number, logged),) = mlflow.pages.items()
    assert number.startswith("run-")
    certified = {"certified/accuracy": 1.0, "certified/average_radius": 0.5}
    assert logged == [({"loss": 1.5, "terms/label": 1.5}, 1), (ROW, 3), (certified, 1)]
    assert mlflow.ended == 2


def test_wandb_continues_the_page_of_a_run(wandb: Service, digits_run: Callable[..., Run]) -> None:
    run = digits_run()
    track(run.path, "wandb")
    assert wandb.parameters["page name"] == "run"
    ((_, logged),) = wandb.pages.items()
    assert [scalars["number"] for scalars, _ in logged] == [1, 3, 1]
    other = digits_run("other")
    track(other.path, "wandb")
    assert len(wandb.pages) == 2


def test_steps_are_thinned_and_the_last_is_kept(
    mlflow: Service, digits_run: Callable[..., Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trackers, "SECONDS_BETWEEN", 60.0)
    with step_writer(digits_run().path, lambda _: None, ["mlflow"]) as on_step:
        for step in range(1, 6):
            on_step(StepEvent(0, 1, step, 9, float(step), None, {}))
    (logged,) = mlflow.pages.values()
    assert [number for _, number in logged] == [1, 5]


def test_work_goes_on_without_a_tracker_that_fails(mlflow: Service, digits_run: Callable[..., Run]) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise ConnectionError("no route to host")

    sys.modules["mlflow"].log_metrics = refuse  # type: ignore[attr-defined]
    steps: list[StepEvent] = []
    with pytest.warns(RunWarning, match=r"mlflow cannot be written to \(ConnectionError: no route to host\)") as warned:
        log_steps(digits_run().path, steps)
    assert len(steps) == 3
    assert len(warned) == 1
    assert mlflow.ended == 0


def log_steps(run: Path, steps: list[StepEvent]) -> None:
    with step_writer(run, steps.append, ["mlflow"]) as on_step:
        for step in range(1, 4):
            on_step(StepEvent(0, 1, step, 3, 1.0, None, {}))


@pytest.mark.slow
def test_train_and_certify_have_flags_of_the_trackers(
    mlflow: Service, wandb: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from radii import cli

    run = str(tmp_path / "run")
    for words in (
        ["train", "digits/gaussian-0.25", "--run", run, "--set", "training.epochs=1", "--mlflow", "--wandb"],
        ["certify", run, "--max", "1", "--set", "estimation=100", "--engine", "torch", "--workers", "1", "--mlflow"],
    ):
        monkeypatch.setattr(sys, "argv", ["radii", *words])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        assert not ended.value.code
    (logged,) = mlflow.pages.values()
    assert "noisy_test_accuracy" in logged[-2][0]
    assert "certified/accuracy" in logged[-1][0]
    assert len(wandb.pages) == 1
