"""Checkpoints: damage is detected, and the previous one is used."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

from radii.runs.recipe import Recipe, Training
from radii.runs.run import Run, RunError
from radii.training.checkpoint import TrainState, read_checkpoint


def state_after(epoch: int) -> TrainState:
    """Return a state after `epoch` epochs, with weights of its own."""
    torch.manual_seed(epoch)
    model = nn.Linear(4, 3)
    state = TrainState(model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9))
    for number in range(epoch):
        state.close_epoch({"epoch": number, "seconds": 1.5, "loss": 1.0 / (1 + number)})
    return state


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """A run with two checkpoints, after one epoch and after two."""
    run = Run(tmp_path / "run")
    training = Training(epochs=3, images_per_step=8, learning_rate=0.1)
    run.claim(Recipe(dataset="digits", model="digits_cnn", sigma=0.25, training=training), {})
    state_after(1).save(run)
    state_after(2).save(run)
    return run


def restored(run: Run) -> TrainState:
    state = state_after(0)
    state.restore(run)
    return state


def test_last_checkpoint_is_used_and_the_previous_one_is_kept(run: Run) -> None:
    assert restored(run).epoch == 2
    run.checkpoint_file.unlink()
    assert restored(run).epoch == 1


def test_any_flipped_bit_is_detected_and_the_previous_checkpoint_is_used(run: Run) -> None:
    whole, rng = run.checkpoint_file.read_bytes(), random.Random(0)
    for _ in range(1_000):
        damaged = bytearray(whole)
        damaged[rng.randrange(len(whole))] ^= 1 << rng.randrange(8)
        run.checkpoint_file.write_bytes(damaged)
        assert read_checkpoint(run.checkpoint_file) is None
    assert restored(run).epoch == 1


@pytest.mark.parametrize("damage", [lambda _: b"", lambda c: c[:-1], lambda c: c[: len(c) // 2], lambda c: c + b"\0"])
def test_truncated_checkpoint_is_not_used(run: Run, damage: Callable[[bytes], bytes]) -> None:
    run.checkpoint_file.write_bytes(damage(run.checkpoint_file.read_bytes()))
    assert restored(run).epoch == 1


def test_damaged_checkpoint_does_not_replace_the_intact_one(run: Run) -> None:
    run.checkpoint_file.write_bytes(b"damaged")
    state = restored(run)
    assert not run.checkpoint_file.exists()
    state.save(run)
    assert restored(run).epoch == 1
    run.checkpoint_file.unlink()
    assert restored(run).epoch == 1


def test_without_an_intact_checkpoint_both_are_named_and_kept(run: Run) -> None:
    for file in (run.checkpoint_file, run.previous_checkpoint_file):
        file.write_bytes(b"damaged")
    with pytest.raises(RunError, match=r"checkpoint\.pt and .*checkpoint-previous\.pt cannot be read"):
        restored(run)
    assert run.checkpoint_file.exists()
    assert run.previous_checkpoint_file.exists()


@pytest.mark.parametrize("shown", [0, 1, 3])
def test_history_is_restored_from_the_checkpoint(run: Run, shown: int) -> None:
    run.write_history(state_after(shown).history)
    restored(run)
    assert [row["epoch"] for row in run.history()] == ["0", "1"]


@pytest.mark.parametrize("error", [MemoryError, torch.OutOfMemoryError])
def test_a_good_checkpoint_is_not_to_be_removed_where_memory_is_short(
    error: type[Exception], run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(torch.optim.SGD, "load_state_dict", fail)
    with pytest.raises(RunError, match=r"too little memory to load .*checkpoint\.pt\. Free some"):
        restored(run)
    assert run.checkpoint_file.exists()


def test_torch_can_read_a_checkpoint(run: Run) -> None:
    assert torch.load(run.checkpoint_file, weights_only=True)["progress"]["epoch"] == 2


def test_a_checkpoint_of_a_gpu_is_read_without_one(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its tensors name their device; what they are loaded into has its own."""
    monkeypatch.setattr(torch.serialization, "location_tag", lambda _: "cuda:1")
    state_after(2).save(run)
    monkeypatch.undo()
    state = restored(run)
    assert torch.equal(state.model.weight, state_after(2).model.weight)  # type: ignore[arg-type]
