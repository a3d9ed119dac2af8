"""The story of the first hour: import a model trained without noise, audit it, harden it, and compare."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from radii import train
from radii.cli import plan
from radii.runs.recipe import Recipe, Training
from radii.runs.run import Run
from tests.cli.running import radii

NETS = """
from torch import nn


def small(classes: int, width: int = 8) -> nn.Module:
    convolution = nn.Conv2d(1, width, 3, stride=2)
    return nn.Sequential(convolution, nn.ReLU(), nn.Flatten(), nn.Linear(9 * width, classes))
"""
IMPORT = ("import", "nets:small", "--dataset", "digits", "--mean", "0.3", "--std", "0.35")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with somebody's network and its weights, which were trained without noise."""
    folder = tmp_path_factory.mktemp("story")
    (folder / "nets.py").write_text(NETS)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.syspath_prepend(str(folder))
        training = Training(epochs=12, images_per_step=64, learning_rate=0.1)
        recipe = Recipe(dataset="digits", model="nets:small", sigma=0.25, objective="standard", training=training)
        train(recipe, folder / "theirs")
        yield folder


@pytest.fixture(scope="module")
def imported(home: Path) -> str:
    outcome = radii(*IMPORT, "--weights", "theirs/model.safetensors", "--run", "runs/mine", cwd=home)
    assert outcome.code == 0, outcome.error
    return outcome.out


def test_import_says_what_noise_does_and_what_comes_next(home: Path, imported: str) -> None:
    assert "of 450 test images right without noise" in imported
    assert "one noisy copy each of 300 images: " in imported
    assert "% at sigma 0.12, " in imported
    assert "next, in 3 min: radii audit runs/mine --minutes 3\n" in imported
    assert "then, in 1 h: radii harden runs/mine --sigma 0.25 --minutes 60\n" in imported
    shown = radii("show", "runs/mine", cwd=home).out
    assert "normalised full: mean 0.3; std 0.35" in shown
    listed = radii("show", "runs", cwd=home)
    assert listed.code == 0, listed.error
    assert "runs/mine" in listed.out
    assert "nets:small" in listed.out


def test_unusual_imports_are_remarked_on_in_one_line(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = radii(*IMPORT, "--sigma", "25", "--run", "runs/noisy", cwd=home)
    assert outcome.code == 0, outcome.error
    assert outcome.error.startswith("radii: sigma = 25 is far more noise than pixels in [0, 1] bear")
    assert "RunWarning" not in outcome.error
    monkeypatch.setenv("RADII_DATA", str(home / "nowhere"))
    outcome = radii("import", "nets:small", "--run", "runs/unstated", cwd=home)
    assert outcome.code == 2
    assert "no dataset was stated: the folders in RADII_DATA are the classes" in outcome.out


@pytest.mark.slow
@pytest.mark.usefixtures("imported")
def test_audit_harden_compare(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    audited = radii("audit", "runs/mine", "--minutes", "0.06", cwd=home)
    assert audited.code == 0, audited.error
    for line in (
        "1. radii certify runs/mine --sigma 0.12 --with sequential --set most_samples=10000 --minutes 0.02",
        "2. radii certify runs/mine --sigma 0.25 --with sequential",
        "3. radii attack runs/mine --sigma 0.25 --radii 0.25,0.5",
        "4. radii report runs/mine",
        "under attack at 0.25, at most",
    ):
        assert line in audited.out, line
    assert "next:" not in audited.out.partition("4. radii report")[0]
    assert (home / "runs/mine/report/report.html").is_file()

    stopped = list[str]()

    def interrupt(words: Sequence[str]) -> None:
        stopped.append(words[0])
        raise KeyboardInterrupt

    monkeypatch.setattr(plan, "run_planned", interrupt)
    typed = ("harden", "runs/mine", "--sigma", "0.25", "--minutes", "0.1")
    assert radii(*typed, cwd=home).code == 130
    monkeypatch.undo()
    begun = json.loads((home / "runs/hardened.plan.json").read_text())
    assert (stopped, begun["done"]) == (["certify"], 0)

    hardened = radii(*typed, cwd=home)
    assert hardened.code == 0, hardened.error
    assert "radii train gaussian --from runs/mine --set sigma=0.25" in hardened.out
    assert "runs/hardened minus runs/mine at radius 0.25, image by image: " in hardened.out
    assert [tuple(step["words"]) for step in begun["commands"]] == _planned(home)
    assert Run(home / "runs/hardened").recipe.normalisation == "full"
    again = radii(*typed, cwd=home)
    assert again.code == 0, again.error
    assert again.out.count("done before: radii ") == len(_planned(home))
    assert "runs/hardened: hardened before; the page is " in again.out
    other = radii("harden", "runs/mine", "--sigma", "0.5", "--minutes", "0.1", cwd=home)
    assert other.code == 2
    assert "another plan, with sigma = 0.25, not 0.5" in other.error

    compared = radii("compare", "runs/mine", "runs/hardened", "--at-least", "0.1@0.25", cwd=home)
    assert compared.code == 0, compared.error
    for line in ("right without noise", "smoothed accuracy (radius 0)", "certified at 0.25", "an answer"):
        assert line in compared.out, line
    missed = radii("compare", "runs/mine", "runs/hardened", "--at-least", "1@0.25", "--json", cwd=home)
    assert missed.code == 1
    assert "certified at radius 0.25, less than 1" in missed.error
    first, last = json.loads(missed.out)["runs"]
    assert last["certified_accuracy"]["0.25"] > first["certified_accuracy"]["0.25"]
    assert last["without_noise"] is not None
    assert radii("compare", "runs/hardened", "--at-least", "0.01@0.9", cwd=home).code == 2


def _planned(home: Path) -> list[tuple[str, ...]]:
    plan_file = json.loads((home / "runs/hardened.plan.json").read_text())
    return [tuple(step["words"]) for step in plan_file["commands"]]


@pytest.mark.parametrize("text", ["0.5", "half@0.25", "1.5@0.25", "0.5@-1", "0.5@nan"])
def test_wrong_demands_are_refused(home: Path, text: str) -> None:
    outcome = radii("compare", "theirs", "--at-least", text, cwd=home)
    assert outcome.code == 2
    assert "expected a share from 0 to 1 and a radius, such as 0.5@0.25" in outcome.error


def test_runs_without_certificates_are_not_compared(home: Path) -> None:
    outcome = radii("compare", "theirs", cwd=home)
    assert outcome.code == 2
    assert "theirs has no certificates" in outcome.error
