"""A user-defined architecture, named `examples.convnet:convnet` from the folder above."""

from torch import nn


def convnet(shape: tuple[int, int, int] = (1, 28, 28), classes: int = 10) -> nn.Module:
    """Three 3x3 convolutions, the first two pooled, and 128 hidden units; for images of at least 4 x 4."""
    channels, height, width = shape
    return nn.Sequential(
        nn.Conv2d(channels, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(64 * (height // 4) * (width // 4), 128),
        nn.ReLU(),
        nn.Linear(128, classes),
    )
