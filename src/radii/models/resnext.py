"""ResNeXt for small images (Xie et al. 2017): residual bottlenecks whose 3x3 convolutions work in groups."""

from functools import partial

from torch import nn

from radii.models._blocks import Bottleneck, conv, residual_network
from radii.models.base import Count, Shape


def resnext29_2x64d(shape: Shape = (3, 32, 32), classes: int = 10, width: Count = 64) -> nn.Module:
    """The ResNeXt of 29 layers with two groups of `width` channels, for images of any size."""
    block = partial(Bottleneck, narrowing=2, groups=2)
    stages = [(3, 4 * width, 1), (3, 8 * width, 2), (3, 16 * width, 2)]
    return residual_network(conv(shape[0], width, 1), block, stages, classes)
