"""A run reads its files once, and again when they change."""

import os
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from radii import disk
from radii.datasets.digits import Digits
from radii.runs import recipe
from radii.runs.recipe import Recipe
from radii.runs.run import Run, RunError
from radii.training.loop import train
from tests.cli.running import radii


@pytest.fixture
def trained(digits_run: Callable[[], Run]) -> Run:
    return digits_run()


def counted(monkeypatch: pytest.MonkeyPatch, owner: object, name: str) -> Counter[object]:
    """Count the calls of a function by its last argument: a path or the name of a split."""
    calls: Counter[object] = Counter()
    original: Callable[..., Any] = getattr(owner, name)

    def call(*arguments: Any) -> Any:
        calls[arguments[-1]] += 1
        return original(*arguments)

    monkeypatch.setattr(owner, name, call)
    return calls


def settle() -> None:
    """Wait until a change of a file would have another time stamp."""
    time.sleep(2 * disk.CLOCK_TICK / 1e9)


def test_recipe_and_weights_are_read_once(trained: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    settle()
    recipes, digests = counted(monkeypatch, recipe, "read"), counted(monkeypatch, disk, "digest")
    run = Run(trained.path)
    for _ in range(3):
        assert (run.recipe.sigma, run.weights_digest()) == (0.25, trained.weights_digest())
    assert recipes == {run.recipe_file: 1}
    assert digests == {run.weights_file: 2}, "one for each of the two runs"


@pytest.mark.parametrize("wait", [True, False])
def test_changed_file_is_read_again(tmp_path: Path, wait: bool) -> None:
    cache, path = disk.FileCache(), tmp_path / "weights"
    for content in ("one", "two", "six"):
        path.write_text(content)
        if wait:
            settle()
        assert cache.get(path, Path.read_text) == content
        assert cache.get(path, Path.read_text) == content


def test_changed_file_is_noticed_when_its_time_and_size_are_kept(tmp_path: Path) -> None:
    cache, path = disk.FileCache(), tmp_path / "weights"
    path.write_text("one")
    settle()
    assert cache.get(path, Path.read_text) == "one"
    times = path.stat().st_atime_ns, path.stat().st_mtime_ns
    path.write_text("two")
    os.utime(path, ns=times)
    assert cache.get(path, Path.read_text) == "two"


def test_certify_reads_recipe_and_weights_once(trained: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    settle()
    recipes, digests = counted(monkeypatch, recipe, "read"), counted(monkeypatch, disk, "digest")
    options = ["--max", "3", "--workers", "1", "--engine", "torch", "--set", "estimation=100"]
    outcome = radii("certify", str(trained.path), *options, cwd=trained.path)
    assert outcome.code == 0, outcome.error
    assert digests == {trained.weights_file: 1}
    assert recipes == {trained.recipe_file: 1}


def test_train_reads_each_split_once(trained: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    splits = counted(monkeypatch, Digits, "split")
    student = Recipe(
        dataset="digits", model="digits_cnn", sigma=0.25, objective="transfer", training=trained.recipe.training
    )
    train(student, tmp_path / "student", teacher=trained)
    assert splits == {"train": 1, "test": 1}


@pytest.mark.parametrize("name", ["certificates", "attacks"])
def test_linked_folder_in_a_run_is_refused(tmp_path: Path, name: str) -> None:
    run = Run(tmp_path / "run")
    run.claim(Recipe(dataset="digits", model="digits_cnn", sigma=0.25), {})
    (tmp_path / "outside").mkdir()
    (run.path / name).symlink_to(tmp_path / "outside")
    with pytest.raises(RunError, match=f"{name} is a symbolic link"):
        Run(run.path).recipe  # noqa: B018


def test_a_run_that_another_process_has_just_begun_is_locked_not_foreign(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, other = Run(tmp_path / "run"), Run(tmp_path / "run")
    check = Run._check_is_run

    def begun_meanwhile(self: Run) -> None:
        if self is other:
            (self.path / "environment.json").write_text("{}")  # as its first files are seen, before its recipe
        check(self)

    with run.writing():
        monkeypatch.setattr(Run, "_check_is_run", begun_meanwhile)
        with pytest.raises(disk.LockedError), other.writing():
            pass
    with pytest.raises(RunError, match="already exists and is not a run"), other.writing():
        pass
