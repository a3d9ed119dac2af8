"""What holds for every command: quiet, device, version, completion, colours, one style of error."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from radii import cli, device
from radii.cli.arguments import command
from tests.cli.running import radii


def run(*arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    code = "from radii.cli import main; main()"
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=cwd,
        env={**os.environ, **environment},
        check=False,
        capture_output=True,
        text=True,
    )


def test_no_color_leaves_out_colours(tmp_path: Path) -> None:
    coloured = run("--help", cwd=tmp_path, FORCE_COLOR="1", NO_COLOR="", TERM="xterm-256color")
    plain = run("--help", cwd=tmp_path, FORCE_COLOR="1", NO_COLOR="1", TERM="xterm-256color")
    assert "\x1b[36m" in coloured.stdout
    assert "\x1b[36m" not in plain.stdout


def test_completion_knows_the_commands() -> None:
    script = cli.app.meta.generate_completion(prog_name="radii", shell="bash")
    for word in ("certify", "predict", "show", "--without-labels", "--device"):
        assert word in script


def test_version(tmp_path: Path) -> None:
    assert radii("--version", cwd=tmp_path).out == "0.2.0\n"


def test_quiet_leaves_out_hints_but_not_answers(tmp_path: Path) -> None:
    loud, quiet = radii("list", cwd=tmp_path).out, radii("list", "-q", cwd=tmp_path).out
    assert loud == f"{quiet}fields and their defaults: radii list models, and so on\n"
    assert radii("--quiet", "list", cwd=tmp_path).out == quiet
    assert radii("list", cwd=tmp_path).out == loud


def test_device_comes_from_the_flag_or_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[torch.device] = []
    monkeypatch.setattr("radii.cli.list._print_all", lambda: seen.append(device.default_device()))
    monkeypatch.setattr(device, "available", lambda: ["cpu", "meta"])
    assert radii("list", "--device", "meta", cwd=tmp_path).code == 0
    assert radii("list", cwd=tmp_path).code == 0
    monkeypatch.setenv("RADII_DEVICE", "meta")
    assert radii("--device", "cpu", "list", cwd=tmp_path).code == 0
    assert radii("list", cwd=tmp_path).code == 0
    usual = "cuda" if torch.cuda.is_available() else "cpu"
    assert [each.type for each in seen] == ["meta", usual, "cpu", "meta"]


def test_missing_device_is_named_in_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RADII_DEVICE", "abacus")
    with pytest.raises(ValueError, match="there is no device 'abacus' here, expected one of: cpu"):
        device.default_device()


def test_commands_can_be_pasted() -> None:
    assert command("certify", Path("my runs/a"), every=20, max=None, linf=False, set=["a=1", "b=x y"], json=True) == (
        "radii certify 'my runs/a' --every 20 --set a=1 --set 'b=x y' --json"
    )
