import pytest
import torch
from torch import Tensor, nn

from radii.engines import SmoothedClassifier


class Pixel(nn.Module):
    """Two classes of images of one pixel: above one half, and not."""

    def forward(self, images: Tensor) -> Tensor:
        above = images.flatten(1)[:, :1] - 0.5
        return torch.cat([above, -above], 1)


@pytest.fixture
def pixel() -> SmoothedClassifier:
    """A small real smoothed classifier: its exact radius for a pixel above one half is the pixel minus one half."""
    return SmoothedClassifier(Pixel(), sigma=0.25, classes=2)
