"""Attack files: what is written is read again, and nothing else."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from radii.disk import LockedError
from radii.runs import attacks
from radii.runs.attacks import AttackedImage
from radii.runs.run import Run
from radii.smoothing.certificate import ABSTAIN

HEADER = {
    "weights": "w",
    "data": "d",
    "engine": "torch",
    "noise": {"name": "gaussian", "sigma": 0.25},
    "steps": 5,
    "copies": 2,
    "samples": 100,
    "radii": [0.25, 0.5],
    "seed": 0,
    "images": [0, 3],
}
ROWS = [AttackedImage(0, 1, 1, 0.3, 2, 0.1, "a"), AttackedImage(3, 1, 1, None, None, 0.1, "b")]


def made(folder: Path) -> Path:
    with attacks.open_file(Run(folder), HEADER) as file:
        for row in ROWS[len(file.rows) :]:
            file.append(row)
    return file.path


def test_rows_are_read_back(tmp_path: Path) -> None:
    found = attacks.read(made(tmp_path))
    assert found.rows == ROWS
    assert found.header["radii"] == [0.25, 0.5]
    assert [found.resisted(radius) for radius in (0.0, 0.29, 0.3, 1.0)] == [(2, 2), (2, 2), (1, 2), (1, 2)]
    assert attacks.read_all(Run(tmp_path)) == {made(tmp_path): found}


def test_abstention_counts_as_an_error() -> None:
    rows = [*ROWS, AttackedImage(4, 1, ABSTAIN, None, None, 0.1, "c"), AttackedImage(5, 1, ABSTAIN, 0.4, 2, 0.1, "d")]
    found = attacks.Attack(HEADER, rows)
    assert [found.resisted(radius) for radius in (0.0, 0.3, 1.0)] == [(2, 4), (1, 4), (1, 4)]
    assert found.abstained == 2


def test_incomplete_line_is_written_again(tmp_path: Path) -> None:
    path = made(tmp_path)
    content = path.read_bytes()
    for end in range(content.index(b"\n") + 1, len(content), 7):
        path.write_bytes(content[:end])
        assert len(attacks.read(path).rows) < 2
        assert made(tmp_path).read_bytes() == content


def test_second_writer_is_refused(tmp_path: Path) -> None:
    with attacks.open_file(Run(tmp_path), HEADER), pytest.raises(LockedError), attacks.open_file(Run(tmp_path), HEADER):
        pass


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"distance": -1}, "distance = -1"),
        ({"distance": "near"}, "distance = 'near'"),
        ({"index": True}, "index = True"),
        ({"digest": None}, "digest = None"),
        ({"index": 0}, "an image twice"),
    ],
)
def test_invalid_row_is_an_error(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    path = made(tmp_path)
    path.write_text(path.read_text() + json.dumps({**asdict(ROWS[1]), "index": 9, **change}) + "\n")
    with pytest.raises(ValueError, match=message):
        attacks.read(path)


@pytest.mark.parametrize("content", ["", "no JSON\n", "{}\n", json.dumps({**HEADER, "radii": []}) + "\n"])
def test_invalid_attack_header_is_an_error(tmp_path: Path, content: str) -> None:
    path = tmp_path / "attack.jsonl"
    path.write_text(content)
    with pytest.raises(ValueError, match=r"attack\.jsonl"):
        attacks.read(path)
