"""Residual networks for small images (He et al. 2016), with 1x1 convolutions where a shortcut changes shape."""

from torch import nn

from radii.models._blocks import BasicBlock, conv, fan_out_initialised, residual_network
from radii.models.base import Count, Shape


def cifar_resnet20(shape: Shape = (3, 32, 32), classes: int = 10, width: Count = 16) -> nn.Module:
    """The CIFAR ResNet of 20 layers, for images of any size."""
    return _cifar_resnet(shape, classes, width, depth=20)


def cifar_resnet110(shape: Shape = (3, 32, 32), classes: int = 10, width: Count = 16) -> nn.Module:
    """The CIFAR ResNet of 110 layers, for images of any size."""
    return _cifar_resnet(shape, classes, width, depth=110)


def _cifar_resnet(shape: Shape, classes: int, width: int, depth: int) -> nn.Module:
    blocks = (depth - 2) // 6
    stages = [(blocks, width, 1), (blocks, 2 * width, 2), (blocks, 4 * width, 2)]
    return fan_out_initialised(residual_network(conv(shape[0], width, 3), BasicBlock, stages, classes))
