"""Training in two processes that torchrun starts, stopped and continued by one."""

import os
import shlex
import signal
from pathlib import Path

import pytest

from radii.runs.run import Run
from radii.training.loop import train
from tools.imports import ROOT
from tools.processes import RECIPE, STOPPED, alive, let_work, start_ranks, wait_for, workers


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_stopped_training_is_saved_and_continued_by_another_number_of_processes(
    number: signal.Signals, tmp_path: Path
) -> None:
    (tmp_path / "small.toml").write_text(RECIPE.to_toml())
    run = Run(tmp_path / "run")
    with start_ranks("train", "small.toml", "--run", "run", cwd=tmp_path) as launcher:
        wait_for(run.history_file.is_file)
        pair = workers(launcher.pid)
        let_work(pair[0])  # in the next epoch: right after an epoch there is nothing new to save
        before = run.checkpoint_file.stat().st_mtime_ns
        os.kill(launcher.pid, number)
        _, error = launcher.communicate(timeout=60)
    wait_for(lambda: not alive(pair))
    assert len(pair) == 2
    assert error.count(STOPPED) == 1
    assert run.checkpoint_file.stat().st_mtime_ns > before
    assert not run.finished
    train(RECIPE, run.path)
    first, second = run.environment()["training"]
    assert first == {"epoch": 0, "step": 0, "processes": 2}
    assert second["processes"] == 1
    assert (second["epoch"], second["step"]) > (0, 0)
    assert [int(row["epoch"]) for row in run.history()] == [0, 1, 2]


@pytest.mark.parametrize("page", ["training_distributed.md", "coverage.toml"])
def test_torchrun_takes_the_documented_commands(page: str) -> None:
    from torch.distributed.run import get_args_parser

    lines = [
        line for line in (ROOT / "docs" / page).read_text().splitlines() if "torchrun --n" in line and "radii" in line
    ]
    assert lines
    for line in lines:
        words = shlex.split(line[line.index("torchrun") :].removesuffix('"'))
        parsed = get_args_parser().parse_args(words[1:])
        assert (parsed.training_script, parsed.training_script_args) == ("radii", words[words.index("radii") + 1 :])
