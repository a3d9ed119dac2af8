"""DnCNN (Zhang et al. 2017): a plain stack of 3x3 convolutions that predicts the noise and subtracts it."""

from typing import Annotated

from torch import Tensor, nn

from radii.models._blocks import conv
from radii.models.base import Count, Shape


def dncnn(shape: Shape, depth: Annotated[int, {"ge": 2}] = 17, width: Count = 64) -> nn.Module:
    """DnCNN of `depth` convolutions of `width` channels, all but the outer two with BatchNorm; for any image size."""
    network = _DnCnn(shape[0], depth, width)
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
    return network


class _DnCnn(nn.Module):
    def __init__(self, channels: int, depth: int, width: int) -> None:
        super().__init__()
        first: list[nn.Module] = [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU(inplace=True)]
        inner = [layer for _ in range(depth - 2) for layer in _normalised(width)]
        self.noise = nn.Sequential(*first, *inner, nn.Conv2d(width, channels, 3, padding=1))

    def forward(self, images: Tensor) -> Tensor:
        clean: Tensor = images - self.noise(images)
        return clean


def _normalised(width: int) -> list[nn.Module]:
    return [conv(width, width, 3), nn.BatchNorm2d(width), nn.ReLU(inplace=True)]
