import json
import multiprocessing
import os
import shutil
from collections.abc import Callable
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import nn

from radii import datasets
from radii.disk import LockedError
from radii.runs.recipe import Recipe, Training
from radii.runs.run import Run, RunError
from radii.training.loop import train
from radii.training.soft_labels import soft_labels
from tools.processes import warm_context

PLAIN = Recipe(
    dataset="digits",
    model="digits_cnn",
    sigma=0.25,
    training=Training(epochs=4, images_per_step=128, learning_rate=0.05),
)
CATRS = replace(PLAIN, objective={"name": "catrs", "copies": 2, "steps": 1})


@pytest.fixture
def run(digits_run: Callable[..., Run]) -> Run:
    return digits_run()


@pytest.mark.slow
def test_soft_labels_are_vote_shares_usable_by_catrs(run: Run, tmp_path: Path) -> None:
    path = soft_labels(run, samples=16, engine="torch")
    table = np.load(path)
    assert table.dtype == np.float32
    np.testing.assert_allclose(table.sum(1), 1, rtol=1e-6)
    trained = train(CATRS, tmp_path / "catrs", soft_labels=path)
    assert set(trained.origin()["soft_labels"]) == {"path", "hash"}
    assert "worst_case" in trained.history()[0]


@pytest.mark.slow
def test_stopped_soft_labels_continue(run: Run) -> None:
    whole = np.load(soft_labels(run, samples=8, engine="torch"))
    counts = run.path / "soft-labels.counts"
    counts.write_bytes(counts.read_bytes()[: 100 * 40 + 7])
    reported: list[int] = []
    again = np.load(soft_labels(run, samples=8, engine="torch", on_image=lambda done, _: reported.append(done)))
    assert reported[0] == 101
    np.testing.assert_array_equal(again, whole)


@pytest.fixture
def run_of_few(tmp_path: Path) -> Run:
    """Train on every eighth digit, for what takes many votes of each training image."""
    digits = datasets.create("digits")
    arrays: dict[str, NDArray[Any]] = {}
    for split in ("train", "test"):
        images = digits.split(split)
        every = torch.arange(0, len(images), 8)
        arrays |= {f"{split}_images": images.batch(every).numpy(), f"{split}_labels": images.labels[every].numpy()}
    np.savez(tmp_path / "few.npz", **arrays)  # type: ignore[arg-type]
    training = Training(epochs=8, images_per_step=32, learning_rate=0.05)
    data = {"name": "arrays", "path": str(tmp_path / "few.npz")}
    return train(replace(PLAIN, dataset=data, training=training), tmp_path / "few")


@pytest.mark.slow
def test_passes_of_any_size_give_the_same_votes(run_of_few: Run, tmp_path: Path) -> None:
    """A file that was begun with one size is continued with another."""
    run, second = run_of_few, Run(shutil.copytree(run_of_few.path, tmp_path / "second"))

    def stop(number: int, _: int) -> None:
        if number == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        soft_labels(run, samples=150, engine="torch", batch_size=37, on_image=stop)
    other = soft_labels(second, samples=150, engine="torch", batch_size=512)
    assert soft_labels(run, samples=150, engine="torch").read_bytes() == other.read_bytes()


def test_votes_of_another_function_do_not_continue(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The weights are the same in both."""

    def stop(number: int, _: int) -> None:
        if number == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        soft_labels(run, samples=8, engine="torch", on_image=stop)
    with monkeypatch.context() as patch:
        patch.setattr(nn.ReLU, "forward", lambda _, images: torch.tanh(images))
        with pytest.raises(RunError, match="were made with another function: logits of random images differ"):
            soft_labels(run, samples=8, engine="torch")
    stated = run.recipe_file.read_text()
    run.recipe_file.write_text(stated.replace('normalisation = "full"', 'normalisation = "none"'))
    with pytest.raises(RunError, match="were made with another model table in its recipe"):
        soft_labels(Run(run.path), samples=8, engine="torch")
    run.recipe_file.write_text(stated)
    with pytest.raises(KeyboardInterrupt):
        soft_labels(run, samples=8, engine="torch", on_image=lambda number, _: stop(number - 1, 0))


def test_the_devices_that_counted_are_recorded_and_not_compared(run: Run) -> None:
    def stop(number: int, _: int) -> None:
        if number == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        soft_labels(run, samples=8, engine="torch", on_image=stop)
    beside = run.path / "soft-labels.json"
    header = json.loads(beside.read_text())
    assert header["devices"] == ["cpu"]
    beside.write_text(json.dumps({**header, "devices": ["NVIDIA A100"]}))
    soft_labels(run, samples=8, engine="torch")
    assert json.loads(beside.read_text()) == {**header, "devices": ["NVIDIA A100", "cpu"]}


def test_soft_labels_of_another_setting_are_not_mixed(run: Run) -> None:
    soft_labels(run, samples=8, engine="torch")
    with pytest.raises(RunError, match="has soft labels that were made with"):
        soft_labels(run, samples=9, engine="torch")


@pytest.mark.slow
def test_a_wrong_number_of_workers_leaves_no_claim(run: Run) -> None:
    with pytest.raises(ValueError, match="workers = 0"):
        soft_labels(run, samples=9, workers=0)
    assert soft_labels(run, samples=2).is_file()


@pytest.mark.slow
def test_two_cannot_write_one_file(run: Run) -> None:
    messages: list[str] = []

    def second(done: int, _: int) -> None:
        if done == 1:
            with pytest.raises(LockedError) as caught:
                soft_labels(run, samples=8, engine="torch")
            messages.append(str(caught.value))

    soft_labels(run, samples=8, engine="torch", on_image=second)
    assert messages == [
        f"{run.soft_labels_file} is being written by process {os.getpid()}: wait for it, or stop it",
    ]


def test_missing_soft_labels_are_an_error_before_training(tmp_path: Path) -> None:
    with pytest.raises(LookupError, match="needs soft_labels: the shares of votes that a trained run gives"):
        train(CATRS, tmp_path / "catrs")
    assert not (tmp_path / "catrs").exists()


def test_soft_labels_of_the_wrong_shape_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "few.npy", np.full((3, 10), 0.1, np.float32))
    with pytest.raises(ValueError, match=r"shape \(3, 10\), the training split needs"):
        train(CATRS, tmp_path / "catrs", soft_labels=tmp_path / "few.npy")


@pytest.mark.parametrize("seed", [-1, 1 << 128])
def test_a_seed_that_cannot_be_used_leaves_no_claim(tmp_path: Path, seed: int) -> None:
    with pytest.raises(ValueError, match="expected a whole number >= 0, of 128 bits at most"):
        soft_labels(Run(tmp_path), samples=2, seed=seed)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_workers_give_the_same_file_and_a_killed_one_is_replaced(run: Run) -> None:
    alone = soft_labels(run, samples=8, engine="torch").read_bytes()
    for path in run.path.glob("soft-labels*"):
        path.unlink()
    killed: list[int] = []

    def kill(done: int, _: int) -> None:
        if done == 5 and not killed:
            worker = next(iter(multiprocessing.active_children()))
            killed.append(worker.pid or 0)
            worker.kill()

    assert soft_labels(run, samples=8, engine="torch", workers=2, on_image=kill).read_bytes() == alone
    assert killed


@pytest.mark.slow
@pytest.mark.parametrize("make", [lambda: ThreadPoolExecutor(2), lambda: ProcessPoolExecutor(2, warm_context())])
def test_any_executor_gives_the_same_file(
    run: Run, make: Callable[[], Executor], monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = soft_labels(run, samples=8, engine="torch").read_bytes()
    counts = (run.path / "soft-labels.counts").read_bytes()
    for path in run.path.glob("soft-labels*"):
        path.unlink()
    reported: list[int] = []
    with make() as pool:
        pool.submit(os.getpid).result()  # a worker that has another working directory
        monkeypatch.chdir(run.path.parent)
        labels = soft_labels(
            Run(run.path.name), samples=8, engine="torch", executor=pool, on_image=lambda done, _: reported.append(done)
        )
        assert labels.read_bytes() == alone
    assert (run.path / "soft-labels.counts").read_bytes() == counts
    assert reported == list(range(1, 1348))


@pytest.mark.slow
def test_settled_images_get_no_more_votes_and_the_others_the_same(run_of_few: Run) -> None:
    run = run_of_few
    whole = np.load(soft_labels(run, samples=136, engine="torch"))
    counts = run.path / "soft-labels.counts"
    every = np.fromfile(counts, "<i4").reshape(-1, 10)
    for path in run.path.glob("soft-labels*"):
        path.unlink()
    some = np.load(soft_labels(run, samples=136, settle=128, engine="torch"))
    votes = np.fromfile(counts, "<i4").reshape(-1, 10)
    settled = votes.sum(1) == 128
    assert 0 < settled.sum() < len(votes)
    assert (some[settled].max(1) == 1).all()
    np.testing.assert_array_equal(some[~settled], whole[~settled])
    np.testing.assert_array_equal(votes[~settled], every[~settled])
    with pytest.raises(ValueError, match="settle = 100, expected a multiple of the 128 votes"):
        soft_labels(run, samples=136, settle=100)
    with pytest.raises(RunError, match="has soft labels that were made with"):
        soft_labels(run, samples=136, engine="torch")


def test_a_file_that_a_kill_cut_between_time_and_votes_continues(run: Run) -> None:
    whole = soft_labels(run, samples=2, engine="torch").read_bytes()
    counts, times = run.path / "soft-labels.counts", run.soft_labels_times
    counts.write_bytes(counts.read_bytes()[: 1300 * 40 + 3])
    times.write_bytes(times.read_bytes()[: 1301 * 8])
    assert soft_labels(run, samples=2, engine="torch").read_bytes() == whole
    assert times.stat().st_size == 1347 * 8
