"""FFDNet (Zhang et al. 2018): a denoiser that works at a fraction of the image's resolution, so it is cheap."""

from typing import Annotated

import torch.nn.functional as F
from torch import Tensor, nn

from radii.models._blocks import conv_bn_relu
from radii.models.base import Count, Shape
from radii.smoothing.forward import channels_last


def ffdnet(
    shape: Shape,
    depth: Annotated[int, {"ge": 2}] = 8,
    width: Count = 32,
    factor: Annotated[int, {"ge": 1, "le": 8}] = 2,
) -> nn.Module:
    """FFDNet of `depth` convolutions of `width` channels.

    `factor` x `factor` pixels become channels first, so a convolution sees farther and costs less. The published
    network for colour images has depth 12 and width 96. Here the noise's level is that of the training, and no input.
    """
    return channels_last(_FfdNet(shape, depth, width, factor))


class _FfdNet(nn.Module):
    def __init__(self, shape: Shape, depth: int, width: int, factor: int) -> None:
        super().__init__()
        channels, self.height, self.width = shape
        self.factor = factor
        self.padding = (0, -self.width % factor, 0, -self.height % factor)
        inputs = channels * factor**2
        first = [nn.Conv2d(inputs, width, 3, padding=1), nn.ReLU(inplace=True)]
        inner = [conv_bn_relu(width, width, 3) for _ in range(depth - 2)]
        last = nn.Conv2d(width, inputs, 3, padding=1)
        nn.init.zeros_(last.weight)  # the untrained denoiser leaves images as they are
        nn.init.zeros_(last.bias)  # type: ignore[arg-type]
        self.noise = nn.Sequential(*first, *inner, last)

    def forward(self, images: Tensor) -> Tensor:
        padded = F.pad(images, self.padding, mode="replicate") if any(self.padding) else images
        noise = F.pixel_shuffle(self.noise(F.pixel_unshuffle(padded, self.factor)), self.factor)
        clean: Tensor = images - noise[..., : self.height, : self.width]
        return clean
