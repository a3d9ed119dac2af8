"""Large JPEGs decoded at a part of their size: where, how near to the others, and the same for every use."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image, JpegImagePlugin

from radii import datasets
from radii.datasets.folder import Transform, crop_box
from radii.serving.decoder import _prepared
from radii.training.open_dataset import dataset_fields

SIZE = 32


def write_photograph(path: Path, width: int, height: int) -> Path:
    """Write a smooth picture, so that the ways to make it smaller differ little."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rough = np.random.default_rng(0).integers(0, 256, (6, 8, 3), np.uint8)
    Image.fromarray(rough).resize((width, height), Image.Resampling.BICUBIC).save(path, quality=95)
    return path


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The widths at which JPEGs are decoded from here on."""
    widths: list[int] = []
    load = JpegImagePlugin.JpegImageFile.load

    def recorded(image: JpegImagePlugin.JpegImageFile) -> object:
        if image.tile:
            widths.append(image.size[0])
        return load(image)

    monkeypatch.setattr(JpegImagePlugin.JpegImageFile, "load", recorded)
    return widths


@pytest.mark.parametrize(
    ("height", "width", "part"), [(63, 79, 1), (64, 80, 2), (127, 161, 2), (128, 160, 4), (257, 321, 8), (600, 801, 8)]
)
def test_the_smallest_part_that_is_not_enlarged_is_decoded(
    tmp_path: Path, decoded: list[int], height: int, width: int, part: int
) -> None:
    photograph = write_photograph(tmp_path / "a.jpg", width, height)
    small = Transform(SIZE, SIZE, draft=True).read(photograph)
    assert decoded == [-(-width // part)]
    whole = Transform(SIZE, SIZE).read(photograph)
    assert decoded[1:] == [width]
    assert (small - whole).abs().mean() < 0.01
    assert torch.equal(small, whole) == (part == 1)


def test_a_crop_of_training_is_not_enlarged(tmp_path: Path, decoded: list[int]) -> None:
    photograph = str(write_photograph(tmp_path / "a.jpg", 320, 256))
    pixels = np.empty((2, 3, SIZE, SIZE), np.uint8)
    for draws in torch.rand(40, 41, generator=torch.Generator().manual_seed(0)).tolist():
        for out, draft in zip(pixels, (False, True), strict=True):
            Transform(SIZE, SIZE, draft=draft).read_into(out, photograph, draws)
        left, top, right, bottom = crop_box(320, 256, draws[1:])
        part = 320 // decoded[-1]
        assert part == 1 or min(right - left, bottom - top) >= part * SIZE
        assert np.abs(pixels[0].astype(int) - pixels[1]).mean() < 4
    assert set(decoded[1::2]) >= {320 // 2, 320 // 4}


@pytest.mark.parametrize("channels", [1, 3])
def test_other_formats_and_grey_pictures_are_read(tmp_path: Path, channels: int) -> None:
    with Image.open(write_photograph(tmp_path / "a.jpg", 160, 128)) as picture:
        picture.save(tmp_path / "a.png")
        picture.convert("L").save(tmp_path / "grey.jpg", quality=95)
    plain, draft = (Transform(SIZE, SIZE, channels, draft=draft) for draft in (False, True))
    assert torch.equal(plain.read(tmp_path / "a.png"), draft.read(tmp_path / "a.png"))
    assert (plain.read(tmp_path / "grey.jpg") - draft.read(tmp_path / "grey.jpg")).abs().mean() < 0.005


def test_certification_predict_and_serve_prepare_alike(tmp_path: Path) -> None:
    file = write_photograph(tmp_path / "val" / "ant" / "a.jpg", 161, 129)
    dataset = datasets.create("folder", tmp_path, size=SIZE, draft=True)
    fields = dataset_fields(dataset)
    certified = dataset.split("test").batch(torch.tensor([0]))[0]
    preparation = datasets.preparation("folder", fields, dataset.shape)
    assert torch.equal(preparation.read(file), certified)
    assert preparation.words.endswith("decoded at a part of their size")
    spec = json.dumps({"name": "folder", "fields": fields, "shape": dataset.shape}).encode()
    good, served = _prepared(spec, file.read_bytes(), tmp_path / "sent")
    assert good, served
    assert torch.equal(torch.frombuffer(bytearray(served), dtype=torch.float32).view(dataset.shape), certified)
    plain = datasets.create("folder", tmp_path, size=SIZE).split("test").batch(torch.tensor([0]))[0]
    assert not torch.equal(plain, certified)


def test_draft_is_recorded_only_where_it_is_true(tmp_path: Path) -> None:
    write_photograph(tmp_path / "val" / "ant" / "a.jpg", 64, 64)
    unstated, false, true = (
        datasets.create("folder", tmp_path, size=SIZE, **fields) for fields in ({}, {"draft": False}, {"draft": True})
    )
    assert dataset_fields(unstated) == dataset_fields(false)
    assert dataset_fields(true) == {**dataset_fields(false), "draft": True}
    assert unstated.split("test").digest == false.split("test").digest != true.split("test").digest
