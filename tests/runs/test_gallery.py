"""The images that are worth a look, and their pictures."""

from pathlib import Path

import numpy as np
import pytest

from radii.runs import gallery
from radii.runs.certificates import Row


def rows(count: int) -> list[Row]:
    return [Row(index, 1, 1, 0.1 * (index + 1), 1.0) for index in range(count)]


def test_choice_by_radius() -> None:
    wrong = [Row(100, 1, 2, 0.7, 1.0), Row(101, 1, 2, 0.9, 1.0), Row(102, 1, -1, 0.0, 1.0)]
    found = {title: [row.index for row in some] for title, some in gallery.choice([*rows(20), *wrong]).items()}
    assert found == {
        "Smallest radius": [0, 1, 2],
        "Median radius": [8, 9, 10],
        "Largest radius": [19, 18, 17],
        "Wrong, with the largest radius": [101, 100],
    }


@pytest.mark.parametrize("count", range(8))
def test_no_image_is_chosen_twice(count: int) -> None:
    chosen = [row.index for row in gallery.chosen(rows(count))]
    assert sorted(chosen) == sorted(set(chosen))
    assert len(chosen) == min(count, 9)


def test_pictures_are_read_as_written(tmp_path: Path) -> None:
    path = tmp_path / "pictures" / "a.safetensors"
    picture = np.random.default_rng(0).random((3, 4, 5), np.float32)
    gallery.write(path, {"7": picture}, {"7": "digest"})
    found, facts = gallery.read(path)
    assert (found["7"] == picture).all()
    assert facts == {"7": "digest"}


@pytest.mark.parametrize("shape", [(4, 5), (2, 4, 5), (3, 0, 5)])
def test_invalid_pictures_are_refused(tmp_path: Path, shape: tuple[int, ...]) -> None:
    gallery.write(tmp_path / "a.safetensors", {"7": np.zeros(shape, np.float32)}, {})
    with pytest.raises(ValueError, match="no picture"):
        gallery.read(tmp_path / "a.safetensors")


@pytest.mark.parametrize("content", [b"", b"\xff" * 100, (2).to_bytes(8, "little") + b"{}x"])
def test_a_damaged_file_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.safetensors").write_bytes(content)
    with pytest.raises(ValueError, match=r"a\.safetensors"):
        gallery.read(tmp_path / "a.safetensors")
