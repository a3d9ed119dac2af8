"""ResNet-9: a shallow, wide network that learns CIFAR-10 in few epochs (Page 2018, "How to train your ResNet")."""

from collections import OrderedDict

from torch import Tensor, nn

from radii.models._blocks import conv
from radii.models.base import Shape


def fast_resnet(shape: Shape = (3, 32, 32), classes: int = 10, width: int = 32) -> nn.Module:
    """Eight 3x3 convolutions and a linear layer, `width` channels in the first; for images of at least 16 x 16."""
    if width < 1:
        raise ValueError(f"width = {width}, expected a whole number >= 1")
    if min(shape[1:]) < 16:
        raise ValueError(f"fast_resnet takes images of at least 16 x 16 pixels, got {shape[1]} x {shape[2]}")
    layers: OrderedDict[str, nn.Module] = OrderedDict(
        stem=_convolution(shape[0], width),
        layer1=nn.Sequential(_convolution(width, 2 * width), nn.MaxPool2d(2), _Residual(2 * width)),
        layer2=nn.Sequential(_convolution(2 * width, 4 * width), nn.MaxPool2d(2)),
        layer3=nn.Sequential(_convolution(4 * width, 8 * width), nn.MaxPool2d(2), _Residual(8 * width)),
        pool=nn.AdaptiveMaxPool2d(1),
        flatten=nn.Flatten(),
        fc=nn.Linear(8 * width, classes, bias=False),
        scale=_Scale(0.125),
    )
    return nn.Sequential(layers)


def _convolution(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(conv(inputs, outputs, 3), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True))


class _Residual(nn.Module):
    """Two convolutions whose output is added to their input."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv1 = _convolution(channels, channels)
        self.conv2 = _convolution(channels, channels)

    def forward(self, maps: Tensor) -> Tensor:
        hidden: Tensor = self.conv2(self.conv1(maps))
        return maps + hidden


class _Scale(nn.Module):
    """Logits times a constant: training starts with nearly uniform probabilities."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, logits: Tensor) -> Tensor:
        return logits * self.factor
