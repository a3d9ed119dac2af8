"""Training and certification for TensorBoard."""

import sys
from pathlib import Path

import pytest

from radii.cli.tensorboard import image_writer, step_writer
from radii.errors import ParameterError
from radii.runs.certificates import Row
from radii.training.loop import StepEvent

ROW = {"noisy_test_accuracy": 0.5, "learning_rate": 0.1}


@pytest.mark.slow
def test_scalars_are_written(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="the extra radii[tensorboard] is not installed")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator  # type: ignore[import-untyped]

    steps: list[StepEvent] = []
    with step_writer(tmp_path, steps.append, enabled=True) as on_step:
        assert not (tmp_path / "tensorboard").exists(), "a run is created by training, not by its log"
        on_step(StepEvent(0, 2, 1, 3, 1.5, None, {"label": 1.5}))
        on_step(StepEvent(1, 2, 0, 3, 1.5, ROW))
    with image_writer(tmp_path, lambda *_: None, enabled=True) as on_image:
        on_image(2, None)
        on_image(2, Row(0, 1, 1, 0.5, 1.0))
    assert len(steps) == 2
    found = EventAccumulator(str(tmp_path / "tensorboard"))
    found.Reload()
    assert [event.value for event in found.Scalars("terms/label")] == [1.5]
    assert [(event.step, event.value) for event in found.Scalars("noisy_test_accuracy")] == [(3, 0.5)]
    assert [event.value for event in found.Scalars("certified/average_radius")] == [0.5]


def test_nothing_is_written_unless_enabled(tmp_path: Path) -> None:
    with step_writer(tmp_path, print, enabled=False) as on_step:
        assert on_step is print
    assert list(tmp_path.iterdir()) == []


def test_missing_extra_is_named_in_the_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(ParameterError, match="pip install"), step_writer(tmp_path, print, enabled=True):
        pass
