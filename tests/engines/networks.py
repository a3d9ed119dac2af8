"""Networks for tests of engines."""

import torch
from torch import nn

from radii.models._blocks import BasicBlock, conv, residual_network


def small_residual(shape: tuple[int, int, int]) -> nn.Module:
    """Make a residual network with BatchNorm of the same blocks as cifar_resnet20, but two instead of nine."""
    torch.manual_seed(0)
    model = residual_network(conv(shape[0], 16, 3), BasicBlock, [(1, 16, 1), (1, 32, 2)], 10)
    return with_statistics(model, shape)


def with_statistics(model: nn.Module, shape: tuple[int, int, int]) -> nn.Module:
    """Show images to a model, for the running statistics of its BatchNorm."""
    with torch.no_grad():
        for _ in range(3):
            model(torch.rand(16, *shape))
    return model.eval()
