"""Residual blocks and the networks of stages of them, shared by several families.

The layers have torchvision's names (conv1, bn1, layer1.0.conv1, ..., downsample.0, fc), so weights published under
those names fit.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TypeVar

import torch.nn.functional as F
from torch import Tensor, nn

Block = Callable[[int, int, int], nn.Module]
"""Makes a block from its input channels, its output channels and its stride."""

Stage = tuple[int, int, int]
"""The number of blocks, their output channels, the stride of the first."""

Module = TypeVar("Module", bound=nn.Module)


def conv(inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1) -> nn.Conv2d:
    """Make a convolution without bias, padded so that a stride of one keeps the size."""
    return nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, groups=groups, bias=False)


def conv_bn_relu(inputs: int, outputs: int, kernel: int, stride: int = 1) -> nn.Sequential:
    """Make a convolution, BatchNorm and ReLU; a stride of one keeps the size."""
    return nn.Sequential(conv(inputs, outputs, kernel, stride), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True))


class BasicBlock(nn.Module):
    """Two 3x3 convolutions and a shortcut: the input, or a 1x1 convolution of it where the shape changes."""

    conv1: nn.Conv2d
    bn1: nn.BatchNorm2d
    conv2: nn.Conv2d
    bn2: nn.BatchNorm2d

    def __init__(self, inputs: int, outputs: int, stride: int = 1) -> None:
        super().__init__()
        _add_layers(self, conv(inputs, outputs, 3, stride), conv(outputs, outputs, 3))
        self.downsample = _shortcut(inputs, outputs, stride)

    def forward(self, maps: Tensor) -> Tensor:
        hidden = F.relu(self.bn1(self.conv1(maps)), inplace=True)
        return F.relu(self.bn2(self.conv2(hidden)).add_(self.downsample(maps)), inplace=True)


class Bottleneck(nn.Module):
    """A 3x3 convolution, grouped and strided, between two of 1x1; `narrowing` divides its channels."""

    conv1: nn.Conv2d
    bn1: nn.BatchNorm2d
    conv2: nn.Conv2d
    bn2: nn.BatchNorm2d
    conv3: nn.Conv2d
    bn3: nn.BatchNorm2d

    def __init__(self, inputs: int, outputs: int, stride: int = 1, *, narrowing: int = 4, groups: int = 1) -> None:
        super().__init__()
        width = outputs // narrowing
        _add_layers(self, conv(inputs, width, 1), conv(width, width, 3, stride, groups), conv(width, outputs, 1))
        self.downsample = _shortcut(inputs, outputs, stride)

    def forward(self, maps: Tensor) -> Tensor:
        hidden = F.relu(self.bn1(self.conv1(maps)), inplace=True)
        hidden = F.relu(self.bn2(self.conv2(hidden)), inplace=True)
        return F.relu(self.bn3(self.conv3(hidden)).add_(self.downsample(maps)), inplace=True)


def _add_layers(block: nn.Module, *convolutions: nn.Conv2d) -> None:
    """Give a block its convolutions conv1, conv2, ..., each followed by a BatchNorm bn1, bn2, ..."""
    for number, convolution in enumerate(convolutions, 1):
        setattr(block, f"conv{number}", convolution)
        setattr(block, f"bn{number}", nn.BatchNorm2d(convolution.out_channels))


def residual_network(
    stem: nn.Conv2d, block: Block, stages: Sequence[Stage], classes: int, *, pool: nn.Module | None = None
) -> nn.Sequential:
    """Make a first convolution, stages of residual blocks, global average pooling, a linear layer."""
    layers: OrderedDict[str, nn.Module] = OrderedDict(
        conv1=stem, bn1=nn.BatchNorm2d(stem.out_channels), relu=nn.ReLU(inplace=True)
    )
    if pool is not None:
        layers["maxpool"] = pool
    return nn.Sequential(layers | staged(block, stem.out_channels, stages) | head(stages[-1][1], classes))


def staged(block: Block, inputs: int, stages: Sequence[Stage]) -> OrderedDict[str, nn.Module]:
    """Make a sequence of blocks, stage by stage, named layer1, layer2, ..."""
    layers: OrderedDict[str, nn.Module] = OrderedDict()
    for number, (depth, outputs, stride) in enumerate(stages, 1):
        first, rest = block(inputs, outputs, stride), (block(outputs, outputs, 1) for _ in range(depth - 1))
        layers[f"layer{number}"] = nn.Sequential(first, *rest)
        inputs = outputs
    return layers


def head(features: int, classes: int) -> OrderedDict[str, nn.Module]:
    """Make global average pooling and a linear layer, for images of any size."""
    return OrderedDict(avgpool=nn.AdaptiveAvgPool2d(1), flatten=nn.Flatten(), fc=nn.Linear(features, classes))


def fan_out_initialised(network: Module) -> Module:
    """Draw the convolutions' weights from N(0, 2 / (kernel area * output channels))."""
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
    return network


def _shortcut(inputs: int, outputs: int, stride: int) -> nn.Module:
    if stride == 1 and inputs == outputs:
        return nn.Identity()
    return nn.Sequential(conv(inputs, outputs, 1, stride), nn.BatchNorm2d(outputs))
