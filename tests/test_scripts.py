"""CI, pre-commit and developers run the same scripts."""

import re
from pathlib import Path

import pytest

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


def test_pre_commit_hooks_run_all_checks() -> None:
    checks = re.findall(r"^ +([a-z]+)\) ", text("scripts/check"), re.MULTILINE)
    assert re.findall(r"entry: scripts/check (\w+)", text(HOOKS)) == checks
    assert f"set -- {' '.join(checks)}" in text("scripts/check")
