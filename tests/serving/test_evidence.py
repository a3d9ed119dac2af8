"""The evidence: a chain that shows every edit, survives kills, and counts questions about a picture."""

import json
import os
import shutil
from pathlib import Path

import pytest

from radii import disk
from radii.serving.evidence import (
    INDEX,
    LOG,
    PICTURES,
    EvidenceError,
    EvidenceLog,
    cut_log,
    log_file,
    read_log,
    seal,
)


def sealed(number: int, picture: str = "p") -> dict[str, object]:
    return {"kind": "sealed", "id": str(number), "picture": picture, "weights": "w", "asked": number}


def written(folder: Path, count: int = 4) -> Path:
    """Write evidence of some questions about one picture."""
    log = EvidenceLog(folder)
    for number in range(1, count + 1):
        assert log.index.ask("p", "w") == number
        log.append([sealed(number)])
    log.close()
    return log_file(folder)


def test_lines_are_read_back_in_order(tmp_path: Path) -> None:
    file = written(tmp_path / "e")
    entries = list(read_log(tmp_path / "e"))
    assert [(entry.number, entry.record["id"]) for entry in entries] == [(n, str(n)) for n in (1, 2, 3, 4)]
    assert entries[-1].end == file.stat().st_size
    assert [entry.record["previous"] for entry in entries[1:]] == [entry.digest for entry in entries[:-1]]


@pytest.mark.parametrize(
    "damage",
    [
        lambda lines: [lines[0], lines[1].replace(b'"2"', b'"9"'), *lines[2:]],
        lambda lines: [lines[0], *lines[2:]],
        lambda lines: [lines[1], lines[0], *lines[2:]],
        lambda lines: [*lines[:2], lines[1], *lines[2:]],
        lambda lines: lines[1:],
        lambda lines: [*lines[:3], lines[3].replace(b'"4"', b'"5"')],
        lambda lines: [*lines[:2], b"\n", *lines[2:]],
        lambda lines: [*lines[:2], b"[]\n", *lines[2:]],
    ],
    ids=["edited", "left out", "swapped", "repeated", "first left out", "last edited", "empty line", "other JSON"],
)
def test_every_edit_breaks_the_chain(tmp_path: Path, damage: object) -> None:
    file = written(tmp_path / "e")
    file.write_bytes(b"".join(damage(file.read_bytes().splitlines(keepends=True))))  # type: ignore[operator]
    with pytest.raises(EvidenceError, match=r"Line \d of .* was edited"):
        list(read_log(tmp_path / "e"))
    (tmp_path / "e" / INDEX).unlink()  # with it a server reads only what came after
    with pytest.raises(EvidenceError):
        EvidenceLog(tmp_path / "e")


def test_every_cut_of_the_file_is_repaired_to_whole_lines(tmp_path: Path) -> None:
    whole = written(tmp_path / "e", 3).read_bytes()
    ends = [0, *(place + 1 for place, byte in enumerate(whole) if byte == ord("\n"))]
    for cut in {*range(0, len(whole), 37), *(end + shift for end in ends for shift in (-1, 0, 1))}:
        if not 0 <= cut <= len(whole):
            continue
        folder = tmp_path / f"cut{cut}"
        folder.mkdir(exist_ok=True)
        log_file(folder).write_bytes(whole[:cut])
        lines = sum(end <= cut for end in ends) - 1
        log = EvidenceLog(folder)
        assert log.index.times("p", "w") == lines
        assert log.repaired == cut - ends[lines]
        log.append([sealed(lines + 1)])
        log.close()
        assert len(list(read_log(folder))) == lines + 1


@pytest.mark.parametrize("content", [None, b"", b"no database", b"SQLite format 3\0" + bytes(4096)])
def test_lost_or_damaged_index_is_counted_again(tmp_path: Path, content: bytes | None) -> None:
    written(tmp_path / "e")
    (tmp_path / "e" / INDEX).unlink()
    if content is not None:
        (tmp_path / "e" / INDEX).write_bytes(content)
    log = EvidenceLog(tmp_path / "e")
    assert log.index.times("p", "w") == 4
    log.close()


def test_log_without_lines_that_its_index_counted_is_refused(tmp_path: Path) -> None:
    file = written(tmp_path / "e", 4)
    lines = file.read_bytes().splitlines(keepends=True)
    other = written(tmp_path / "other", 4).read_bytes()
    assert cut_log(tmp_path / "e") == ""
    for content in (b"", b"".join(lines[:2]), b"".join(lines)[:-1], other):
        file.write_bytes(content)
        assert "was cut or replaced" in cut_log(tmp_path / "e")
        with pytest.raises(EvidenceError, match=r"does not hold the last of the 4 lines that index\.sqlite"):
            EvidenceLog(tmp_path / "e")
    file.unlink()
    with pytest.raises(EvidenceError, match="was cut"):
        EvidenceLog(tmp_path / "e")
    (tmp_path / "e" / INDEX).write_bytes(b"no database")
    assert cut_log(tmp_path / "e") == ""


def test_index_behind_the_log_catches_up(tmp_path: Path) -> None:
    written(tmp_path / "e", 2)
    before = (tmp_path / "e" / INDEX).read_bytes()
    log = EvidenceLog(tmp_path / "e")
    log.index.ask("p", "w")
    log.append([sealed(3)])
    log.close()
    (tmp_path / "e" / INDEX).write_bytes(before)  # a kill between the two writes
    log = EvidenceLog(tmp_path / "e")
    assert log.index.times("p", "w") == 3
    log.close()


def test_full_disk_leaves_whole_lines_and_the_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path / "e", 2)
    log = EvidenceLog(tmp_path / "e")
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", _no_space)
        log.index.ask("p", "w")
        with pytest.raises(OSError, match="full"):
            log.append([sealed(3)])
    assert log.index.ask("p", "w") == 3
    log.append([sealed(3)])
    log.close()
    assert [entry.record["id"] for entry in read_log(tmp_path / "e")] == ["1", "2", "3"]


def test_torn_line_is_cut_off_before_the_next_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path / "e", 2)
    log = EvidenceLog(tmp_path / "e")
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", _no_space)
        patch.setattr(disk, "truncate", _no_space)
        with pytest.raises(OSError, match="full"):
            log.append([sealed(3)])
        with pytest.raises(OSError, match="full"):
            log.append([sealed(3)])
    log.append([sealed(4)])
    log.close()
    assert [entry.record["id"] for entry in read_log(tmp_path / "e")] == ["1", "2", "4"]


def _no_space(*_: object) -> None:
    raise OSError(28, "full")


def test_line_is_json_with_the_digest_last(tmp_path: Path) -> None:
    line = written(tmp_path / "e", 1).read_text()
    assert list(json.loads(line)) == ["previous", "time", "kind", "id", "picture", "weights", "asked", "digest"]


def test_seal_hides_and_binds_a_seed() -> None:
    assert seal(5) == seal(5) != seal(6)
    assert len(seal((1 << 128) - 1)) == 64


@pytest.mark.parametrize("name", [LOG, INDEX, f"{INDEX}-journal", PICTURES])
def test_links_in_the_folder_are_refused(name: str, tmp_path: Path) -> None:
    written(tmp_path / "e")
    outside = tmp_path / "outside"
    for target in (outside / "file", outside / "folder", outside / "nothing"):
        shutil.rmtree(outside, ignore_errors=True)
        (outside / "folder").mkdir(parents=True)
        (outside / "file").write_bytes(b"")  # an empty file is a database to SQLite
        place = tmp_path / "e" / name
        place.unlink(missing_ok=True)
        place.symlink_to(target)
        with pytest.raises(EvidenceError, match=f"{name} is a symbolic link"):
            EvidenceLog(tmp_path / "e")
        assert sorted(path.name for path in outside.rglob("*")) == ["file", "folder"]
        assert (outside / "file").read_bytes() == b""


def test_line_that_could_not_be_read_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = EvidenceLog(tmp_path / "e")
    monkeypatch.setattr("radii.serving.evidence.MOST_LINE", 1000)
    with pytest.raises(EvidenceError, match="would have more than 1,000 bytes"):
        log.append([{"kind": "opened", "classes": ["x" * 1000]}])
    log.append([{"kind": "opened"}])
    log.close()
    assert len(list(read_log(tmp_path / "e"))) == 1
