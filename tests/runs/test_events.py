"""events.jsonl: appended, readable after a kill, bounded, and never the end of the work."""

import json
from pathlib import Path

import pytest

from radii.errors import RunWarning
from radii.runs import events


def names(folder: Path) -> list[str]:
    return [event["event"] for event in events.read(folder)]


def test_events_of_work_that_ends(tmp_path: Path) -> None:
    with events.working(tmp_path, "train", epochs=2) as log:
        log.write("epoch", epoch=0, loss=1.5)
    began, epoch, ended = events.read(tmp_path)
    assert (began["event"], began["work"], began["epochs"]) == ("began", "train", 2)
    assert epoch["loss"] == 1.5
    assert ended["event"] == "ended"
    assert ended["process"] == began["process"]


@pytest.mark.parametrize(("error", "last"), [(KeyboardInterrupt(), "stopped"), (ValueError("a reason"), "failed")])
def test_events_of_work_that_does_not_end(tmp_path: Path, error: BaseException, last: str) -> None:
    with pytest.raises(type(error)), events.working(tmp_path, "train"):
        raise error
    assert names(tmp_path) == ["began", last]
    assert events.read(tmp_path)[-1].get("error") == (None if last == "stopped" else "a reason")


def test_incomplete_line_is_skipped(tmp_path: Path) -> None:
    file = tmp_path / events.FILE
    events.EventLog(tmp_path, "train").write("began")
    file.write_bytes(file.read_bytes() + b'{"time": "2026-')
    assert names(tmp_path) == ["began"]
    events.EventLog(tmp_path, "train").write("epoch")
    assert names(tmp_path) == ["began", "epoch"]


def test_two_processes_may_write(tmp_path: Path) -> None:
    one, other = events.EventLog(tmp_path, "train"), events.EventLog(tmp_path, "certify")
    for number in range(10):
        (one if number % 2 else other).write("step", number=number)
    assert [event["number"] for event in events.read(tmp_path)] == list(range(10))


def test_long_event_file_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "MOST_BYTES", 2000)
    log = events.EventLog(tmp_path, "train")
    for number in range(200):
        log.write("step", number=number)
    assert events.read(tmp_path)[-1]["number"] == 199
    assert {path.name for path in tmp_path.iterdir()} == {events.FILE, events.PREVIOUS}
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 5000


def test_progress_events_are_rate_limited(tmp_path: Path) -> None:
    log = events.EventLog(tmp_path, "train")
    assert [log.due() for _ in range(1000)].count(True) == 1


def test_work_continues_without_a_writable_log(tmp_path: Path) -> None:
    (tmp_path / events.FILE).mkdir()
    with pytest.warns(RunWarning, match="The work goes on without events") as warned, events.working(tmp_path, "train"):
        done = True
    assert done
    assert len(warned) == 1


@pytest.mark.parametrize("line", ["[]", "3", '{"event": 3}', "\x00", "{" * 100_000])
def test_invalid_lines_are_skipped(tmp_path: Path, line: str) -> None:
    good = {"time": "now", "work": "train", "event": "began"}
    (tmp_path / events.FILE).write_text(f"{line}\n{json.dumps(good)}\n")
    assert events.read(tmp_path) == [good]
