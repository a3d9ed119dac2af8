"""The README is up to date: its commands parse, its files exist, its Python runs."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import radii
from radii import cli

pytestmark = pytest.mark.docs

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
COMMANDS = [
    line.partition(" # ")[0].strip()
    for line in README.replace("\\\n", "").splitlines()
    if line.startswith("    radii ")
]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_parses(command: str) -> None:
    function, _, _ = cli.app.parse_args(shlex.split(command)[1:], exit_on_error=False, print_error=False)
    assert callable(function)


def test_there_are_commands() -> None:
    assert {command.split()[1] for command in COMMANDS} >= {"list", "train", "certify", "predict", "report", "transfer"}


@pytest.mark.parametrize(
    "name", re.findall(r"\]\(([^)]+)\)", README) + re.findall(r"scripts/\w+|recipes/\S+\.toml", README)
)
def test_every_linked_file_exists(name: str) -> None:
    assert (ROOT / name).is_file()


def test_python_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, then = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert len([line for line in first.splitlines() if line]) == 4
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    known: dict[str, Any] = {
        "model": model,
        "dataset": (torch.rand(40, 1, 8, 8), torch.arange(40) % 10),
        "image": torch.rand(1, 8, 8),
    }
    exec(first.replace("seed=0", "seed=0, workers=1"), known)
    assert [row.index for row in known["results"].rows] == [0, 20]
    assert (tmp_path / "mine.tsv").is_file()
    monkeypatch.setattr(radii, "load", lambda _: known["smoothed"], raising=False)
    exec(then.replace("100_000", "1_000"), known)
    assert (tmp_path / "report" / "report.html").is_file()


def test_every_public_name_is_importable() -> None:
    assert all(getattr(radii, name) is not None for name in radii.__all__)
    assert sorted(radii.__all__) == radii.__all__
