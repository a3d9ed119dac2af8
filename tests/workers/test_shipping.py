"""The files of a run in a worker that cannot read it."""

import gc
import tempfile
from pathlib import Path

import pytest
from radii.workers.shipping import opened, shipped_files


class Opened:
    def __init__(self, folder: Path) -> None:
        self.content = (folder / "recipe.toml").read_bytes()


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_files_are_there_as_long_as_what_was_opened_with_them(temporary: Path) -> None:
    found = opened({"recipe.toml": b"sigma = 1"}, Opened)
    assert found.content == b"sigma = 1"
    assert len(list(temporary.iterdir())) == 1
    del found
    gc.collect()
    assert not list(temporary.iterdir())


def test_files_that_cannot_be_opened_are_removed(temporary: Path) -> None:
    with pytest.raises(FileNotFoundError):
        opened({"other": b""}, Opened)
    assert not list(temporary.iterdir())


def test_a_name_cannot_lead_out_of_the_folder(temporary: Path) -> None:
    opened({"recipe.toml": b"", "../outside": b""}, Opened)
    assert not (temporary / "outside").exists()


def test_what_certification_does_not_need_is_not_sent(tmp_path: Path) -> None:
    for name in ("recipe.toml", "model.safetensors", "checkpoint.pt", "soft-labels.npy", "events.jsonl", ".lock"):
        (tmp_path / name).touch()
    assert set(shipped_files(tmp_path)) == {"recipe.toml", "model.safetensors"}
