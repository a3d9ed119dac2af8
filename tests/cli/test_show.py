"""`radii show`: what a run is, for people and programs."""

import json
import shutil
from pathlib import Path

import pytest

from tests.cli.running import radii


@pytest.fixture(scope="module")
def home(trained_digits: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("inspected")
    shutil.copytree(trained_digits, folder / "runs" / "my own")
    return folder


def test_show_fits_a_screen(home: Path) -> None:
    shown = radii("show", "runs/my own", cwd=home)
    assert shown.code == 0, shown.error
    for word in ("digits_cnn", "digits", "sigma 0.25", "10: 0, 1, 2", "trained: 2 of 2 epochs", "gaussian", "torch "):
        assert word in shown.out
    assert shown.out.endswith("next: radii audit 'runs/my own' --minutes 3\n")
    assert shown.out.count("\n") < 24
    options = ["--every", "90", "--set", "estimation=200", "--engine", "torch", "--workers", "1"]
    certified = radii("certify", "runs/my own", *options, "--json", "-q", cwd=home)
    facts = json.loads(certified.out)
    assert (facts["images"], facts["certifier"], facts["engine"]) == (5, "fixed", "torch")
    again = radii("show", "runs/my own", cwd=home).out
    assert "certified  5 images, " in again
    assert "; every 90th of " in again
    assert again.endswith("next: radii report 'runs/my own'\n")
    data = json.loads(radii("show", "runs/my own", "--json", cwd=home).out)
    assert data["recipe"]["model"] == {"name": "digits_cnn"}
    assert (data["epochs"], data["finished"], len(data["certified"])) == (2, True, 1)
    verified = radii("verify", "runs/my own", "--json", "--rows", "1", cwd=home)
    assert (verified.code, json.loads(verified.out)["equal"]) == (0, True)


def test_show_runs_no_code_of_a_run_and_says_so(home: Path, tmp_path: Path) -> None:
    shutil.copytree(home / "runs" / "my own", tmp_path / "theirs", ignore=shutil.ignore_patterns("certificates"))
    file = tmp_path / "theirs" / "recipe.toml"
    file.write_text(file.read_text().replace('model = "digits_cnn"', 'model = "evil_nets:load"'))
    (tmp_path / "evil_nets.py").write_text("raise SystemExit('run')")
    shown = radii("show", "theirs", cwd=tmp_path)
    assert shown.code == 0, shown.error
    assert "evil_nets:load: not run by this user before; commands that use it ask for --trust" in shown.out


def test_show_says_how_to_continue_a_training(home: Path, tmp_path: Path) -> None:
    shutil.copytree(home / "runs" / "my own", tmp_path / "half", ignore=shutil.ignore_patterns("certificates"))
    (tmp_path / "half" / "model.safetensors").unlink()
    shown = radii("show", "half", cwd=tmp_path).out
    assert "in training: 2 of 2 epochs" in shown
    assert "next: radii train RECIPE --run half as before, to continue" in shown


def test_unfinished_import_is_continued_by_its_command(home: Path, tmp_path: Path) -> None:
    folder = tmp_path / "half"
    shutil.copytree(home / "runs" / "my own", folder, ignore=shutil.ignore_patterns("certificates"))
    recipe = folder / "recipe.toml"
    recipe.write_text(recipe.read_text().partition("[training]")[0])
    (folder / "model.safetensors").unlink()  # a kill came before it was written
    assert "next: the `radii import` that began it, to continue" in radii("show", "half", cwd=tmp_path).out
    assert "is not imported to the end: give the `radii import`" in radii("predict", "half", "x", cwd=tmp_path).error


def test_list_of_runs_leaves_out_what_is_not_of_the_present_weights(home: Path, tmp_path: Path) -> None:
    run = tmp_path / "runs" / "own"
    shutil.copytree(home / "runs" / "my own", run, ignore=shutil.ignore_patterns("certificates"))
    quick = ("--every", "150", "--set", "estimation=200", "--engine", "torch", "--workers", "1")
    assert radii("certify", "runs/own", *quick, cwd=tmp_path).code == 0
    listed = radii("show", "runs", cwd=tmp_path).out
    assert "% at 0.25" in " ".join(listed.split())
    content = bytearray((run / "model.safetensors").read_bytes())
    content[-1] ^= 1
    (run / "model.safetensors").write_bytes(bytes(content))
    assert "% at 0.25" not in " ".join(radii("show", "runs", cwd=tmp_path).out.split())
