"""ResNeXt for small pictures (Xie et al. 2017): residual bottlenecks whose 3x3 convolutions work in groups."""

from functools import partial

from torch import nn

from radii.models._blocks import Bottleneck, conv, residual_network
from radii.models.base import Shape


def resnext29_2x64d(shape: Shape = (3, 32, 32), classes: int = 10) -> nn.Module:
    """The ResNeXt of 29 layers with two groups of 64 channels, for images of any size."""
    block = partial(Bottleneck, narrowing=2, groups=2)
    stages = [(3, 256, 1), (3, 512, 2), (3, 1024, 2)]
    return residual_network(conv(shape[0], 64, 1), block, stages, classes)
