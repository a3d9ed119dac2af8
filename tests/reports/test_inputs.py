"""What a report reads, and under which names."""

from pathlib import Path

import pytest

from radii.reports.inputs import read
from tests.reports.samples import write_log


def log(path: Path) -> Path:
    return write_log(path, (0, 3, 3, 0.48))


def test_equal_names_are_distinguished_by_their_folders(tmp_path: Path) -> None:
    paths = [log(tmp_path / name) for name in ("a/x/log.tsv", "b/x/log.tsv", "b/y/log.tsv", "other.tsv")]
    assert [entry.name for entry in read(paths)] == ["a/x/log", "b/x/log", "y/log", "other"]


def test_one_file_is_not_named_twice(tmp_path: Path) -> None:
    path = log(tmp_path / "log.tsv")
    with pytest.raises(ValueError, match=r"log\.tsv is named 2 times"):
        read([path, path.parent / "." / "log.tsv"])


def test_invalid_inputs_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="There is nothing to report"):
        read([])
    (tmp_path / "folder").mkdir()
    with pytest.raises(ValueError, match=r"folder is not a run: it has no recipe\.toml"):
        read([tmp_path / "folder"])
    with pytest.raises(ValueError, match="cannot read"):
        read([tmp_path / "nowhere"])
