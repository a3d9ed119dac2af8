"""Random crop and flip, against the same done image by image."""

import pytest
import torch
from torch.nn import functional as F

from radii.datasets._images import PADDING, crop_and_flip
from radii.datasets.base import InMemory


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
def test_each_image_is_a_crop_of_its_padded_image(dtype: torch.dtype) -> None:
    images = (torch.rand(64, 3, 10, 7, generator=torch.Generator().manual_seed(0)) * 200).to(dtype)
    result = crop_and_flip(images, torch.Generator().manual_seed(3))
    rng = torch.Generator().manual_seed(3)
    top, left = torch.randint(0, 2 * PADDING + 1, (2, 64), generator=rng).tolist()
    flip = torch.rand(64, generator=rng) < 0.5
    for i, padded in enumerate(F.pad(images, (PADDING,) * 4)):
        window = padded[:, top[i] : top[i] + 10, left[i] : left[i] + 7]
        assert torch.equal(result[i], window.flip(2) if flip[i] else window)
    assert result.dtype == dtype
    assert result.is_contiguous()


def test_every_position_and_both_flips_occur() -> None:
    marked = torch.zeros(4000, 1, 9, 9)
    marked[:, 0, 4, 4] = 1
    marked[:, 0, 4, 3] = 2
    result = crop_and_flip(marked, torch.Generator().manual_seed(0))
    mean_mark = (result == 1).float().mean(0)
    assert (mean_mark > 0).all()
    assert mean_mark.max() < 2.5 / 81
    # The second mark lies to the left of the first, or to the right where the image is flipped.
    columns = [(result == mark).flatten(1).int().argmax(1) % 9 for mark in (1, 2)]
    both = (result == 2).flatten(1).any(1)
    flipped = (columns[1] > columns[0])[both].float().mean()
    assert 0.45 < flipped < 0.55


def test_bytes_and_floats_give_the_same_pixels() -> None:
    as_bytes = torch.arange(256, dtype=torch.uint8).view(16, 1, 4, 4)
    labels, indices = torch.zeros(16, dtype=torch.int64), torch.tensor([5, 2, 2])
    results = [
        InMemory(images, labels, augmented=True).batch(indices, torch.Generator().manual_seed(1))
        for images in (as_bytes, as_bytes.float().div(255))
    ]
    assert torch.equal(*results)


def test_batch_does_not_change_the_images() -> None:
    images = torch.rand(4, 1, 4, 4)
    before = images.clone()
    InMemory(images, torch.zeros(4, dtype=torch.int64)).batch(torch.arange(4)).zero_()
    assert torch.equal(images, before)
