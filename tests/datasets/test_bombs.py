"""Files that unpack to far more than their size, or that crash their reader, are refused with little memory."""

import gzip
import io
import re
import struct
import tarfile
import tracemalloc
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io
import torch
from PIL import Image

from radii import datasets
from radii.datasets import DataError, svhn
from radii.datasets._files import ALWAYS, md5_of
from radii.datasets.cifar10 import read_members
from radii.datasets.mnist import read_idx
from radii.datasets.svhn import read_mat

GIGABYTE = 1 << 30
ZEROS = bytes(1 << 20)


def refused(read: Callable[[], object], path: Path) -> str:
    """The error message of a refusal that used no more memory than allowed."""
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=re.escape(str(path))) as caught:
            read()
        assert tracemalloc.get_traced_memory()[1] < 3 * ALWAYS
    finally:
        tracemalloc.stop()
    return str(caught.value)


def bomb(path: Path, size: int = GIGABYTE) -> Path:
    """A gzipped file of zeros: members of a megabyte, one after the other."""
    path.write_bytes(gzip.compress(ZEROS) * (size >> 20))
    return path


@pytest.mark.slow
def test_a_gzip_bomb_is_refused(tmp_path: Path) -> None:
    path = bomb(tmp_path / "images.gz")
    assert "far more than its size warrants" in refused(lambda: read_idx(path), path)


@pytest.mark.slow
def test_a_tar_bomb_is_refused(tmp_path: Path) -> None:
    header = tarfile.TarInfo("cifar/test_batch.bin")
    header.size = GIGABYTE
    path = tmp_path / "cifar.tar.gz"
    path.write_bytes(gzip.compress(header.tobuf()) + gzip.compress(ZEROS) * (GIGABYTE >> 20))
    refused(lambda: read_members(path, ["cifar/test_batch.bin"], 3074), path)


def npy_header(shape: tuple[int, ...], kind: str = "<f4") -> bytes:
    content = io.BytesIO()
    np.lib.format.write_array_header_1_0(content, {"shape": shape, "fortran_order": False, "descr": kind})
    return content.getvalue()


@pytest.mark.slow
def test_an_npz_bomb_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "arrays.npz"
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("images.npy", "w", force_zip64=True) as file,
    ):
        file.write(npy_header((1 << 27,), "|u1"))
        for _ in range(1 << 7):
            file.write(ZEROS)
    assert "far more than its size warrants" in refused(lambda: datasets.create("arrays", path), path)


@pytest.mark.parametrize(
    ("shape", "kind"),
    [((1 << 60,), "<f4"), ((1 << 40, 10), "<f4"), ((3, 10), "|O"), ((1,) * 60, "<f4"), ((2, 2), "<c8"), ((9,), "<f4")],
)
def test_an_array_of_another_size_or_kind_than_stated_is_refused(
    shape: tuple[int, ...], kind: str, tmp_path: Path
) -> None:
    path = tmp_path / "labels.npy"
    path.write_bytes(npy_header(shape, kind) + bytes(32))
    assert "not a whole .npy file of plain numbers" in refused(lambda: datasets.read_npy(path), path)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize(
    "content", [np.arange(24.0).reshape(2, 3, 4), np.arange(3, dtype=np.uint8), np.array(["a", "bc"])]
)
def test_arrays_are_read_as_numpy_reads_them(content: Any, order: Any, tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.asarray(content, order=order), allow_pickle=False)
    array = datasets.read_npy(tmp_path / "a.npy")
    assert array.dtype == content.dtype
    np.testing.assert_array_equal(array, content)


def png(width: int, height: int) -> bytes:
    """A PNG of one colour: its header states its size, its pixels are compressed a thousandfold."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + chunk(b"IDAT", zlib.compress(bytes(1 << 20)))
        + chunk(b"IEND", b"")
    )


@pytest.mark.parametrize("size", [(60_000, 60_000), (12_000, 12_000), (9_000, 9_000)])
def test_image_bomb_is_refused(size: tuple[int, int], tmp_path: Path) -> None:
    path = tmp_path / "picture.png"
    path.write_bytes(png(*size))
    refused(lambda: datasets.read_image(path, (1, 8, 8)), path)
    for place in ("train", "val"):
        (tmp_path / place / "cat").mkdir(parents=True)
        (tmp_path / place / "cat" / "1.png").write_bytes(png(*size))
    split = datasets.create("folder", tmp_path, size=8).split("test")
    refused(lambda: split.batch(torch.tensor([0])), tmp_path)


@pytest.mark.parametrize("channels", [1, 3])
def test_images_of_16_bits_are_scaled(channels: int, tmp_path: Path) -> None:
    grey = np.linspace(0, 65_535, 64).astype(np.uint16).reshape(8, 8)
    Image.fromarray(grey).save(tmp_path / "picture.png")
    pixels = datasets.read_image(tmp_path / "picture.png", (channels, 8, 8), grey=True)
    for channel in pixels:
        np.testing.assert_allclose(channel.numpy(), grey / 65_535, atol=1e-7)


def test_photographs_of_16_bits_are_scaled(tmp_path: Path) -> None:
    for place in ("train", "val"):
        (tmp_path / place / "cat").mkdir(parents=True)
        Image.fromarray(np.full((8, 8), 30_000, np.uint16)).save(tmp_path / place / "cat" / "1.png")
    split = datasets.create("folder", tmp_path, size=8, resize=8).split("test")
    assert float(split.batch(torch.tensor([0])).mean()) == pytest.approx(30_000 / 65_535, abs=1 / 255)


def test_images_of_32_bits_and_of_rare_formats_are_refused(tmp_path: Path) -> None:
    Image.fromarray(np.zeros((8, 8), np.float32)).save(tmp_path / "a.tiff")
    assert "the kind F, expected 8 or 16 bits" in refused(
        lambda: datasets.read_image(tmp_path / "a.tiff", (1, 8, 8)), tmp_path
    )
    Image.new("RGB", (8, 8)).save(tmp_path / "a.eps")
    refused(lambda: datasets.read_image(tmp_path / "a.eps", (3, 8, 8)), tmp_path)


def test_truncated_image_is_refused(tmp_path: Path) -> None:
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (8, 8, 3), np.uint8)).save(tmp_path / "whole.png")
    path = tmp_path / "picture.png"
    path.write_bytes((tmp_path / "whole.png").read_bytes()[:100])
    refused(lambda: datasets.read_image(path, (3, 8, 8)), path)


def mat(path: Path) -> Path:
    pixels = np.random.default_rng(0).integers(0, 256, (32, 32, 3, 2), np.uint8)
    scipy.io.savemat(path, {"X": pixels, "y": np.ones((2, 1), np.uint8)})
    return path


def test_mat_file_that_crashes_its_reader_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = mat(tmp_path / "test_32x32.mat")
    child = tmp_path / "child.py"
    child.write_text("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n")
    monkeypatch.setattr(svhn, "READER", child)
    with pytest.raises(DataError, match="not a whole .mat file \\(the reader crashed\\)"):
        read_mat(path, "another hash")


def test_mat_file_that_takes_too_long_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = mat(tmp_path / "test_32x32.mat")
    child = tmp_path / "child.py"
    child.write_text("import time\ntime.sleep(60)\n")
    monkeypatch.setattr(svhn, "READER", child)
    monkeypatch.setattr(svhn, "READER_SECONDS", 0.5)
    with pytest.raises(DataError, match="takes too long"):
        read_mat(path, "another hash")


def test_publishers_mat_file_is_read_in_this_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = mat(tmp_path / "test_32x32.mat")
    apart = read_mat(path, "another hash")
    monkeypatch.setattr(svhn, "READER", tmp_path / "none.py")
    for here, there in zip(read_mat(path, md5_of(path)), apart, strict=True):
        np.testing.assert_array_equal(here, there)
