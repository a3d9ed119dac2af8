"""Corrupted copies of a dataset's test images, made by `radii corrupt`; not a published set."""

import io
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from radii import disk
from radii.datasets._corruptions import CORRUPTIONS, corrupt
from radii.datasets._files import existing_folder
from radii.datasets.base import DataError, Dataset, Images, InMemory, Split, named_data
from radii.datasets.cifar10_c import RADII_RECORD, expect_test, read_kind
from radii.fields import option, settings_of
from radii.published_datasets import KINDS, SEVERITIES
from radii.smoothing.addresses import entropy

MOST_BYTES = 1 << 24
"""Bytes of a record."""
GALLERY = "gallery.png"
TILE, NAME, GAP = 64, 130, 4
"""Pixels in the gallery: the side of an image, the width of the names, the gap between images."""
OnImage = Callable[[int, int], None]


@dataclass(frozen=True, kw_only=True, eq=False)
class Corrupted(Dataset):
    """A folder of `radii corrupt`: KIND.npy, labels.npy and a record. `severity` 0 is all five, one after the other."""

    kind: str = option("gaussian_noise", choices=tuple(KINDS["cifar10_c"].values()))
    severity: int = option(0, ge=0, le=5)
    _folder: Path = field(init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        folder = existing_folder(named_data(self, "a folder that `radii corrupt` made"))
        self.set_attributes(_folder=folder, **_shape_and_classes(folder / RADII_RECORD))

    def split(self, split: Split) -> InMemory:
        expect_test(self.name, split)
        return read_kind(self._folder, self.kind, self.severity, self.shape, self.classes)


def _shape_and_classes(file: Path) -> dict[str, Any]:
    """Read the shape and the classes of the images from the record beside them."""
    if not file.is_file():
        raise DataError(f"there is no {file}: name a folder that `radii corrupt` made", "data")
    try:
        record = _read_record(file)
        channels, height, width = (int(side) for side in record["shape"])
        names = tuple(map(str, record["class_names"]))
    except (ValueError, LookupError, TypeError) as error:
        raise DataError(f"{file} does not state shape and class_names: make the images again") from error
    if min(channels, height, width) < 1 or not names:
        raise DataError(f"{file} states images of {channels} x {height} x {width} in {len(names)} classes")
    return {"shape": (channels, height, width), "class_names": names}


def _read_record(file: Path) -> Any:
    with file.open("rb") as stream:
        try:
            return json.loads(stream.read(MOST_BYTES))
        except ValueError as error:
            raise DataError(f"{file} is not a record of `radii corrupt`: remove its folder") from error


def corrupt_dataset(
    dataset: Dataset, out: Path, *, seed: int = 0, every: int = 1, on_image: OnImage = lambda *_: None
) -> Path:
    """Write KIND.npy for every kind, labels.npy, a record and a gallery; a stopped command resumes at its next kind.

    The layout is that of CIFAR-10-C. The noise of an image depends only on the seed, the kind, the severity and the
    number of the image.
    """
    if every < 1 or seed < 0:
        raise ValueError(f"every = {every}, seed = {seed}, expected whole numbers, every >= 1 and seed >= 0")
    images = dataset.part("test")
    chosen = range(0, len(images), every)
    disk.make_folder(out)
    with disk.locked(out):
        _claim(out, _record(dataset, images, seed, every))
        labels = np.tile(images.labels[list(chosen)].numpy(), len(SEVERITIES))
        _write_array(out / "labels.npy", labels)
        for number, kind in enumerate(CORRUPTIONS):
            if not (out / f"{kind}.npy").is_file():
                _write_array(out / f"{kind}.npy", _corrupt_images(images, chosen, kind, seed))
            on_image((number + 1) * len(labels), len(CORRUPTIONS) * len(labels))
        _write_gallery(out, images, chosen)
    return out


def _record(dataset: Dataset, images: Images, seed: int, every: int) -> dict[str, Any]:
    fields = {setting.name: getattr(dataset, setting.name) for setting in settings_of(type(dataset))}
    stated = {key: value for key, value in fields.items() if value is not None and key != "path"}
    return {
        "made_by": "radii corrupt: radii's own corruptions, not a published set",
        "of": {"name": dataset.name, **stated},
        "data": images.digest,
        "seed": seed,
        "every": every,
        "kinds": list(CORRUPTIONS),
        "severities": len(SEVERITIES),
        "shape": list(dataset.shape),
        "class_names": list(dataset.class_names),
        "versions": {name: metadata.version(name) for name in ("radii", "numpy", "scipy", "pillow")},
    }


def _claim(out: Path, record: dict[str, Any]) -> None:
    """Write the record; raise a DataError if the folder holds something else."""
    file = out / RADII_RECORD
    disk.sweep(out, [RADII_RECORD, "labels.npy", GALLERY, *(f"{kind}.npy" for kind in CORRUPTIONS)])
    if file.is_file():
        # Compare as JSON, which turns tuples into lists.
        if _read_record(file) != json.loads(json.dumps(record)):
            raise DataError(f"{out} holds other corrupted images, see {RADII_RECORD}: name another folder or remove it")
    elif any(path.suffix in (".npy", ".png") for path in out.iterdir()):
        raise DataError(f"{out} holds files that radii did not make: name another folder")
    else:
        disk.write_json(file, record)


def _corrupt_images(images: Images, chosen: range, kind: str, seed: int) -> NDArray[np.uint8]:
    """Corrupt images at one severity after the other: [severity * image, height, width, channel]."""
    number = list(CORRUPTIONS).index(kind)

    def corrupted(index: int, severity: int) -> NDArray[np.uint8]:
        rng = np.random.default_rng(entropy("corrupt", seed, number, severity, index))
        return corrupt(_pixels(images, index), kind, severity, rng)

    return np.stack([corrupted(index, severity) for severity in SEVERITIES for index in chosen])


def _pixels(images: Images, index: int) -> NDArray[np.float64]:
    return images.batch(torch.tensor([index]))[0].permute(1, 2, 0).double().numpy()


def _write_array(path: Path, array: NDArray[Any]) -> None:
    content = io.BytesIO()
    np.save(content, array, allow_pickle=False)
    disk.write(path, content.getvalue())


def _write_gallery(out: Path, images: Images, chosen: range) -> None:
    """Draw one image of the set, a row for each kind: the clean image, then its five severities."""
    position, count = len(chosen) // 2, len(chosen)
    clean = np.rint(255 * _pixels(images, chosen[position])).astype(np.uint8)
    columns = 1 + len(SEVERITIES)
    sheet = Image.new("RGB", (NAME + columns * (TILE + GAP), len(CORRUPTIONS) * (TILE + GAP)), "white")
    draw = ImageDraw.Draw(sheet)
    for row, kind in enumerate(CORRUPTIONS):
        stored = np.load(out / f"{kind}.npy", mmap_mode="r")
        draw.text((GAP, row * (TILE + GAP) + TILE // 2 - 6), kind, fill="black")
        corrupted = (stored[position + count * number] for number in range(len(SEVERITIES)))
        for column, pixels in enumerate([clean, *corrupted]):
            sheet.paste(_tile(pixels), (NAME + column * (TILE + GAP), row * (TILE + GAP)))
    content = io.BytesIO()
    sheet.save(content, "PNG")
    disk.write(out / GALLERY, content.getvalue())


def _tile(pixels: NDArray[np.uint8]) -> Image.Image:
    image = Image.fromarray(np.ascontiguousarray(pixels.squeeze(2) if pixels.shape[2] == 1 else pixels))
    return image.convert("RGB").resize((TILE, TILE), Image.Resampling.NEAREST)
