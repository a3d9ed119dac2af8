"""Residual networks for ImageNet (He et al. 2016), layer for layer torchvision's: 3x3 convolutions have the stride."""

from torch import nn

from radii.models._blocks import BasicBlock, Block, Bottleneck, Stage, conv, fan_out_initialised, residual_network
from radii.models.base import Shape


def resnet18(shape: Shape = (3, 224, 224), classes: int = 1000) -> nn.Module:
    """The ImageNet ResNet of 18 layers, for images of any size."""
    return _resnet(shape, classes, BasicBlock, [(2, 64, 1), (2, 128, 2), (2, 256, 2), (2, 512, 2)])


def resnet50(shape: Shape = (3, 224, 224), classes: int = 1000) -> nn.Module:
    """The ImageNet ResNet of 50 layers, for images of any size."""
    return _resnet(shape, classes, Bottleneck, [(3, 256, 1), (4, 512, 2), (6, 1024, 2), (3, 2048, 2)])


def _resnet(shape: Shape, classes: int, block: Block, stages: list[Stage]) -> nn.Module:
    stem, pool = conv(shape[0], 64, 7, stride=2), nn.MaxPool2d(3, stride=2, padding=1)
    return fan_out_initialised(residual_network(stem, block, stages, classes, pool=pool))
