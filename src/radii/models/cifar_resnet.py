"""Residual networks for small pictures (He et al. 2016), with 1x1 convolutions where a shortcut changes shape."""

from torch import nn

from radii.models._blocks import BasicBlock, conv, fan_out_initialised, residual_network
from radii.models.base import Shape


def cifar_resnet20(shape: Shape = (3, 32, 32), classes: int = 10) -> nn.Module:
    """The CIFAR ResNet of 20 layers, for images of any size."""
    return _cifar_resnet(shape, classes, depth=20)


def cifar_resnet110(shape: Shape = (3, 32, 32), classes: int = 10) -> nn.Module:
    """The CIFAR ResNet of 110 layers, for images of any size."""
    return _cifar_resnet(shape, classes, depth=110)


def _cifar_resnet(shape: Shape, classes: int, depth: int) -> nn.Module:
    blocks = (depth - 2) // 6
    stages = [(blocks, 16, 1), (blocks, 32, 2), (blocks, 64, 2)]
    return fan_out_initialised(residual_network(conv(shape[0], 16, 3), BasicBlock, stages, classes))
