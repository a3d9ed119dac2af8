"""A vision transformer for small pictures (Dosovitskiy et al. 2021), as certified robustness transfer trains it."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from radii.models.base import Shape

GRID, WIDTH, LAYERS, HEADS = 8, 384, 7, 12


def vit(shape: Shape = (3, 32, 32), classes: int = 10) -> nn.Module:
    """The transformer of 7 layers on a grid of 8x8 patches, for images whose sides are divisible by 8."""
    if any(side % GRID for side in shape[1:]):
        raise ValueError(
            f"vit takes images whose sides are divisible by {GRID}, got {shape[1]} x {shape[2]}: resize or pad them"
        )
    return _Vit(shape, classes)


class _Vit(nn.Module):
    def __init__(self, shape: Shape, classes: int) -> None:
        super().__init__()
        channels, height, width = shape
        self.patch = (height // GRID, width // GRID)
        self.embedding = nn.Linear(channels * self.patch[0] * self.patch[1], WIDTH)
        self.class_token = nn.Parameter(torch.randn(1, 1, WIDTH))
        self.position = nn.Parameter(torch.randn(1, GRID * GRID + 1, WIDTH))
        self.layers = nn.Sequential(*(_Layer() for _ in range(LAYERS)))
        self.head = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, classes))

    def forward(self, images: Tensor) -> Tensor:
        patches = self.embedding(self._patches(images))
        tokens = torch.cat([self.class_token.expand(images.shape[0], -1, -1), patches], 1) + self.position
        logits: Tensor = self.head(self.layers(tokens)[:, 0])
        return logits

    def _patches(self, images: Tensor) -> Tensor:
        """[batch, patch, value]: patches row by row, the values of each by row, column, channel."""
        rows, columns = self.patch
        cells: Tensor = images.permute(0, 2, 3, 1).unflatten(2, (GRID, columns)).unflatten(1, (GRID, rows))
        return cells.transpose(2, 3).flatten(3).flatten(1, 2)


class _Layer(nn.Module):
    """Attention and a perceptron, each after normalisation and added to its input."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.Sequential(nn.LayerNorm(WIDTH), _Attention())
        # An activation after the second linear layer is unusual, but the published networks have it.
        self.perceptron = nn.Sequential(
            nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH), nn.GELU()
        )

    def forward(self, tokens: Tensor) -> Tensor:
        tokens = tokens + self.attention(tokens)
        result: Tensor = tokens + self.perceptron(tokens)
        return result


class _Attention(nn.Module):
    """Self-attention whose scores are divided by the root of the full width, not of a head's."""

    def __init__(self) -> None:
        super().__init__()
        self.queries_keys_values = nn.Linear(WIDTH, 3 * WIDTH)
        self.output = nn.Linear(WIDTH, WIDTH)

    def forward(self, tokens: Tensor) -> Tensor:
        heads = self.queries_keys_values(tokens).unflatten(2, (3, HEADS, WIDTH // HEADS))
        queries, keys, values = heads.permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(queries, keys, values, scale=WIDTH**-0.5)
        result: Tensor = self.output(mixed.transpose(1, 2).flatten(2))
        return result
