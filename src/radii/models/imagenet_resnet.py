"""Residual networks for ImageNet (He et al. 2016), with torchvision's layers: the 3x3 convolutions have the stride."""

from collections.abc import Sequence

from torch import nn

from radii.models._blocks import BasicBlock, Block, Bottleneck, Stage, conv, fan_out_initialised, residual_network
from radii.models.base import Count, Shape


def resnet18(shape: Shape = (3, 224, 224), classes: int = 1000, width: Count = 64) -> nn.Module:
    """The ImageNet ResNet of 18 layers, for images of any size."""
    return _resnet(shape, classes, width, BasicBlock, (2, 2, 2, 2))


def resnet50(shape: Shape = (3, 224, 224), classes: int = 1000, width: Count = 64) -> nn.Module:
    """The ImageNet ResNet of 50 layers, for images of any size."""
    return _resnet(shape, classes, width, Bottleneck, (3, 4, 6, 3), widening=4)


def _resnet(
    shape: Shape, classes: int, width: int, block: Block, depths: Sequence[int], widening: int = 1
) -> nn.Module:
    """Make a ResNet whose first layer has `width` channels; a stage has twice the channels of the one before."""
    stem, pool = conv(shape[0], width, 7, stride=2), nn.MaxPool2d(3, stride=2, padding=1)
    stages: list[Stage] = [
        (depth, widening * width * 2**number, 2 if number else 1) for number, depth in enumerate(depths)
    ]
    return fan_out_initialised(residual_network(stem, block, stages, classes, pool=pool))
