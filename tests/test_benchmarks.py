"""Benchmarks: every one has a section, and the documented ones exist."""

import re
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import benchmarks
from benchmarks import gpu, sample_cost, students, tape
from benchmarks.performance import SECTIONS
from benchmarks.training import random_images, step_of
from radii.runs.run import Run

ROOT = Path(__file__).parents[1]


def test_every_benchmark_has_its_section() -> None:
    assert benchmarks.names() == sorted(SECTIONS)


def test_documented_benchmarks_exist() -> None:
    text = "".join(
        path.read_text() for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), ROOT / "scripts" / "bench"]
    )
    assert set(re.findall(r"scripts/bench ([a-z_]+)", text)) == set(benchmarks.names())


def test_missing_logs_are_an_error_before_measuring(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RADII_LOGS", str(tmp_path))
    with pytest.raises(LookupError, match="expected a folder of published logs"):
        sample_cost.published_logs()


def test_timed_students_are_the_archived_ones() -> None:
    archive = ROOT / "results" / "cifar10" / "twelve-epochs"
    found = {path.name: Run(path).recipe for path in archive.iterdir()}
    pupils = [recipe for name, recipe in found.items() if "-to-" in name]
    assert pupils
    assert {recipe.training.epochs for recipe in pupils if recipe.training} == {students.EPOCHS["transfer"]}
    assert found["smoothmix"].training
    assert found["smoothmix"].training.epochs == students.EPOCHS["smoothmix"]
    for model in (recipe.model for recipe in pupils):
        assert model.items() >= students.FIELDS[model["name"]].items()


def test_step_with_a_tape_does_not_run_the_teacher(tmp_path: Path) -> None:
    class Absent(nn.Module):
        def forward(self, images: Tensor) -> Tensor:
            raise AssertionError

    images, layer = random_images(), nn.Linear(3 * 32 * 32, tape.CLASSES)
    student, before = nn.Sequential(nn.Flatten(), layer), layer.weight.detach().clone()
    recorded = tape.recorded_tape(tmp_path, images)
    step_of("transfer", {"tape": recorded}, 0.25, student, images, 8, Absent())()
    assert not torch.equal(layer.weight, before)
    with pytest.raises(AssertionError):
        step_of("transfer", {}, 0.25, student, images, 8, Absent())()


def test_the_benchmark_of_gpus_asks_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RADII_DEVICE", raising=False)
    monkeypatch.setattr(gpu, "default_device", lambda: torch.device("cpu"))
    with pytest.raises(ValueError, match="torch finds no GPU here: run it on a machine with one, or rehearse it"):
        gpu.measure()


def test_the_benchmark_of_gpus_can_be_rehearsed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RADII_DEVICE", "cpu")
    monkeypatch.setattr(gpu, "SUBJECTS", {"lenet": (1, 28, 28)})
    monkeypatch.setattr(gpu, "ENGINES", ("torch", "torch_bf16"))
    numbers = gpu.measure(samples=128, rounds=1)
    text = SECTIONS["gpu"](numbers)
    assert text.count("bit for bit | yes |") == 2
    assert re.search(r"\| lenet \| torch_bf16 \| [\d,]+ \| \d+\.\d\d \|", text)
