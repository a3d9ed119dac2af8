"""`radii watch`: a run that another process works on."""

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from radii import cli
from radii.cli.watch import in_words, is_over
from radii.runs import events
from tools.warm import WarmCommand


def run_of(folder: Path) -> Path:
    folder.mkdir()
    (folder / "recipe.toml").write_text("")
    return folder


def step(**facts: Any) -> dict[str, Any]:
    here = {"time": "now", "work": "train", "event": "step", "process": os.getpid(), "host": os.uname().nodename}
    return {**here, "epoch": 2, "epochs": 9, "step": 3, "steps": 7, "loss": 1.5, "terms": {"a": 1.0, "b": 0.5}, **facts}


def test_progress_of_training_in_words() -> None:
    assert in_words([step()]) == "train, epoch 3/9, step 3/7, loss 1.5000, a 1.0000, b 0.5000"
    epoch = step(event="epoch", seconds=3.0, noisy_test_accuracy=0.97659)
    assert in_words([epoch]) == "train, 3 epochs done, the last in 3 s, noisy accuracy 0.9765"
    assert in_words([step(epoch=1), epoch]) == in_words([epoch]), "the step is of an epoch that is done"
    assert in_words([epoch, step(epoch=3)]).startswith("train, epoch 4/9, step 3/7, ")
    assert in_words([{**epoch, "epoch": 0}]).startswith("train, 1 epoch done, ")
    assert not is_over([step()])


def test_progress_of_certification_in_words() -> None:
    facts = {"done": 100, "images": 500, "correct": 50, "mean_radius": 0.25}
    image = step(work="certify", event="image", **facts)
    words = "certify, 100/500 images, 50.0% certified and correct (39.8-60.2), ACR 0.250"
    assert in_words([image]) == words
    assert in_words([image, step(work="certify", event="ended")]) == f"{words}, ended"
    assert is_over([image, step(work="certify", event="ended")])


@pytest.mark.parametrize("facts", [{"loss": None}, {"epoch": "x"}, {"terms": 3}])
def test_events_of_another_version_are_shown_as_unreadable(facts: Mapping[str, Any]) -> None:
    assert "cannot read" in in_words([step(**facts)])


def test_killed_process_is_reported() -> None:
    child = subprocess.Popen([sys.executable, "-c", "pass"])
    child.wait()
    assert is_over([step(process=child.pid)])
    assert "is gone, it was killed" in in_words([step(process=child.pid)])
    assert not is_over([step(process=child.pid, host="elsewhere")])


def test_folders_without_a_run_or_events_are_refused(tmp_path: Path) -> None:
    for message in ("is not a run", "has no events.jsonl"):
        with pytest.raises(ValueError, match=message):
            cli.app(["watch", str(tmp_path)], exit_on_error=False, print_error=False, result_action="return_value")
        (tmp_path / "recipe.toml").write_text("")


@pytest.mark.slow
def test_watch_shows_the_work_of_another_process(tmp_path: Path) -> None:
    run = run_of(tmp_path / "run")
    log = events.EventLog(run, "train")
    log.write("began")
    with WarmCommand("radii", "watch", "run", cwd=tmp_path, keep_output=True) as watching:
        assert watching.stdout is not None
        assert watching.stdout.readline() == "run: train\n"
        log.write("step", **{key: step()[key] for key in ("epoch", "epochs", "step", "steps", "loss", "terms")})
        assert "epoch 3/9" in watching.stdout.readline()
        log.write("ended")
        assert watching.stdout.readline().endswith("ended\n")
        assert watching.wait() == 0


@pytest.mark.slow
def test_ctrl_c_stops_the_watching_not_the_work(tmp_path: Path) -> None:
    run = run_of(tmp_path / "run")
    events.EventLog(run, "train").write("began")
    before = json.loads((run / events.FILE).read_text())
    with WarmCommand("radii", "watch", "run", cwd=tmp_path, keep_output=True) as watching:
        assert watching.stdout is not None
        watching.stdout.readline()
        watching.send_signal(signal.SIGINT)
        try:
            _, error = watching.communicate(timeout=60)
        finally:
            watching.kill()
    assert watching.returncode == 0
    assert "Traceback" not in error
    assert json.loads((run / events.FILE).read_text()) == before


KEYS = {
    "step": ("epoch", "epochs", "step", "steps", "loss", "terms"),
    "epoch": ("noisy_test_accuracy", "epoch", "seconds"),
    "image": ("done", "images", "correct", "mean_radius"),
    "attacked": ("done", "images"),
    "failed": ("error",),
}
VALUES: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    1,
    0.5,
    1e308,
    -1e308,
    10**39,
    "x",
    "",
    [],
    {},
    [1],
    {"a": 1},
    {"a": None},
    "9" * 5000,
)


def test_hostile_events_are_shown_as_a_sentence(tmp_path: Path) -> None:
    choose = random.Random(0).choice
    for _ in range(500):
        name = choose(list(KEYS))
        event = {"time": "t", "work": "train", "event": name, "process": choose(VALUES), "host": choose(VALUES)}
        event |= {key: choose(VALUES) for key in KEYS[name]}
        (tmp_path / events.FILE).write_text(json.dumps(event) + "\n")
        log = events.read(tmp_path)
        assert "train" in in_words(log)
        is_over(log)
