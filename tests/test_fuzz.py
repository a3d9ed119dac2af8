"""Every reader on damaged files; scripts/stress gives each of them thousands."""

import json
import time
from pathlib import Path

import pytest

from tools.fuzz import Reader, complaints, fuzz, outcome
from tools.readers import READERS

COUNT = 30


@pytest.mark.slow
@pytest.mark.stress
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", READERS)
def test_damaged_file_is_read_or_refused_in_one_sentence(name: str, tmp_path: Path) -> None:
    found = fuzz(READERS[name], tmp_path, COUNT)
    assert complaints(found) == []
    assert found["refused"] > 0


@pytest.mark.parametrize("named", [".", "../run", "../teacher"])
def test_report_of_runs_that_teach_each_other_terminates(named: str, tmp_path: Path) -> None:
    path = READERS["origin.json"].make(tmp_path)
    for run in (path.parent, tmp_path / "teacher"):
        (run / "origin.json").write_text(json.dumps({"teacher": {"path": named, "hash": "00"}}))
    assert outcome(READERS["origin.json"], path, tmp_path) == "refused"


@pytest.mark.parametrize(
    ("error", "result"),
    [
        (ValueError("{path} is wrong"), "refused"),
        (ValueError("wrong"), "! names no file"),
        (ValueError("{path}\nis wrong"), "! is no sentence"),
        (KeyError("{path}"), "! KeyError"),
        (RecursionError("{path}"), "! RecursionError"),
    ],
)
def test_outcomes_are_classified(error: Exception, result: str, tmp_path: Path) -> None:
    def read(path: Path) -> None:
        raise type(error)(str(error.args[0]).format(path=path))

    assert outcome(Reader(lambda folder: folder, read), tmp_path / "file", tmp_path).startswith(result)


def test_hang_is_detected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tools.fuzz.SECONDS", 0.1)
    assert outcome(Reader(lambda folder: folder, lambda _: time.sleep(5)), tmp_path, tmp_path).startswith("! took more")
