"""Vision transformers for small images (Dosovitskiy et al. 2021), with patches or with a convolutional stem."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from radii.models._blocks import conv, conv_bn_relu
from radii.models.base import Count, Shape
from radii.smoothing.forward import channels_last

GRID = 8


def vit(
    shape: Shape = (3, 32, 32), classes: int = 10, width: Count = 384, layers: Count = 7, heads: Count = 12
) -> nn.Module:
    """The transformer of 7 layers on a grid of 8x8 patches, for images whose sides are divisible by 8."""
    if any(side % GRID for side in shape[1:]):
        raise ValueError(
            f"vit takes images whose sides are divisible by {GRID}, got {shape[1]} x {shape[2]}: resize or pad them"
        )
    if width % heads:
        raise ValueError(f"model 'vit': width = {width}, expected a multiple of the {heads} heads")
    return _Vit(shape, classes, width, layers, heads)


def fast_vit(
    shape: Shape = (3, 32, 32), classes: int = 10, width: Count = 128, layers: Count = 5, heads: Count = 4
) -> nn.Module:
    """A transformer behind three 3x3 convolutions that quarter the image, for images of at least 8 x 8.

    The convolutional stem lets a transformer learn from little data in few epochs (Xiao et al. 2021).
    """
    if min(shape[1:]) < GRID:
        raise ValueError(f"fast_vit takes images of at least {GRID} x {GRID} pixels, got {shape[1]} x {shape[2]}")
    if width % heads:
        raise ValueError(f"model 'fast_vit': width = {width}, expected a multiple of the {heads} heads")
    return _FastVit(shape, classes, width, layers, heads)


class _FastVit(nn.Module):
    """Tokens from convolutions, learned positions, pre-normalised layers, and the mean of all tokens."""

    def __init__(self, shape: Shape, classes: int, width: int, layers: int, heads: int) -> None:
        super().__init__()
        stem = (conv_bn_relu(shape[0], width // 2, 3), conv_bn_relu(width // 2, width, 3, 2), conv(width, width, 3, 2))
        self.stem = channels_last(nn.Sequential(*stem))
        high, wide = ((side + 3) // 4 for side in shape[1:])
        self.position = nn.Parameter(0.02 * torch.randn(1, high * wide, width))
        self.layers = nn.Sequential(*(_fast_layer(width, heads) for _ in range(layers)))
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, classes))

    def forward(self, images: Tensor) -> Tensor:
        tokens = self.stem(images).flatten(2).transpose(1, 2) + self.position
        logits: Tensor = self.head(self.layers(tokens).mean(1))
        return logits


class _Vit(nn.Module):
    def __init__(self, shape: Shape, classes: int, width: int, layers: int, heads: int) -> None:
        super().__init__()
        channels, high, wide = shape
        self.patch = (high // GRID, wide // GRID)
        self.embedding = nn.Linear(channels * self.patch[0] * self.patch[1], width)
        self.class_token = nn.Parameter(torch.randn(1, 1, width))
        self.position = nn.Parameter(torch.randn(1, GRID * GRID + 1, width))
        self.layers = nn.Sequential(*(_vit_layer(width, heads) for _ in range(layers)))
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, classes))

    def forward(self, images: Tensor) -> Tensor:
        patches = self.embedding(self._patches(images))
        tokens = torch.cat([self.class_token.expand(images.shape[0], -1, -1), patches], 1) + self.position
        logits: Tensor = self.head(self.layers(tokens)[:, 0])
        return logits

    def _patches(self, images: Tensor) -> Tensor:
        """Return the patches row by row, the values of each by row, column, channel: [batch, patch, value]."""
        rows, columns = self.patch
        cells: Tensor = images.permute(0, 2, 3, 1).unflatten(2, (GRID, columns)).unflatten(1, (GRID, rows))
        return cells.transpose(2, 3).flatten(3).flatten(1, 2)


class _Layer(nn.Module):
    """Attention and an MLP, each added to its input."""

    def __init__(self, attention: nn.Module, perceptron: nn.Module) -> None:
        super().__init__()
        self.attention = attention
        self.perceptron = perceptron

    def forward(self, tokens: Tensor) -> Tensor:
        tokens = tokens + self.attention(tokens)
        result: Tensor = tokens + self.perceptron(tokens)
        return result


def _vit_layer(width: int, heads: int) -> _Layer:
    """Make a layer of the published networks, normalised before attention and before an MLP of 4 times the width."""
    # The published networks divide by the root of the full width, not of a head's.
    attention = _Attention(width, heads, width**-0.5)
    # An activation after the second linear layer is unusual, but the published networks have it.
    perceptron = (nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.GELU())
    return _Layer(nn.Sequential(nn.LayerNorm(width), attention), nn.Sequential(nn.LayerNorm(width), *perceptron))


def _fast_layer(width: int, heads: int) -> _Layer:
    """Make a layer that is normalised before attention and before an MLP of twice the width."""
    attention = _FastAttention(width, heads, (width // heads) ** -0.5)
    perceptron = (nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
    return _Layer(nn.Sequential(nn.LayerNorm(width), attention), nn.Sequential(nn.LayerNorm(width), *perceptron))


class _Attention(nn.Module):
    """Self-attention whose scores are multiplied by `scale`."""

    def __init__(self, width: int, heads: int, scale: float) -> None:
        super().__init__()
        self.heads = heads
        self.scale = scale
        self.queries_keys_values = nn.Linear(width, 3 * width)
        self.output = nn.Linear(width, width)

    def forward(self, tokens: Tensor) -> Tensor:
        heads = self.queries_keys_values(tokens).unflatten(2, (3, self.heads, -1))
        queries, keys, values = heads.permute(2, 0, 3, 1, 4)
        mixed = self._mixed(queries, keys, values)
        result: Tensor = self.output(mixed.transpose(1, 2).flatten(2))
        return result

    def _mixed(self, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(queries, keys, values, scale=self.scale)


class _FastAttention(_Attention):
    """Self-attention that trains quickly on a CPU in bfloat16."""

    def _mixed(self, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        # For few tokens, the backward pass of the fused attention takes four times as long as three products.
        if torch.is_grad_enabled() and torch.is_autocast_enabled("cpu"):
            return (self.scale * queries @ keys.transpose(-1, -2)).softmax(-1) @ values
        return super()._mixed(queries, keys, values)
