import pytest
import torch
from torch import nn
from torch.nn.grad import conv2d_input

from radii.models._first_conv import FirstConv2d


# Columns of the output: a run of four, three runs of eight, a prime.
@pytest.mark.parametrize("width", [8, 28, 15])
def test_value_and_gradients_equal_conv2d(width: int) -> None:
    torch.manual_seed(0)
    ours, theirs = (FirstConv2d(3, 4, 5).double(), nn.Conv2d(3, 4, 5).double())
    theirs.load_state_dict(ours.state_dict())
    images = torch.rand(2, 3, 9, width, dtype=torch.float64)
    results = []
    for layer in (ours, theirs):
        leaf = images.clone().requires_grad_()
        value = layer(leaf)
        results.append((value, *torch.autograd.grad(value.square().sum(), (leaf, *layer.parameters()))))
    for mine, expected in zip(*results, strict=True):
        torch.testing.assert_close(mine, expected, rtol=1e-12, atol=1e-12)


def test_input_gradient_alone_leaves_weight_gradients_unset() -> None:
    layer = FirstConv2d(1, 2, 3).requires_grad_(False)
    leaf = torch.rand(2, 1, 5, 5, requires_grad=True)
    (gradient,) = torch.autograd.grad(layer(leaf).sum(), leaf)
    torch.testing.assert_close(gradient, conv2d_input(leaf.shape, layer.weight, torch.ones(2, 2, 3, 3)))
