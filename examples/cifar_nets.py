"""CIFAR ResNets with shortcuts without weights (He et al. 2016), for weights that others trained."""

import torch.nn.functional as F
from torch import Tensor, nn


class Block(nn.Module):
    """Two 3x3 convolutions; where the shape changes, the shortcut skips every second pixel and pads channels with 0."""

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, width, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.stride, self.padding = stride, (width - channels) // 2

    def forward(self, images: Tensor) -> Tensor:
        hidden = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(images)))))
        shortcut = images[:, :, :: self.stride, :: self.stride]
        return F.relu(hidden + F.pad(shortcut, (0, 0, 0, 0, self.padding, self.padding)))


class ResNet(nn.Module):
    """Three stages of 16, 32 and 64 channels."""

    def __init__(self, blocks: int, classes: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 16, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(16)
        self.layer1 = self._stage(16, 16, 1, blocks)
        self.layer2 = self._stage(16, 32, 2, blocks)
        self.layer3 = self._stage(32, 64, 2, blocks)
        self.linear = nn.Linear(64, classes)

    def forward(self, images: Tensor) -> Tensor:
        hidden = self.layer3(self.layer2(self.layer1(F.relu(self.bn1(self.conv1(images))))))
        logits: Tensor = self.linear(hidden.mean((2, 3)))
        return logits

    @staticmethod
    def _stage(channels: int, width: int, stride: int, blocks: int) -> nn.Sequential:
        first = Block(channels, width, stride)
        return nn.Sequential(first, *(Block(width, width, 1) for _ in range(blocks - 1)))


def resnet20(classes: int = 10) -> nn.Module:
    """20 layers."""
    return ResNet(3, classes)


def resnet56(classes: int = 10) -> nn.Module:
    """56 layers."""
    return ResNet(9, classes)
