"""Own pictures in every layout: flat class folders, list files, classes.txt; sizes, grey and 16 bits."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from radii import datasets
from radii.datasets import DataError

SHADES = {"cat": 40, "ant": 80, "dog": 120}


def picture(path: Path, shade: int = 51, size: tuple[int, int] = (8, 8)) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, (shade,) * 3).save(path)


def flat(root: Path) -> None:
    for name, shade in SHADES.items():
        picture(root / name / "1.png", shade)


def shades_of(dataset: datasets.Dataset) -> list[tuple[str, int]]:
    """The class name and the grey of every test picture."""
    images = dataset.split("test")
    pixels = images.batch(torch.arange(len(images))).mul(255).round().long()
    return [
        (dataset.class_names[label], int(image[0, 0, 0]))
        for label, image in zip(images.labels.tolist(), pixels, strict=True)
    ]


def test_flat_class_folders_are_for_testing(tmp_path: Path) -> None:
    flat(tmp_path)
    dataset = datasets.create("folder", tmp_path, size=8)
    assert shades_of(dataset) == [("ant", 80), ("cat", 40), ("dog", 120)]
    with pytest.raises(DataError, match="has no train split"):
        dataset.split("train")


@pytest.mark.parametrize("between", ["\t", " ", "   "])
def test_a_list_file_names_pictures_and_labels(tmp_path: Path, between: str) -> None:
    flat(tmp_path)
    (tmp_path / "a cat").mkdir()
    picture(tmp_path / "a cat" / "my 2.png", 41)
    lines = [f"dog/1.png{between}dog", "", "# not a picture", f"a cat/my 2.png{between}cat", f"cat/1.png{between}cat"]
    (tmp_path / "list.txt").write_text("\n".join(lines))
    dataset = datasets.create("folder", tmp_path / "list.txt", size=8)
    assert dataset.class_names == ("cat", "dog")
    assert shades_of(dataset) == [("dog", 120), ("cat", 41), ("cat", 40)]


def test_numbered_labels_are_named_by_classes_txt(tmp_path: Path) -> None:
    flat(tmp_path)
    (tmp_path / "list.txt").write_text("dog/1.png 10\ncat/1.png 02\n")
    assert datasets.create("folder", tmp_path / "list.txt", size=8).class_names == tuple(map(str, range(11)))
    names = [f"kind {number}" for number in range(12)]
    (tmp_path / "classes.txt").write_text("\n".join(names))
    assert shades_of(datasets.create("folder", tmp_path / "list.txt", size=8)) == [("kind 10", 120), ("kind 2", 40)]


def test_names_that_classes_share_are_told_apart(tmp_path: Path) -> None:
    flat(tmp_path)
    (tmp_path / "classes.txt").write_text("dog\tcrane\ncat\tcrane\nant\n")
    assert datasets.create("folder", tmp_path, size=8).class_names == ("crane (dog)", "crane (cat)", "ant")
    (tmp_path / "list.txt").write_text("dog/1.png 2\ncat/1.png 0\n")
    (tmp_path / "classes.txt").write_text("crane\ntench\ncrane\n")
    names = datasets.create("folder", tmp_path / "list.txt", size=8).class_names
    assert names == ("crane (0)", "tench", "crane (2)")


def test_lists_may_be_the_splits(tmp_path: Path) -> None:
    flat(tmp_path / "all")
    (tmp_path / "train.txt").write_text("all/dog/1.png dog\nall/cat/1.png cat\n")
    (tmp_path / "val.txt").write_text("all/cat/1.png cat\nall/dog/1.png dog\n")
    dataset = datasets.create("folder", tmp_path, size=8)
    assert dataset.split("train").labels.tolist() == [1, 0]
    assert dataset.split("test").labels.tolist() == [0, 1]


def test_classes_txt_orders_and_names_class_folders(tmp_path: Path) -> None:
    flat(tmp_path)
    (tmp_path / "classes.txt").write_text("dog\tBig dog\nbee\ncat\nant\tAn ant\n")
    dataset = datasets.create("folder", tmp_path, size=8)
    assert dataset.class_names == ("Big dog", "bee", "cat", "An ant")
    assert shades_of(dataset) == [("Big dog", 120), ("cat", 40), ("An ant", 80)]


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"classes.txt": "dog\ncat"}, "the class ant is not in classes.txt"),
        ({"classes.txt": "dog\ncat\nant\ndog"}, "names a class twice"),
        ({"list.txt": "dog/1.png"}, "line 1: expected a path, a tab or space, and a label"),
        ({"list.txt": "gone.png 0\ndog/1.png 1"}, "gone.png, which does not exist"),
        ({"list.txt": "\n# none\n"}, "lists no photographs"),
        ({"list.txt": "dog/1.png 3", "classes.txt": "a\nb"}, "the label 3 has no name, classes.txt has 2 lines"),
        ({"list.txt": b"\xff\xfe\x00"}, "is not UTF-8"),
    ],
)
def test_wrong_lists_give_one_sentence(tmp_path: Path, files: dict[str, str | bytes], message: str) -> None:
    flat(tmp_path)
    for name, content in files.items():
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    place = tmp_path / "list.txt"
    with pytest.raises(DataError, match=message):
        datasets.create("folder", place if place.exists() else tmp_path, size=8).split("test")


def test_pictures_without_class_folders_are_refused(tmp_path: Path) -> None:
    picture(tmp_path / "1.png")
    with pytest.raises(DataError, match="holds photographs without classes: put them into"):
        datasets.create("folder", tmp_path, size=8)


@pytest.mark.parametrize(("fields", "fits"), [({}, False), ({"resize": 40}, False), ({"enlarge": True}, True)])
def test_small_pictures_are_enlarged_only_if_stated(tmp_path: Path, fields: dict[str, Any], fits: bool) -> None:
    for name in ("a", "b"):
        picture(tmp_path / name / "1.png", size=(50, 32))
    dataset = datasets.create("folder", tmp_path, size=33, **fields)
    if fits:
        assert dataset.split("test").batch(torch.arange(2)).shape == (2, 3, 33, 33)
        return
    with pytest.raises(DataError, match=r"1\.png is 50 x 32 pixels and would be enlarged, .* or enlarge = true"):
        dataset.split("test")
    assert len(datasets.create("folder", tmp_path, size=32).split("test")) == 2


def test_picture_of_the_right_size_keeps_its_pixels(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (16, 16, 3), np.uint8)
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        Image.fromarray(pixels).save(tmp_path / name / "1.png")
    image = datasets.create("folder", tmp_path, size=16).split("test").batch(torch.tensor([0]))[0]
    assert np.array_equal(image.mul(255).round().byte().permute(1, 2, 0).numpy(), pixels)


@pytest.mark.parametrize(("mode", "value"), [("L", 51), ("I;16", 51 * 257), ("RGB", (51, 51, 51))])
@pytest.mark.parametrize("channels", [1, 3])
def test_grey_and_16_bits(tmp_path: Path, mode: str, value: Any, channels: int) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        Image.new(mode, (8, 8), value).save(tmp_path / name / "1.png")
    dataset = datasets.create("folder", tmp_path, size=8, channels=channels)
    assert len(dataset.normalisation.mean) == channels
    batch = dataset.split("test").batch(torch.arange(2))
    assert batch.shape == (2, channels, 8, 8)
    assert torch.allclose(batch, torch.tensor(0.2))


@pytest.mark.parametrize(
    ("fields", "shape"), [({"size": 8}, (3, 8, 8)), ({"size": 6, "resize": 10, "channels": 1}, (1, 6, 6))]
)
def test_preparation_equals_reading_the_test_split(
    tmp_path: Path, fields: dict[str, Any], shape: tuple[int, int, int]
) -> None:
    rng = np.random.default_rng(0)
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        Image.fromarray(rng.integers(0, 256, (13, 17, 3), np.uint8)).save(tmp_path / name / "1.png")
    expected = datasets.create("folder", tmp_path, **fields).split("test").batch(torch.tensor([1]))[0]
    prepared = datasets.preparation("folder", fields, shape)
    assert torch.equal(prepared.read(tmp_path / "b" / "1.png"), expected)
    assert f"the middle {fields['size']} x {fields['size']} cut out" in prepared.words


@pytest.mark.parametrize("hidden", [("a/.x.png",), (".a/x.png",)])
def test_pictures_in_a_folder_are_found_below_it(tmp_path: Path, hidden: Sequence[str]) -> None:
    for name in ("b/c/2.PNG", "a.jpg", *hidden):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "notes.txt").touch()
    assert [path.relative_to(tmp_path).as_posix() for path in datasets.pictures_in(tmp_path)] == ["a.jpg", "b/c/2.PNG"]
