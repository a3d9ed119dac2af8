"""CI, pre-commit and developers run the same scripts."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from radii.training.soft_labels import check_options

ROOT = Path(__file__).parents[1]
CI = [".ci/run", ".github/workflows/ci.yml"]
HOOKS = ".pre-commit-config.yaml"


def text(name: str) -> str:
    return (ROOT / name).read_text()


@pytest.mark.parametrize("name", [*CI, HOOKS, "README.md", "CONTRIBUTING.md"])
def test_every_script_mentioned_exists(name: str) -> None:
    assert {script for script in re.findall(r"scripts/\w+", text(name)) if not (ROOT / script).is_file()} == set()


@pytest.mark.parametrize("name", CI)
def test_ci_runs_all_checks_and_tests(name: str) -> None:
    commands = re.findall(r"^(?: *- run: )?(scripts/\w+.*)$", text(name), re.MULTILINE)
    assert [command for command in commands if command != "scripts/setup"] == ["scripts/check", "scripts/test"]


def test_readme_has_the_commands_for_a_fresh_machine() -> None:
    commands = re.findall(r"^    (scripts/\S+(?: \S+)*)(?: {2,}#.*)?$", text("README.md"), re.MULTILINE)
    assert commands == ["scripts/demo", "scripts/test"]
    assert "scripts/test" in text(".ci/run").splitlines()


def test_pre_commit_hooks_run_all_checks() -> None:
    checks = re.findall(r"^ +([a-z]+)\) ", text("scripts/check"), re.MULTILINE)
    assert re.findall(r"entry: scripts/check (\w+)", text(HOOKS)) == checks
    assert f"set -- {' '.join(checks)}" in text("scripts/check")


def archived(tree: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    (tree / "scripts").mkdir(exist_ok=True)
    shutil.copy(ROOT / "scripts" / "archive", tree / "scripts")
    return subprocess.run([tree / "scripts" / "archive", *arguments], capture_output=True, text=True)


CERTIFICATES = {"certificates/fixed-1.tsv", "certificates/fixed-1.json"}


def a_run(path: Path, *files: str) -> None:
    """A run with certificates of every third of seven images, all of them."""
    for name in ("recipe.toml", "events.jsonl", "checkpoint.pt", *CERTIFICATES, *files):
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text(name)
    (path / "certificates/fixed-1.tsv").write_text("idx\n0\n3\n6\n")
    (path / "certificates/fixed-1.json").write_text('{\n  "every": 3,\n  "images": 7,\n  "most": null\n}\n')


def files_of(path: Path) -> set[str]:
    return {str(each.relative_to(path)) for each in path.rglob("*") if each.is_file()}


def test_archive_keeps_the_weights_of_a_finished_run(tmp_path: Path) -> None:
    a_run(tmp_path / "runs/mnist/short/finished", "model.safetensors", "openvino_int8-1a.xml", "openvino_int8-1a.bin")
    a_run(tmp_path / "unfinished/mnist/short/finished")
    assert archived(tmp_path, "mnist/short/finished").returncode == 0
    engine = {"openvino_int8-1a.xml", "openvino_int8-1a.bin"}
    kept = {"recipe.toml", *CERTIFICATES, "model.safetensors", *engine}
    assert files_of(tmp_path / "results/mnist/short/finished") == kept
    assert not files_of(tmp_path / "unfinished")


def test_archive_leaves_weights_out_on_request(tmp_path: Path) -> None:
    a_run(tmp_path / "runs/a", "model.safetensors")
    assert archived(tmp_path, "--without-weights", "a").returncode == 0
    assert files_of(tmp_path / "results/a") == {"recipe.toml", *CERTIFICATES}


def test_archive_takes_the_checkpoint_of_an_unfinished_run(tmp_path: Path) -> None:
    a_run(tmp_path / "runs/a")
    assert archived(tmp_path, "a").returncode == 0
    assert files_of(tmp_path / "unfinished/a") == {"recipe.toml", *CERTIFICATES, "checkpoint.pt"}
    assert not (tmp_path / "results").exists()


def test_archive_takes_the_weights_of_a_run_without_certificates(tmp_path: Path) -> None:
    a_run(tmp_path / "runs/a", "model.safetensors")
    shutil.rmtree(tmp_path / "runs/a/certificates")
    assert archived(tmp_path, "--without-weights", "a").returncode == 0
    assert files_of(tmp_path / "unfinished/a") == {"recipe.toml", "model.safetensors"}
    assert not (tmp_path / "results").exists()


def test_archive_takes_a_run_whose_certificates_are_not_whole_for_unfinished(tmp_path: Path) -> None:
    a_run(tmp_path / "runs/a", "model.safetensors")
    (tmp_path / "runs/a/certificates/fixed-1.tsv").write_text("idx\n0\n3\n")
    assert archived(tmp_path, "--without-weights", "a").returncode == 0
    assert files_of(tmp_path / "unfinished/a") == {"recipe.toml", *CERTIFICATES, "model.safetensors"}
    assert not (tmp_path / "results").exists()


def test_archive_refuses_what_is_no_run_before_it_copies(tmp_path: Path) -> None:
    a_run(tmp_path / "runs/a")
    refused = archived(tmp_path, "a", "b")
    assert refused.returncode == 1
    assert refused.stderr == "scripts/archive: runs/b is not a run\n"
    assert not (tmp_path / "results").exists()


def test_recipes_of_reproduce_exist() -> None:
    names = re.findall(r"(?:train|trained) (\w+/[\w.$-]+)", text("scripts/reproduce"))
    sample = {"$method": "gaussian", "$sigma": "0.25"}
    for old, new in sample.items():
        names = [name.replace(old, new) for name in names]
    assert len(names) > 10
    assert [name for name in names if not (ROOT / "recipes" / f"{name}.toml").is_file()] == []


def test_votes_of_reproduce_are_possible() -> None:
    """It is asked for them only after hours of training."""
    found = re.findall(r"--samples (\d+) --settle (\d+)", text("scripts/reproduce"))
    assert found
    for samples, settle in found:
        check_options(int(samples), int(settle))


STUB = """
echo "$@"
while [ $# -gt 1 ]; do
    case $1 in --run | --teacher) mkdir -p "$2" && touch "$2/model.safetensors" "$2/recipe.toml" ;; esac
    shift
done
"""


def parts() -> list[str]:
    return re.findall(
        r"^((?:digits|fashion|gtsrb|mnist|cifar10|svhn)_\w+)\(\) \{", text("scripts/reproduce"), re.MULTILINE
    )


@pytest.mark.parametrize("part", parts())
def test_every_part_of_reproduce_goes_on_from_the_archive(part: str, tmp_path: Path) -> None:
    """In a fresh checkout, where some runs are archived without their weights."""
    for file in (ROOT / "results").rglob("*"):  # empty: the script only looks which files there are
        if file.is_file():
            copy = tmp_path / file.relative_to(ROOT)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.touch()
    if (ROOT / "unfinished").is_dir():
        shutil.copytree(ROOT / "unfinished", tmp_path / "unfinished")
    (tmp_path / "runs" / "arrays").mkdir(parents=True)
    (tmp_path / "runs" / "arrays" / "arrays.npz").touch()
    stubbed(tmp_path, {"scripts/setup": "", "scripts/beside": "", ".venv/bin/radii": STUB})
    done = subprocess.run([tmp_path / "scripts" / "reproduce", part], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "has no weights" not in done.stderr


def stubbed(folder: Path, commands: dict[str, str]) -> None:
    """A folder with scripts/reproduce, and other commands in place of those that it calls."""
    (folder / "scripts").mkdir()
    shutil.copy(ROOT / "scripts" / "reproduce", folder / "scripts")
    for name, body in commands.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"#!/bin/sh\n{body}\n")
        (folder / name).chmod(0o755)


@pytest.mark.parametrize("copies", [True, False])
def test_reproduce_continues_a_whole_copy_of_an_unfinished_run(copies: bool, tmp_path: Path) -> None:
    commands = {"scripts/setup": "", "scripts/beside": "", ".venv/bin/radii": 'echo "$@"'}
    if not copies:
        commands[".venv/bin/cp"] = 'mkdir -p "$3" && exit 1'
    stubbed(tmp_path, commands)
    run = "cifar10/twelve-epochs/smoothmix"
    a_run(tmp_path / "unfinished" / run)
    done = subprocess.run([tmp_path / "scripts" / "reproduce", "cifar10_teacher"], capture_output=True, text=True)
    assert (done.returncode == 0) == copies
    assert (f"train cifar10/smoothmix-0.25 --run runs/{run}" in done.stdout) == copies
    assert (tmp_path / "runs" / run / "checkpoint.pt").is_file() == copies
