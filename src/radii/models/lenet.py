"""LeNet for MNIST and Fashion-MNIST (431,080 parameters), and one of twice its width."""

from collections import OrderedDict

from torch import nn

from radii.models._first_conv import FirstConv2d
from radii.models.base import Shape


def lenet(shape: Shape = (1, 28, 28), classes: int = 10) -> nn.Module:
    """LeNet: two 5x5 convolutions of 20 and 50 channels, 500 hidden units; for images of at least 16 x 16."""
    return _lenet(shape, classes, width=1)


def lenet_wide(shape: Shape = (1, 28, 28), classes: int = 10) -> nn.Module:
    """LeNet with twice the channels and hidden units; for images of at least 16 x 16."""
    return _lenet(shape, classes, width=2)


def _lenet(shape: Shape, classes: int, width: int) -> nn.Module:
    channels, *sides = shape
    rows, columns = (((side - 4) // 2 - 4) // 2 for side in sides)
    if rows < 1 or columns < 1:
        raise ValueError(f"lenet takes images of at least 16 x 16 pixels, got {sides[0]} x {sides[1]}")
    # Pooling commutes with ReLU and leaves it a quarter of the work; a flattened gradient needs no other memory layout.
    layers: OrderedDict[str, nn.Module] = OrderedDict(
        conv1=FirstConv2d(channels, 20 * width, 5),
        pool1=nn.MaxPool2d(2),
        relu1=nn.ReLU(),
        conv2=nn.Conv2d(20 * width, 50 * width, 5),
        pool2=nn.MaxPool2d(2),
        flatten=nn.Flatten(),
        relu2=nn.ReLU(),
        fc1=nn.Linear(rows * columns * 50 * width, 500 * width),
        relu3=nn.ReLU(),
        fc2=nn.Linear(500 * width, classes),
    )
    return nn.Sequential(layers)
