"""Wide residual networks (Zagoruyko and Komodakis 2016): few blocks of many channels, normalised before each layer."""

from collections import OrderedDict

import torch.nn.functional as F
from torch import Tensor, nn

from radii.models._blocks import conv, fan_out_initialised, head, staged
from radii.models.base import Shape


def wide_resnet34_10(shape: Shape = (3, 32, 32), classes: int = 10) -> nn.Module:
    """The wide ResNet of 34 layers with widening factor 10, for images of any size."""
    stages = staged(_Block, 16, [(5, 160, 1), (5, 320, 2), (5, 640, 2)])
    first: OrderedDict[str, nn.Module] = OrderedDict(conv1=conv(shape[0], 16, 3))
    last: OrderedDict[str, nn.Module] = OrderedDict(bn1=nn.BatchNorm2d(640), relu=nn.ReLU(inplace=True))
    return fan_out_initialised(nn.Sequential(first | stages | last | head(640, classes)))


class _Block(nn.Module):
    """Two 3x3 convolutions, each after BatchNorm and ReLU, added to the input."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.bn1 = nn.BatchNorm2d(inputs)
        self.conv1 = conv(inputs, outputs, 3, stride)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.conv2 = conv(outputs, outputs, 3)
        self.downsample = None if inputs == outputs else conv(inputs, outputs, 1, stride)

    def forward(self, maps: Tensor) -> Tensor:
        active = F.relu(self.bn1(maps), inplace=True)
        # Where the shape changes, the shortcut also takes the normalised feature maps.
        shortcut: Tensor = maps if self.downsample is None else self.downsample(active)
        hidden: Tensor = self.conv2(F.relu(self.bn2(self.conv1(active)), inplace=True))
        return hidden.add_(shortcut)
