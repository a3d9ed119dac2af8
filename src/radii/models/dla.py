"""Deep layer aggregation (Yu et al. 2018) for small images: trees of blocks whose outputs are joined at the root."""

from collections import OrderedDict

import torch
from torch import Tensor, nn

from radii.models._blocks import BasicBlock, conv_bn_relu, head
from radii.models.base import Shape


def dla(shape: Shape = (3, 32, 32), classes: int = 10) -> nn.Module:
    """The deep layer aggregation network with trees of one and two levels, for images of any size."""
    layers: OrderedDict[str, nn.Module] = OrderedDict(
        base=conv_bn_relu(shape[0], 16, 3),
        layer1=conv_bn_relu(16, 16, 3),
        layer2=conv_bn_relu(16, 32, 3),
        layer3=_Tree(32, 64, stride=1),
        layer4=_TwoLevelTree(64, 128, stride=2),
        layer5=_TwoLevelTree(128, 256, stride=2),
        layer6=_Tree(256, 512, stride=2),
    )
    return nn.Sequential(layers | head(512, classes))


class _Tree(nn.Module):
    """Two blocks in sequence, joined by the root."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.left = BasicBlock(inputs, outputs, stride)
        self.right = BasicBlock(outputs, outputs)
        self.root = conv_bn_relu(2 * outputs, outputs, 1)

    def forward(self, maps: Tensor) -> Tensor:
        left = self.left(maps)
        joined: Tensor = self.root(torch.cat([left, self.right(left)], 1))
        return joined


class _TwoLevelTree(nn.Module):
    """A tree and two blocks in sequence, joined by the root with one more block of the input."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.beside = BasicBlock(inputs, outputs, stride)
        self.subtree = _Tree(inputs, outputs, stride)
        self.left = BasicBlock(outputs, outputs)
        self.right = BasicBlock(outputs, outputs)
        self.root = conv_bn_relu(4 * outputs, outputs, 1)

    def forward(self, maps: Tensor) -> Tensor:
        subtree = self.subtree(maps)
        left = self.left(subtree)
        joined: Tensor = self.root(torch.cat([self.beside(maps), subtree, left, self.right(left)], 1))
        return joined
