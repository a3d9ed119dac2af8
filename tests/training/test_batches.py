"""Batches: the same pixels for any depth, device and first step; errors of decoders; the threads that are left."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from radii import datasets
from radii.datasets import DataError, Images
from radii.datasets.base import InMemory, Subset
from radii.runs.recipe import Training
from radii.training.batches import LocalBatch, batches, prefetch, put_on_device
from radii.training.ddp import ALONE

ROOT = Path(__file__).parents[2]
TRAINING = Training(epochs=1, images_per_step=7, learning_rate=0.1)
ON_DEVICE = """
from tools.pretended.device import GPU, counted, pretending
import itertools
from dataclasses import replace
import torch
from radii.training.batches import batches, prefetch, put_on_device
from radii.training.ddp import ALONE
from radii.training import batches as module
from tests.training.test_batches import TRAINING, images_in_memory

module.runs_ahead = lambda device: device.type == GPU.type
for images, training in itertools.product(images_in_memory(), (TRAINING, replace(TRAINING, stream="philox"))):
    steps = lambda kept: batches(kept, training, seed=3, epoch=1, first=0, world=ALONE)
    expected = list(prefetch(steps(images), images))
    with pretending():
        kept = put_on_device(images, GPU)
        assert kept is not images
        ready, counts = counted(lambda: list(prefetch(steps(kept), kept, GPU)))
        for one, other in zip(ready, expected, strict=True):
            assert one.batch.images.device == GPU
            assert all(torch.equal(a.raw, b) for a, b in zip(one.batch, other.batch, strict=True))
        loaded = [local.batch.images for local in steps(kept)]
        assert all(tensor.dtype == torch.int64 and tensor.numel() <= 4 * 7 for tensor in loaded)
        assert counts.to_device.total() == 3 * len(ready), counts.to_device
        assert counts.waits.total() == counts.to_host.total() == 0
"""


def images_in_memory() -> list[Images]:
    """Return images in memory of each kind: augmented with and without flips, as they are, and a part of a split."""
    pixels = torch.randint(256, (30, 3, 9, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    labels = torch.arange(30) % 3
    whole = InMemory(pixels, labels, augmented=True)
    others = InMemory(pixels, labels, augmented=True, flips=False), InMemory(pixels, labels)
    return [whole, *others, Subset(whole, torch.arange(4, 29))]


def epoch(images: Images, first: int = 0) -> Iterator[LocalBatch]:
    return batches(images, TRAINING, seed=3, epoch=1, first=first, world=ALONE)


def photographs(root: Path) -> Images:
    rng = np.random.default_rng(0)
    for number in range(20):
        folder = root / "train" / "ab"[number % 2]
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 256, (40, 50, 3), np.uint8)).save(folder / f"{number}.png")
    return datasets.create("folder", root, size=16).split("train")


def expect_equal(actual: list[LocalBatch], expected: list[LocalBatch]) -> None:
    for local, reference in zip(actual, expected, strict=True):
        assert local.weight == reference.weight
        assert all(torch.equal(a, b) for a, b in zip(local.batch, reference.batch, strict=True))


@pytest.mark.parametrize("ahead", [1, 2, 9])
def test_batches_do_not_depend_on_the_depth_or_the_first_step(ahead: int, tmp_path: Path) -> None:
    for images in (*images_in_memory(), photographs(tmp_path)):
        whole = list(prefetch(epoch(images), images))
        expect_equal(list(prefetch(epoch(images), images, ahead=ahead)), whole)
        expect_equal(list(prefetch(epoch(images, first=2), images, ahead=ahead)), whole[2:])
        assert whole[0].batch.images.dtype == torch.float32


def test_on_a_device_only_numbers_are_copied_in_a_step() -> None:
    done = subprocess.run([sys.executable, "-c", ON_DEVICE], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]


def test_a_set_that_is_too_large_stays_in_the_hosts_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    images = images_in_memory()[0]
    monkeypatch.setattr("radii.training.batches.free_memory", lambda _: 4 * 30 * 3 * 9 * 8 - 1)
    assert put_on_device(images, torch.device("meta")) is images
    monkeypatch.setattr("radii.training.batches.free_memory", lambda _: 4 * 30 * 3 * 9 * 8)
    assert put_on_device(images, torch.device("meta")) is not images
    assert put_on_device(images, torch.device("cpu")) is images


def test_an_unreadable_photograph_is_named(tmp_path: Path) -> None:
    images = photographs(tmp_path)
    (tmp_path / "train" / "a" / "4.png").write_bytes(b"no picture")
    with pytest.raises(DataError, match=r"4\.png is not a readable photograph"):
        list(prefetch(epoch(images), images))


def test_an_interrupt_leaves_no_thread_that_loads() -> None:
    images = images_in_memory()[0]
    before = threading.active_count()

    def interrupted() -> None:
        for _ in prefetch(epoch(images), images):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert threading.active_count() == before
