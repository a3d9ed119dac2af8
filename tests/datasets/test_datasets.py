"""The contract of every dataset, on small files in the publishers' formats, and what damage to those says."""

import gzip
import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import scipy.io
import torch
from numpy.typing import NDArray
from PIL import Image
from sklearn.datasets import load_digits

from radii import datasets
from radii.datasets import DataError, Dataset
from radii.datasets.base import Split
from radii.datasets.cifar10 import Cifar10

COUNTS: dict[Split, int] = {"train": 20, "test": 10}
RNG = np.random.default_rng(0)


def pixels(*shape: int) -> NDArray[np.uint8]:
    return RNG.integers(0, 256, shape, np.uint8)


def write_idx(folder: Path) -> None:
    for prefix, count in {"train": 20, "t10k": 10}.items():
        labels = np.arange(count, dtype=np.uint8) % 10
        for kind, content in (("images-idx3", pixels(count, 28, 28)), ("labels-idx1", labels)):
            header = bytes([0, 0, 8, content.ndim]) + np.array(content.shape, ">u4").tobytes()
            (folder / f"{prefix}-{kind}-ubyte.gz").write_bytes(gzip.compress(header + content.tobytes()))


def write_records(path: Path, *labels: NDArray[np.int64]) -> None:
    path.parent.mkdir(exist_ok=True)
    columns = np.stack(labels, axis=1).astype(np.uint8)
    path.write_bytes(np.concatenate([columns, pixels(len(columns), 3072)], axis=1).tobytes())


def write_cifar10(folder: Path) -> None:
    names = [f"data_batch_{number}" for number in range(1, 6)]
    for name, count in {**dict.fromkeys(names, 4), "test_batch": 10}.items():
        write_records(folder / "cifar-10-batches-bin" / f"{name}.bin", np.arange(count) % 10)


def write_cifar100(folder: Path) -> None:
    for name, count in COUNTS.items():
        fine = np.arange(count) * 5 % 100
        write_records(folder / "cifar-100-binary" / f"{name}.bin", fine // 5, fine)


def write_svhn(folder: Path) -> None:
    for name, count in COUNTS.items():
        content = {"X": pixels(32, 32, 3, count), "y": (np.arange(count) % 10 + 1).astype(np.uint8)[:, None]}
        scipy.io.savemat(folder / f"{name}_32x32.mat", content, do_compression=True)


def write_folder(folder: Path) -> None:
    for place, count in {"train": 10, "val": 5}.items():
        for kind in ("cat", "dog"):
            (folder / place / kind).mkdir(parents=True)
            for number in range(count):
                Image.fromarray(pixels(260, 300, 3)).save(folder / place / kind / f"{number}.png")


def write_arrays(folder: Path) -> None:
    content = {f"{split}_images": pixels(count, 12, 9, 3) for split, count in COUNTS.items()}
    labels = {f"{split}_labels": np.arange(count) % 4 for split, count in COUNTS.items()}
    np.savez(folder / "arrays.npz", allow_pickle=False, **content, **labels)


def write_gtsrb(folder: Path) -> None:
    for split, count in COUNTS.items():
        images, numbers = pixels(count, 32, 32, 3), np.arange(count)
        np.savez(folder / f"{split}.npz", allow_pickle=False, images=images, labels=numbers, track=numbers // 4)


def write_cifar10_c(folder: Path) -> None:
    (folder / "CIFAR-10-C").mkdir()
    np.save(folder / "CIFAR-10-C" / "gaussian_noise.npy", pixels(50, 32, 32, 3))
    np.save(folder / "CIFAR-10-C" / "labels.npy", np.tile(np.arange(10), 5))


def write_mnist_c(folder: Path) -> None:
    (folder / "mnist_c" / "identity").mkdir(parents=True)
    for split, count in COUNTS.items():
        np.save(folder / "mnist_c" / "identity" / f"{split}_images.npy", pixels(count, 28, 28, 1))
        np.save(folder / "mnist_c" / "identity" / f"{split}_labels.npy", np.arange(count) % 10)


def write_corrupted(folder: Path) -> None:
    np.save(folder / "gaussian_noise.npy", pixels(50, 8, 9, 3))
    np.save(folder / "labels.npy", np.tile(np.arange(10) % 3, 5))
    record = {"shape": [3, 8, 9], "class_names": ["a", "b", "c"]}
    (folder / "radii-corrupted.json").write_text(json.dumps(record))


TEST_ONLY = ("cifar10_c", "corrupted")
"""Datasets without a training split."""
WRITERS: dict[str, Callable[[Path], None]] = {
    "arrays": write_arrays,
    "cifar10": write_cifar10,
    "cifar100": write_cifar100,
    "cifar10_c": write_cifar10_c,
    "corrupted": write_corrupted,
    "digits": lambda _: None,
    "fashion_mnist": write_idx,
    "folder": write_folder,
    "gtsrb": write_gtsrb,
    "mnist": write_idx,
    "mnist_c": write_mnist_c,
    "svhn": write_svhn,
}


def test_every_writer_belongs_to_a_dataset() -> None:
    assert set(WRITERS) <= set(datasets.names())


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Cifar10, "counts", COUNTS)
    monkeypatch.delenv("RADII_DATA", raising=False)


@pytest.fixture(params=datasets.names())
def dataset(request: pytest.FixtureRequest, tmp_path: Path) -> Dataset:
    if request.param in WRITERS:
        WRITERS[request.param](tmp_path)
    return datasets.create(request.param, tmp_path)


@pytest.mark.parametrize("split", get_args(Split))
def test_batches_are_pixels_of_the_stated_shape(dataset: Dataset, split: Split) -> None:
    if split == "train" and dataset.name in TEST_ONLY:
        with pytest.raises(DataError, match="has no train split, only test images"):
            dataset.split(split)
        return
    images = dataset.split(split)
    indices = torch.tensor([3, 0, 3])
    batch = images.batch(indices)
    assert len(images) == len(images.labels) >= COUNTS[split]
    assert images.labels.dtype == torch.int64
    assert images.labels.min() >= 0
    assert images.labels.max() < dataset.classes
    assert batch.shape == (3, *dataset.shape)
    assert batch.dtype == torch.float32
    assert batch.is_contiguous()
    assert 0 <= batch.min() < batch.max() <= 1
    assert torch.equal(batch[0], batch[2])
    assert torch.equal(batch[1:2], images.batch(indices[1:2]))
    assert not torch.equal(batch[0], batch[1])


def test_augmentation_depends_only_on_the_generator(dataset: Dataset) -> None:
    images = dataset.split("test" if dataset.name in TEST_ONLY else "train")
    indices = torch.arange(8)

    def batch(seed: int) -> torch.Tensor:
        return images.batch(indices, torch.Generator().manual_seed(seed))

    assert torch.equal(batch(1), batch(1))
    augmented = dataset.name in ("cifar10", "cifar100", "svhn", "folder", "gtsrb")
    assert torch.equal(batch(1), images.batch(indices)) != augmented
    assert torch.equal(batch(1), batch(2)) != augmented


def test_a_test_split_is_never_augmented(dataset: Dataset) -> None:
    images = dataset.split("test")
    indices = torch.arange(8)
    assert torch.equal(images.batch(indices, torch.Generator().manual_seed(1)), images.batch(indices))


@pytest.mark.parametrize("name", ["mnist", "cifar10", "svhn"])
def test_files_may_be_in_a_folder_with_the_name_of_the_dataset(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / name).mkdir()
    WRITERS[name](tmp_path / name)
    monkeypatch.setenv("RADII_DATA", str(tmp_path))
    assert len(datasets.create(name).split("test")) == 10


def test_labels_equal_the_publishers(tmp_path: Path) -> None:
    for name in ("cifar100", "svhn"):
        WRITERS[name](tmp_path)
    assert datasets.create("cifar100", tmp_path).split("train").labels.tolist() == list(range(0, 100, 5))
    assert datasets.create("svhn", tmp_path).split("test").labels.tolist() == [1, 2, 3, 4, 5, 6, 7, 8, 9, 0]


def test_pixels_equal_the_publishers(tmp_path: Path) -> None:
    for name in ("mnist", "cifar10", "svhn"):
        WRITERS[name](tmp_path)
    idx = gzip.decompress((tmp_path / "t10k-images-idx3-ubyte.gz").read_bytes())
    cifar = (tmp_path / "cifar-10-batches-bin" / "test_batch.bin").read_bytes()
    svhn = scipy.io.loadmat(tmp_path / "test_32x32.mat")["X"][..., 9].transpose(2, 0, 1)
    for name, content in {"mnist": idx[-784:], "cifar10": cifar[-3072:], "svhn": svhn.tobytes()}.items():
        last = datasets.create(name, tmp_path).split("test").batch(torch.tensor([9]))
        assert last.mul(255).round().byte().numpy().tobytes() == content


def packed(folder: Path) -> bytes:
    """CIFAR-10's folder as the published archive."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as tar:
        tar.add(folder / "cifar-10-batches-bin", "cifar-10-batches-bin")
    return content.getvalue()


def test_archive_gives_the_same_images_as_its_folder(tmp_path: Path) -> None:
    write_cifar10(tmp_path)
    (tmp_path / "packed").mkdir()
    (tmp_path / "packed" / "cifar-10-binary.tar.gz").write_bytes(packed(tmp_path))
    for split in get_args(Split):
        unpacked, archived = (datasets.create("cifar10", tmp_path / at).split(split) for at in (".", "packed"))
        everything = torch.arange(COUNTS[split])
        assert torch.equal(unpacked.batch(everything), archived.batch(everything))
        assert torch.equal(unpacked.labels, archived.labels)
    assert [path.name for path in (tmp_path / "packed").iterdir()] == ["cifar-10-binary.tar.gz"]


def half(content: bytes) -> bytes:
    return content[: len(content) // 2]


def flipped_bit(content: bytes) -> bytes:
    return content[:-6] + bytes([content[-6] ^ 1]) + content[-5:]


def relabelled(content: bytes) -> bytes:
    return b"\xc8" * 2 + content[2:]


def regzipped(change: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
    return lambda content: gzip.compress(change(gzip.decompress(content)))


@pytest.mark.parametrize(
    ("name", "file", "damage", "sentence"),
    [
        ("mnist", "t10k-images-idx3-ubyte.gz", half, "truncated or corrupt"),
        ("mnist", "t10k-images-idx3-ubyte.gz", flipped_bit, "truncated or corrupt"),
        ("mnist", "t10k-images-idx3-ubyte.gz", gzip.decompress, "truncated or corrupt"),
        ("mnist", "t10k-images-idx3-ubyte.gz", lambda _: b"", "not a whole idx file"),
        ("mnist", "t10k-images-idx3-ubyte.gz", regzipped(half), "not a whole idx file"),
        ("mnist", "t10k-images-idx3-ubyte.gz", regzipped(lambda c: c[:9]), "not a whole idx file"),
        ("mnist", "t10k-images-idx3-ubyte.gz", regzipped(lambda c: b"\1" + c[1:]), "not a whole idx file"),
        ("mnist", "t10k-images-idx3-ubyte.gz", regzipped(lambda c: c[:11] + b"\x0e" + c[12:-3920]), "28, 28"),
        ("mnist", "t10k-labels-idx1-ubyte.gz", regzipped(lambda c: c[:7] + b"\x09" + c[8:-1]), "10 images and 9"),
        ("mnist", "t10k-labels-idx1-ubyte.gz", regzipped(lambda c: c[:-1] + b"\x0a"), "expected 0 to 9"),
        ("cifar10", "cifar-10-batches-bin/test_batch.bin", half, "has 15365 bytes, expected 30730"),
        ("cifar10", "cifar-10-batches-bin/test_batch.bin", lambda _: b"", "has 0 bytes, expected 30730"),
        ("cifar10", "cifar-10-batches-bin/test_batch.bin", relabelled, "labels from 1 to 200, expected 0 to 9"),
        ("cifar100", "cifar-100-binary/test.bin", relabelled, "expected 0 to 99"),
        ("svhn", "test_32x32.mat", half, "not a whole .mat file"),
        ("svhn", "test_32x32.mat", lambda _: b"no matrices here", "not a whole .mat file"),
        ("arrays", "arrays.npz", half, "not a whole .npz file"),
        ("cifar10_c", "CIFAR-10-C/gaussian_noise.npy", half, "not a whole .npy file"),
        ("cifar10_c", "CIFAR-10-C/labels.npy", half, "not a whole .npy file"),
        ("corrupted", "radii-corrupted.json", half, "does not state shape and class_names"),
        (
            "corrupted",
            "radii-corrupted.json",
            lambda _: b'{"shape": [3, 9, 8], "class_names": "abc"}',
            "expected uint8",
        ),
        ("mnist_c", "mnist_c/identity/test_images.npy", half, "not a whole .npy file"),
        ("folder", "val/dog/4.png", half, "4.png is not a readable photograph"),
    ],
)
def test_damaged_file_is_an_error(
    name: str, file: str, damage: Callable[[bytes], bytes], sentence: str, tmp_path: Path
) -> None:
    WRITERS[name](tmp_path)
    path = tmp_path / file
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(DataError, match=sentence):
        datasets.create(name, tmp_path).split("test").batch(torch.arange(10))


@pytest.mark.parametrize("damage", [half, flipped_bit, lambda _: b"no archive"])
def test_damaged_archive_is_an_error(damage: Callable[[bytes], bytes], tmp_path: Path) -> None:
    write_cifar10(tmp_path)
    (tmp_path / "cifar10").mkdir()
    content = packed(tmp_path)
    for file in (tmp_path / "cifar-10-batches-bin").iterdir():
        file.unlink()
    (tmp_path / "cifar10" / "cifar-10-binary.tar.gz").write_bytes(damage(content))
    with pytest.raises(DataError, match=r"cifar-10-binary.tar.gz is truncated or corrupt"):
        datasets.create("cifar10", tmp_path).split("test")


def test_archive_of_other_files_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "cifar-10-batches-bin").mkdir()
    (tmp_path / "cifar-10-binary.tar.gz").write_bytes(packed(tmp_path))
    with pytest.raises(DataError, match=r"does not hold cifar-10-batches-bin/test_batch.bin"):
        datasets.create("cifar10", tmp_path).split("test")


def test_digits_are_those_of_scikit_learn() -> None:
    embedded = load_digits()
    data = datasets.create("digits")
    for part, chosen in (("train", range(1, 4)), ("test", range(1))):
        numbers = [number for number in range(1797) if number % 4 in chosen]
        images = data.split(part)  # type: ignore[arg-type]
        assert images.labels.tolist() == embedded.target[numbers].tolist()
        assert torch.equal(
            images.batch(torch.arange(len(numbers)))[:, 0] * 16, torch.tensor(embedded.images[numbers]).float()
        )
