import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from radii import datasets
from radii.datasets import DataError
from radii.datasets._corruptions import CORRUPTIONS
from radii.datasets.corrupted import corrupt_dataset


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file()}


def test_corrupt_depends_on_the_seed_only_and_resumes_after_a_kill(tmp_path: Path) -> None:
    digits = datasets.create("digits")
    whole = content(corrupt_dataset(digits, tmp_path / "a", every=150))
    assert {f"{kind}.npy" for kind in CORRUPTIONS} <= set(whole)
    (tmp_path / "a" / "fog.npy").unlink()
    (tmp_path / "a" / "gallery.png").unlink()
    (tmp_path / "a" / ".snow.npy.1").write_bytes(b"what a kill left")
    assert content(corrupt_dataset(digits, tmp_path / "a", every=150)) == whole
    other = content(corrupt_dataset(digits, tmp_path / "b", every=150, seed=1))
    assert other["labels.npy"] == whole["labels.npy"]
    assert other["fog.npy"] != whole["fog.npy"]
    with pytest.raises(DataError, match="holds other corrupted images"):
        corrupt_dataset(digits, tmp_path / "a", every=150, seed=1)


def test_corrupted_images_are_read_back_with_their_record(tmp_path: Path) -> None:
    digits = datasets.create("digits")
    corrupt_dataset(digits, tmp_path, every=150)
    corrupted = datasets.create("corrupted", tmp_path, kind="brightness", severity=1)
    assert (corrupted.shape, corrupted.class_names) == (digits.shape, digits.class_names)
    clean, bright = (dataset.split("test") for dataset in (digits, corrupted))
    assert bright.labels.tolist() == clean.labels[::150].tolist()
    expected = (clean.batch(torch.tensor([150])) + 0.08).clamp(max=1)
    torch.testing.assert_close(bright.batch(torch.tensor([1])), expected, rtol=0, atol=0.5 / 255 + 1e-6)
    record = json.loads((tmp_path / "radii-corrupted.json").read_text())
    assert "not a published set" in record["made_by"]
    assert (record["of"], record["data"]) == ({"name": "digits"}, clean.digest)
    with Image.open(tmp_path / "gallery.png") as gallery:
        assert np.asarray(gallery).std() > 10


def test_folder_with_other_files_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "labels.npy", np.arange(3))
    with pytest.raises(DataError, match="holds files that radii did not make"):
        corrupt_dataset(datasets.create("digits"), tmp_path)
    assert np.load(tmp_path / "labels.npy").tolist() == [0, 1, 2]
