"""Small networks for the 8x8 digits that come with the package: quick to train and to certify on a laptop."""

from torch import nn

from radii.models.base import Shape


def digits_cnn(shape: Shape = (1, 8, 8), classes: int = 10) -> nn.Module:
    """Two 3x3 convolutions, the second of which halves the image, and 128 hidden units; for images of any size."""
    channels, height, width = shape
    return nn.Sequential(
        nn.Conv2d(channels, 16, 3, padding=1),
        nn.ReLU(inplace=True),
        nn.Conv2d(16, 32, 3, stride=2, padding=1),
        nn.ReLU(inplace=True),
        nn.Flatten(),
        nn.Linear(32 * -(-height // 2) * -(-width // 2), 128),
        nn.ReLU(inplace=True),
        nn.Linear(128, classes),
    )


def digits_mlp(shape: Shape = (1, 8, 8), classes: int = 10) -> nn.Module:
    """Two layers of 512 hidden units, no convolution; for images of any size."""
    channels, height, width = shape
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(channels * height * width, 512),
        nn.ReLU(inplace=True),
        nn.Linear(512, 512),
        nn.ReLU(inplace=True),
        nn.Linear(512, classes),
    )
