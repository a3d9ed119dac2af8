"""RegNetX (Radosavovic et al. 2020): residual blocks without a bottleneck, in groups of equal width."""

from typing import Annotated

from torch import nn

from radii.models._blocks import Block, Bottleneck, conv, fan_out_initialised, residual_network
from radii.models.base import Shape


def regnetx_200mf(
    shape: Shape = (3, 32, 32), classes: int = 10, width: Annotated[float, {"gt": 0, "le": 8}] = 1.0
) -> nn.Module:
    """RegNetX-200MF for CIFAR, with a first layer of 64 channels at full size, for images of any size.

    `width` multiplies all channels, in whole groups of eight.
    """
    stem, *channels = (max(8, round(width * full / 8) * 8) for full in (64, 24, 56, 152, 368))
    stages = list(zip((1, 1, 4, 7), channels, (1, 1, 2, 2), strict=True))
    return residual_network(conv(shape[0], stem, 3), _block(group_width=8), stages, classes)


def regnetx_4gf(shape: Shape = (3, 224, 224), classes: int = 1000) -> nn.Module:
    """RegNetX-4.0GF for ImageNet, for images of any size."""
    stages = [(2, 80, 2), (5, 240, 2), (14, 560, 2), (2, 1360, 2)]
    network = residual_network(conv(shape[0], 32, 3, stride=2), _block(group_width=40), stages, classes)
    for module in network.modules():
        if isinstance(module, Bottleneck):
            nn.init.zeros_(module.bn3.weight)
    return fan_out_initialised(network)


def _block(group_width: int) -> Block:
    def block(inputs: int, outputs: int, stride: int) -> Bottleneck:
        return Bottleneck(inputs, outputs, stride, narrowing=1, groups=outputs // group_width)

    return block
