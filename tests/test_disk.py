"""Atomic writes, and no other writes in the package."""

import ast
import errno
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from radii import disk
from tools.imports import SOURCE, modules

WRITERS = {"disk.py"}
"""The files that may change other files."""
ELSEWHERE = {
    ("engines/openvino_int8.py", "save_model"),
    ("reports/figures.py", "savefig"),
    ("cli/app.py", "open"),
    ("serving/decoder.py", "write_bytes"),
}
"""Writes of other libraries, and those to a temporary folder, into memory or to nowhere."""
CHANGES = {
    "Path": {"write_text", "write_bytes", "mkdir", "touch", "unlink", "rmdir", "rename", "symlink_to", "hardlink_to"},
    "os": {"open", "write", "replace", "rename", "remove", "unlink", "mkdir", "makedirs", "truncate", "link", "rmdir"},
    "libraries": {"tofile", "savez", "savez_compressed", "savetxt", "savefig", "save_file", "save_model"},
}


def changes(path: Path) -> Iterator[str]:
    """The calls of a file that may write, by name."""
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        owner = node.func.value if isinstance(node.func, ast.Attribute) else None
        by_os = isinstance(owner, ast.Name) and (
            (owner.id == "shutil" and name != "which") or (owner.id == "os" and name in CHANGES["os"])
        )
        if by_os or name in CHANGES["Path"] | CHANGES["libraries"] or (name == "open" and not _reads(node)):
            yield name


def _reads(call: ast.Call) -> bool:
    """Whether a call of open() or Path.open() is read-only, by its literal mode."""
    words = [*call.args, *(word.value for word in call.keywords if word.arg == "mode")]
    modes = [word.value for word in words if isinstance(word, ast.Constant) and isinstance(word.value, str)]
    return not any(set(mode) & set("wax+") for mode in modes if len(mode) <= 3)


def test_only_disk_writes_files() -> None:
    found = {(str(path.relative_to(SOURCE)), name) for path in modules() for name in changes(path)}
    assert {pair for pair in found if pair[0] not in WRITERS} == ELSEWHERE


@pytest.mark.parametrize(
    "line",
    [
        "open('a', 'w')",
        "path.open('ab')",
        "path.open(mode='r+')",
        "path.write_text('')",
        "os.replace(a, b)",
        "shutil.move(a, b)",
        "table.tofile(path)",
    ],
)
def test_write_is_detected(line: str, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(line)
    assert list(changes(tmp_path / "a.py"))


def test_read_is_not_detected_as_a_write(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("open(a); path.open('rb'); text.replace('a', 'b'); Image.open(path); os.open_")
    assert not list(changes(tmp_path / "a.py"))


def test_previous_content_is_kept(tmp_path: Path) -> None:
    path, before = tmp_path / "a", tmp_path / "b"
    disk.write(path, "1", keep=before)
    assert not before.exists()
    disk.write(path, b"2", keep=before)
    assert (path.read_text(), before.read_text()) == ("2", "1")
    assert len(list(tmp_path.iterdir())) == 2


class FullDisk:
    """The module os on a disk with room for a few bytes."""

    def __init__(self, room: int) -> None:
        self.room = room

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def write(self, descriptor: int, content: bytes) -> int:
        written = os.write(descriptor, content[: self.room])
        if not written:
            raise OSError(errno.ENOSPC, "No space left on device")
        self.room -= written
        return written


def test_full_disk_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a"
    path.write_text("old\n")
    monkeypatch.setattr(disk, "os", FullDisk(3))
    with pytest.raises(OSError, match="the disk is full"):
        disk.append(path, b"a line\n")
    with pytest.raises(OSError, match="No space left"):
        disk.write(path, "more than three")
    assert [(each.name, each.read_text()) for each in tmp_path.iterdir()] == [("a", "old\n")]


def test_sweep_removes_only_temporary_files_of_these_files(tmp_path: Path) -> None:
    for name in (".a.txt.12", ".a.txt.99999999", ".b.txt.12", ".a.txt.lock", "a.txt", ".a.txt.bak"):
        (tmp_path / name).touch()
    disk.sweep(tmp_path, ["a.txt"])
    assert {path.name for path in tmp_path.iterdir()} == {".b.txt.12", ".a.txt.lock", "a.txt", ".a.txt.bak"}


def test_folder_with_the_name_of_a_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    with pytest.raises(OSError, match="a"):
        disk.make_folder(tmp_path / "a" / "b")
    with pytest.raises(NotADirectoryError, match="should be a folder"):
        disk.make_folder(tmp_path / "a")


@pytest.mark.parametrize("way", ["write", "append"])
def test_full_disk_error_names_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    path = tmp_path / "a.tsv"
    path.write_bytes(b"")
    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match=r"No space left on device: '.*/a\.tsv'") as error:
        getattr(disk, way)(path, b"some")
    assert error.value.errno == errno.ENOSPC


@pytest.mark.parametrize("kind", ["link", "pipe"])
@pytest.mark.parametrize("way", ["append", "create", "truncate"])
def test_links_and_pipes_are_not_changed(tmp_path: Path, kind: str, way: str) -> None:
    outside, path = tmp_path / "start-up", tmp_path / "events.jsonl"
    outside.write_bytes(b"mine")
    if kind == "link":
        path.symlink_to(outside)
    else:
        os.mkfifo(path)
    with pytest.raises(OSError, match=r"it is .*: remove it: '.*events\.jsonl'"):
        disk.truncate(path, 0) if way == "truncate" else disk.append(path, b"line", create=way == "create")
    assert outside.read_bytes() == b"mine"


def test_temporary_file_that_is_a_link_is_replaced(tmp_path: Path) -> None:
    outside, path = tmp_path / "start-up", tmp_path / "a.json"
    outside.write_bytes(b"mine")
    (tmp_path / f".a.json.{threading.get_native_id()}").symlink_to(outside)
    disk.write(path, b"new")
    assert (outside.read_bytes(), path.read_bytes(), path.is_symlink()) == (b"mine", b"new", False)


def test_full_disk_error_of_a_folder_or_a_cut_names_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    (tmp_path / "a").write_bytes(b"some")
    for name in ("mkdir", "ftruncate", "replace"):
        monkeypatch.setattr(os, name, full)
    with pytest.raises(OSError, match=r"No space left on device: '.*/new'"):
        disk.make_folder(tmp_path / "new" / "deeper")
    with pytest.raises(OSError, match=r"No space left on device: '.*/a'"):
        disk.truncate(tmp_path / "a", 1)
    with pytest.raises(OSError, match=r"No space left on device: '.*/a'"):
        disk.write(tmp_path / "a", b"more")


def test_appending_a_part_names_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.tsv").write_text("old\n")
    monkeypatch.setattr(disk, "os", FullDisk(3))
    with pytest.raises(OSError, match=r"the disk is full.*a\.tsv"):
        disk.append(tmp_path / "a.tsv", b"a line\n")
