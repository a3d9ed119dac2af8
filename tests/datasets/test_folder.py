"""Class folders of photographs: layout, order, and the two views."""

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from radii import datasets
from radii.datasets import DataError
from radii.datasets.folder import centre_crop, crop_box, decoder_threads, decoders, random_crop


def write_photographs(root: Path, *folders: str, size: tuple[int, int] = (240, 230)) -> None:
    rng = np.random.default_rng(len(folders))
    for folder in folders:
        (root / folder).mkdir(parents=True)
        for name in ("b.JPEG", "a.png"):
            Image.fromarray(rng.integers(0, 256, (*size, 3), np.uint8)).save(root / folder / name)


def test_labels_follow_the_sorted_class_folders(tmp_path: Path) -> None:
    write_photographs(tmp_path, "val/dog", "val/ant", "train/ant", "train/dog")
    (tmp_path / "val" / "notes.txt").write_text("not a class")
    (tmp_path / "val" / "ant" / "notes.txt").write_text("not a photograph")
    (tmp_path / "val" / ".hidden").mkdir()
    dataset = datasets.create("folder", tmp_path, enlarge=True)
    images = dataset.split("test")
    assert dataset.classes == 2
    assert images.labels.tolist() == [0, 0, 1, 1]
    with Image.open(tmp_path / "val" / "dog" / "a.png") as photograph:
        expected = np.asarray(centre_crop(photograph)).transpose(2, 0, 1)
    assert np.array_equal(images.batch(torch.tensor([2]))[0].mul(255).round().byte().numpy(), expected)


def test_test_folder_is_accepted_for_val(tmp_path: Path) -> None:
    write_photographs(tmp_path, "test/ant", "test/dog")
    dataset = datasets.create("folder", tmp_path, size=100)
    assert len(dataset.split("test")) == 4
    with pytest.raises(DataError, match="has no train split: put its photographs into train/<class>/"):
        dataset.split("train")


def test_grey_and_transparent_photographs_become_rgb(tmp_path: Path) -> None:
    write_photographs(tmp_path, "val/ant")
    Image.new("L", (300, 300), 51).save(tmp_path / "val" / "ant" / "a.png")
    Image.new("RGBA", (300, 300), (51, 51, 51, 9)).save(tmp_path / "val" / "ant" / "b.JPEG", "PNG")
    batch = datasets.create("folder", tmp_path).split("test").batch(torch.arange(2))
    assert torch.allclose(batch, torch.tensor(0.2))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda root: (root / "train" / "extra").mkdir(), "class folder extra is in one split only"),
        (lambda root: (root / "train").rename(root / "away"), "has no train split"),
        (lambda root: [(root / old).rename(root / f"my {old}") for old in ("train", "val")], "neither train/ nor val/"),
        (lambda root: [p.unlink() for p in (root / "train" / "ant").iterdir()], "ant holds no photographs"),
        (lambda root: [(root / "val" / kind).rename(root / kind) for kind in ("ant", "dog")], "val holds no class"),
    ],
)
def test_wrong_layout_is_an_error(change: Callable[[Path], object], sentence: str, tmp_path: Path) -> None:
    write_photographs(tmp_path, "train/ant", "train/dog", "val/ant", "val/dog")
    change(tmp_path)
    with pytest.raises(DataError, match=sentence):
        datasets.create("folder", tmp_path).split("train")


def test_missing_folder_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DataError, match=r"there is no folder .*nowhere"):
        datasets.create("folder", tmp_path / "nowhere")
    monkeypatch.delenv("RADII_DATA", raising=False)
    with pytest.raises(DataError, match="folder needs photographs in train/<class>/ and val/<class>/"):
        datasets.create("folder")


@pytest.mark.parametrize(("size", "left", "top"), [((512, 256), 144, 16), ((300, 600), 16, 144)])
def test_centre_crop_resizes_the_shorter_side_to_256(size: tuple[int, int], left: int, top: int) -> None:
    ramp = Image.fromarray(np.random.default_rng(0).integers(0, 256, (size[1], size[0], 3), np.uint8))
    shorter = min(size)
    whole = ramp.resize((256 * size[0] // shorter, 256 * size[1] // shorter), Image.Resampling.BILINEAR)
    expected = np.asarray(whole)[top : top + 224, left : left + 224]
    assert np.array_equal(np.asarray(centre_crop(ramp)), expected)


def test_random_crops_have_the_stated_areas_and_shapes() -> None:
    draws = torch.rand(500, 40, generator=torch.Generator().manual_seed(0)).tolist()
    boxes = torch.tensor([crop_box(400, 300, row) for row in draws])
    wide, high = (boxes[:, 2] - boxes[:, 0]).double(), (boxes[:, 3] - boxes[:, 1]).double()
    areas, ratios = wide * high / 120_000, wide / high
    assert (boxes >= 0).all()
    assert (boxes[:, 2] <= 400).all()
    assert (boxes[:, 3] <= 300).all()
    assert 0.078 < areas.min() < 0.12
    assert 0.85 < areas.max() <= 1
    assert 0.74 < ratios.min() < 0.77
    assert 1.3 < ratios.max() < 1.35


def test_crop_box_falls_back_to_the_middle() -> None:
    whole = [0.99, 0.5, 0.0, 0.0]
    assert crop_box(1000, 100, whole * 10) == (433, 0, 566, 100)
    assert crop_box(100, 1000, whole * 10) == (0, 433, 100, 566)


def test_first_draw_decides_the_flip() -> None:
    photograph = Image.fromarray(np.random.default_rng(0).integers(0, 256, (224, 224, 3), np.uint8))
    crop = [0.999999, 0.5, 0.0, 0.0] * 10
    kept, flipped = (np.asarray(random_crop(photograph, [flip, *crop])) for flip in (0.5, 0.49))
    assert np.array_equal(kept, np.asarray(photograph))
    assert np.array_equal(flipped, np.asarray(photograph)[:, ::-1])


def test_digest_does_not_depend_on_the_folder(tmp_path: Path) -> None:
    write_photographs(tmp_path / "here", "val/ant", "val/dog")
    (tmp_path / "there").mkdir()
    digest = datasets.create("folder", tmp_path / "here", size=220).split("test").digest
    (tmp_path / "here").rename(tmp_path / "there" / "moved")
    moved = tmp_path / "there" / "moved"
    assert datasets.create("folder", moved, size=220).split("test").digest == digest
    assert datasets.create("folder", moved, size=200).split("test").digest != digest
    (moved / "val" / "dog" / "a.png").rename(moved / "val" / "ant" / "c.png")
    assert datasets.create("folder", moved, size=220).split("test").digest != digest


@pytest.mark.parametrize(("processes", "threads"), [(None, 8), ("2", 4), ("3", 2), ("16", 1)])
def test_processes_of_a_machine_share_its_cores(
    monkeypatch: pytest.MonkeyPatch, processes: str | None, threads: int
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 8)
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
    if processes:
        monkeypatch.setenv("LOCAL_WORLD_SIZE", processes)
    assert decoder_threads() == threads


def test_a_process_keeps_its_decoders() -> None:
    assert decoders(os.getpid()) is decoders(os.getpid())
