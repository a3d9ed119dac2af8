"""Image files: grey pictures are refused by a model of colours, unless that is stated."""

from pathlib import Path

import pytest
import torch
from PIL import Image

from radii import datasets


def test_grey_pictures_are_refused_unless_stated(tmp_path: Path) -> None:
    file = tmp_path / "grey.png"
    Image.new("L", (32, 32), 128).save(file)
    with pytest.raises(ValueError, match=r"grey.png is grey, the model was trained on colours"):
        datasets.preparation("cifar10", {}, (3, 32, 32)).read(file)
    pixels = datasets.preparation("cifar10", {}, (3, 32, 32), grey=True).read(file)
    assert torch.equal(pixels, torch.full((3, 32, 32), 128 / 255))
    assert datasets.preparation("mnist", {}, (1, 32, 32)).read(file).shape == (1, 32, 32)
