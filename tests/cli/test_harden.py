"""`radii harden`: which commands it plans for which model and how many minutes."""

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from PIL import Image

from radii.certification.certify import Certification
from radii.cli import harden
from radii.cli.audit import _loses_most, sensible_sigmas
from radii.cli.plan import Measured, Plan
from radii.disk import LockedError
from radii.estimate import Estimate
from radii.interop.factory import import_model
from radii.reports.compare import Comparison
from radii.runs.run import Run, RunError
from tests.cli.running import radii


@pytest.fixture
def source(digits_run: Callable[..., Run], monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setattr(harden, "_certifying", lambda _, __, minutes, *___: (20, 0.08 * minutes))
    return digits_run("mine")


def planned(source: Run, minutes: float, model: str | None = None, *, denoise: bool = False) -> tuple[list[str], float]:
    """Return the planned commands with short names of the runs, and the minutes of all."""
    target = source.path.with_name("hardened")
    commands = harden._commands(source, target, 0.25, minutes, model, None, None, Measured(20, 0.08 * minutes, denoise))
    texts = [str(command).replace(f"{source.path.parent}/", "") for command in commands]
    return texts, sum(command.minutes for command in commands)


def test_plan_of_an_hour_trains_gaussian_then_consistency(source: Run) -> None:
    commands, minutes = planned(source, 60)
    certify = "--sigma 0.25 --with sequential --set most_samples=10000 --every 20"
    assert commands[0] == f"radii certify mine {certify}"
    assert commands[1].startswith("radii train gaussian --from mine --set sigma=0.25 --minutes ")
    assert commands[1].endswith("--run hardened-gaussian")
    assert commands[2].startswith("radii train consistency --from hardened-gaussian --minutes ")
    assert commands[2].endswith("--run hardened")
    assert commands[3] == f"radii certify hardened {certify}"
    assert [command.split()[1:3] for command in commands[4:6]] == [["attack", "mine"], ["attack", "hardened"]]
    assert commands[6:] == [
        "radii report mine hardened --out hardened/report",
        "radii compare mine hardened --sigma 0.25",
    ]
    assert 0.8 * 60 < minutes <= 60


def test_short_plan_trains_gaussian_alone(source: Run) -> None:
    commands, minutes = planned(source, 5)
    assert [command.split()[1] for command in commands] == ["certify", "train", "certify", "report", "compare"]
    assert minutes <= 5.1


def test_another_architecture_learns_from_the_fine_tuned_model(source: Run) -> None:
    commands, _ = planned(source, 30, "digits_mlp")
    assert [command.split()[1] for command in commands[:4]] == ["certify", "train", "transfer", "certify"]
    assert commands[1].endswith("--run hardened-teacher")
    assert commands[2].startswith("radii transfer --teacher hardened-teacher --model digits_mlp --minutes ")
    with pytest.raises(LookupError, match="there is no model 'digits_mpl' .*; did you mean 'digits_mlp'"):
        planned(source, 30, "digits_mpl")


def test_a_model_without_gradients_gets_a_denoiser(source: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = replace(source.recipe, model={"name": "onnx"})
    monkeypatch.setattr(Run, "recipe", property(lambda _: graph))
    assert harden._measure(source, 0.25, 60, None, None) == Measured(20, 4.8, denoise=True)
    commands, _ = planned(source, 60, denoise=True)
    assert "radii train denoising --from mine --set sigma=0.25 --set objective.stability=0 --minutes" in commands[1]
    assert [command.split()[1] for command in commands] == ["certify", "train", "certify", "report", "compare"]
    with pytest.raises(ValueError, match="has no gradients, so it cannot teach a digits_mlp"):
        harden._measure(source, 0.25, 60, "digits_mlp", None)


@pytest.mark.parametrize(
    ("seconds", "every", "minutes"),
    [(0.001, 1, 4.8), (5.0, 5, 4.8), (20.0, 9, 8.3), (60.0, 25, 9.0), (600.0, 45, 50.0)],
    ids=["all images", "what fits", "fifty of a slower one", "as many as fit a fifth", "ten of the slowest"],
)
def test_a_slow_model_is_certified_on_few_images(
    seconds: float, every: int, minutes: float, digits_run: Callable[..., Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Certification, "forecast", lambda *_: Estimate(seconds, seconds, seconds))
    monkeypatch.setattr("radii.device.default_workers", lambda: 2)
    chosen, expected = harden._certifying(digits_run("mine"), 0.25, 60, denoise=False, data=None)
    assert chosen == every
    assert expected == pytest.approx(minutes, abs=0.1)


def test_minutes_that_leave_none_for_training_are_refused(source: Run) -> None:
    slow = Measured(45, 20.0)
    with pytest.raises(ValueError, match="leaves no time to train.* about 30 min. Use at least --minutes 47."):
        harden._commands(source, source.path.with_name("hardened"), 0.25, 30, None, None, None, slow)


def test_few_training_images_of_a_class_get_a_denoiser(source: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert harden._measure(source, 0.25, 60, None, None) == Measured(20, 4.8, denoise=False)
    monkeypatch.setattr(harden, "FEW", 10_000)
    assert harden._measure(source, 0.25, 60, None, None).denoise
    assert not harden._measure(source, 0.25, 60, "digits_mlp", None).denoise
    commands, _ = planned(source, 60, denoise=True)
    stated = "--set sigma=0.25 --set objective.stability=0.001 --set objective.stability_start=0.6 --minutes"
    assert f"radii train denoising --from mine {stated}" in commands[1]
    assert [command.split()[1] for command in commands[3:5]] == ["attack", "attack"]


def test_audits_try_a_smaller_sigma_too(source: Run) -> None:
    recipe = source.recipe
    assert sensible_sigmas(recipe) == [0.125, 0.25]
    assert sensible_sigmas(replace(recipe, objective={"name": "imported"})) == [0.12, 0.25]
    assert sensible_sigmas(replace(recipe, objective={"name": "standard"}, sigma=0.1)) == [0.1]


@pytest.mark.parametrize("content", ["{}", '{"plan": {}, "done": 0, "commands": [{"words": ["serve"]}]}'])
def test_a_file_that_is_no_plan_is_refused(content: str, tmp_path: Path) -> None:
    (tmp_path / "hardened.plan.json").write_text(content)
    with pytest.raises(ValueError, match="is not a plan that `radii harden` wrote"):
        Plan(tmp_path / "hardened", {"run": "mine"})


def test_another_plan_is_named_by_its_run_first(tmp_path: Path) -> None:
    Plan(tmp_path / "hardened", {"run": "runs/a", "minutes": 60.0}).use([], Measured(1, 2.0))
    with pytest.raises(
        ValueError, match="another plan, with run = 'runs/a', not 'runs/b'. Name another run with --run"
    ):
        Plan(tmp_path / "hardened", {"run": "runs/b", "minutes": 30.0})


def test_pictures_without_a_training_split_are_refused_before_a_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("nets.py").write_text(
        "from torch import nn\n\n\ndef flat():\n    return nn.Sequential(nn.Flatten(), nn.Linear(192, 2))\n"
    )
    for name in ("dark", "light"):
        Path("pictures", name).mkdir(parents=True)
        Image.new("RGB", (8, 8)).save(f"pictures/{name}/0.png")
    run = import_model("nets:flat", "mine", sigma=0.25, data="pictures", size=8)
    refused = radii("harden", str(run.path), "--minutes", "5", cwd=tmp_path)
    assert refused.code == 2
    assert "has no train split: put its photographs into train/<class>/" in refused.error
    assert not Path("hardened.plan.json").exists()


@pytest.mark.parametrize(
    ("objective", "certified", "loses"), [("imported", 0.4, True), ("imported", 0.6, False), ("gaussian", 0.1, False)]
)
def test_an_audit_finds_models_that_lose_most_of_what_is_right(objective: str, certified: float, loses: bool) -> None:
    recipe = SimpleNamespace(objective={"name": objective})
    run: Any = SimpleNamespace(
        run=SimpleNamespace(stated_recipe=lambda: recipe),
        summary=SimpleNamespace(certificates=SimpleNamespace(sigma=0.25)),
        without_noise=SimpleNamespace(value=0.98),
        certified=lambda radius: SimpleNamespace(value=certified if radius == 0.25 else 0.0),
    )
    assert _loses_most(Comparison([run], (0.25,))) == loses


def hardened(source: Run, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Run `radii harden` without its steps; return the words of the commands that it would have run."""
    steps: list[list[str]] = []
    monkeypatch.setattr("radii.cli.plan.run_planned", lambda words: steps.append(list(words)))
    harden.harden(source.path, minutes=5)
    return steps


@pytest.mark.parametrize(
    "more", [["--trust", "evil"], ["--cluster", "tcp://evil:8786"], ["--data", "/home"]], ids=lambda words: words[0]
)
def test_commands_in_the_plan_of_a_stranger_are_not_run(
    more: list[str], source: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(hardened(source, monkeypatch)) == 5
    plan = source.path.with_name("hardened.plan.json")
    table = json.loads(plan.read_text())
    table["commands"][0]["words"] += more
    plan.write_text(json.dumps({**table, "done": 0}))
    with pytest.raises(RunError, match="holds other commands than this version plans"):
        hardened(source, monkeypatch)
    plan.write_text(json.dumps({**table, "commands": table["commands"][1:], "done": 0}))
    with pytest.raises(RunError, match="holds other commands"):
        hardened(source, monkeypatch)


def test_a_plan_whose_run_was_removed_trains_again(source: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    verbs = [words[0] for words in hardened(source, monkeypatch)]
    assert verbs == ["certify", "train", "certify", "report", "compare"]
    target = source.path.with_name("hardened")
    shutil.copytree(source.path, target)
    assert [words[0] for words in hardened(source, monkeypatch)] == ["report", "compare"]
    (target / "report").mkdir()
    (target / "report" / "report.html").touch()
    assert hardened(source, monkeypatch) == []
    shutil.rmtree(target)
    assert [words[0] for words in hardened(source, monkeypatch)] == verbs[1:]


@pytest.mark.parametrize("minutes", [0, -1, 6, 1e15, True, "4"])
def test_measured_minutes_of_a_stranger_are_checked(
    minutes: object, source: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    hardened(source, monkeypatch)
    plan = source.path.with_name("hardened.plan.json")
    plan.write_text(json.dumps({**json.loads(plan.read_text()), "certifying": minutes}))
    with pytest.raises(RunError, match="is not a plan that `radii harden` wrote. Move .*hardened and its plan away"):
        hardened(source, monkeypatch)


def test_two_cannot_harden_one_run_at_once(source: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def another(_: Sequence[str]) -> None:
        with pytest.raises(LockedError, match=r"hardened.plan.json is being written by process \d+"):
            harden.harden(source.path, minutes=5)

    monkeypatch.setattr("radii.cli.plan.run_planned", another)
    harden.harden(source.path, minutes=5)
