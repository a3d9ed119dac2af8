"""Corrupted copies of a dataset's test images: radii's own set, in the layout of CIFAR-10-C, with a gallery."""

import io
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from radii import disk
from radii.datasets import CORRUPTED_RECORD, CORRUPTIONS, Dataset, Images, corrupt
from radii.disk import locked
from radii.published_datasets import SEVERITIES
from radii.runs import readers
from radii.runs.run import RunError
from radii.smoothing.addresses import entropy
from radii.training.components import dataset_fields

GALLERY = "gallery.png"
TILE, NAME, GAP = 64, 130, 4
"""Pixels of a tile, of the names beside them and between them."""
OnImage = Callable[[int, int], None]


def corrupt_dataset(
    dataset: Dataset, out: Path, *, seed: int = 0, every: int = 1, on_image: OnImage = lambda *_: None
) -> Path:
    """Write KIND.npy for every kind, labels.npy, a record and a gallery; a stopped command continues with its kinds.

    The noise of an image depends on the seed, the kind, the severity and its number alone.
    """
    if every < 1 or seed < 0:
        raise ValueError(f"every = {every}, seed = {seed}, expected whole numbers, every >= 1 and seed >= 0")
    images = dataset.part("test")
    chosen = range(0, len(images), every)
    disk.make_folder(out)
    with locked(out):
        _claim(out, _record(dataset, images, seed, every))
        labels = np.tile(images.labels[list(chosen)].numpy(), len(SEVERITIES))
        _write_array(out / "labels.npy", labels)
        for number, kind in enumerate(CORRUPTIONS):
            if not (out / f"{kind}.npy").is_file():
                _write_array(out / f"{kind}.npy", _corrupted(images, chosen, kind, seed))
            on_image((number + 1) * len(labels), len(CORRUPTIONS) * len(labels))
        _write_gallery(out, images, chosen)
    return out


def _record(dataset: Dataset, images: Images, seed: int, every: int) -> dict[str, Any]:
    fields = {key: value for key, value in dataset_fields(dataset).items() if key != "path"}
    return {
        "made_by": "radii corrupt: radii's own corruptions, not a published set",
        "of": {"name": dataset.name, **fields},
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
    """Begin a folder, or refuse one of something else."""
    beside = out / CORRUPTED_RECORD
    disk.sweep(out, [CORRUPTED_RECORD, "labels.npy", GALLERY, *(f"{kind}.npy" for kind in CORRUPTIONS)])
    if beside.is_file():
        if readers.json_object(beside) != record:
            raise RunError(
                f"{out} holds other corrupted images, see {CORRUPTED_RECORD}: name another folder, or remove it"
            )
    elif any(path.suffix in (".npy", ".png") for path in out.iterdir()):
        raise RunError(f"{out} holds files that radii did not make: name another folder")
    else:
        disk.write_json(beside, record)


def _corrupted(images: Images, chosen: range, kind: str, seed: int) -> NDArray[np.uint8]:
    """The images of a kind, one severity after the other: [severity * image, height, width, channel]."""
    return np.stack([_one(images, index, kind, severity, seed) for severity in SEVERITIES for index in chosen])


def _one(images: Images, index: int, kind: str, severity: int, seed: int) -> NDArray[np.uint8]:
    rng = np.random.default_rng(entropy("corrupt", seed, list(CORRUPTIONS).index(kind), severity, index))
    return corrupt(_pixels(images, index), kind, severity, rng)


def _pixels(images: Images, index: int) -> NDArray[np.float64]:
    return images.batch(torch.tensor([index]))[0].permute(1, 2, 0).double().numpy()


def _write_array(path: Path, array: NDArray[Any]) -> None:
    content = io.BytesIO()
    np.save(content, array, allow_pickle=False)
    disk.write(path, content.getvalue())


def _write_gallery(out: Path, images: Images, chosen: range) -> None:
    """One image of the set, a row for each kind: as it is, then its five severities."""
    index, block = chosen[len(chosen) // 2], len(chosen)
    clean = np.rint(255 * _pixels(images, index)).astype(np.uint8)
    sheet = Image.new("RGB", (NAME + 6 * (TILE + GAP), len(CORRUPTIONS) * (TILE + GAP)), "white")
    draw = ImageDraw.Draw(sheet)
    for row, kind in enumerate(CORRUPTIONS):
        stored = np.load(out / f"{kind}.npy", mmap_mode="r")
        draw.text((GAP, row * (TILE + GAP) + TILE // 2 - 6), kind, fill="black")
        for column, pixels in enumerate([clean, *(stored[len(chosen) // 2 + block * each] for each in range(5))]):
            sheet.paste(_tile(pixels), (NAME + column * (TILE + GAP), row * (TILE + GAP)))
    content = io.BytesIO()
    sheet.save(content, "PNG")
    disk.write(out / GALLERY, content.getvalue())


def _tile(pixels: NDArray[np.uint8]) -> Image.Image:
    picture = Image.fromarray(np.ascontiguousarray(pixels.squeeze(2) if pixels.shape[2] == 1 else pixels))
    return picture.convert("RGB").resize((TILE, TILE), Image.Resampling.NEAREST)
