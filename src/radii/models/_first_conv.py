"""A first convolution for attacks, which computes the gradient with respect to the image as one matrix product."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.grad import conv2d_weight


class FirstConv2d(nn.Conv2d):
    """A convolution of the image itself, equal to nn.Conv2d in value and gradient.

    CPU libraries vectorise over channels, so they compute the gradient with respect to one or three input channels
    several times too slowly; an attack needs it in every step.
    """

    def forward(self, input: Tensor) -> Tensor:
        # torch.fx passes a Proxy, which is not a Tensor: it takes the ordinary path.
        if isinstance(input, Tensor) and torch.is_grad_enabled() and input.requires_grad:
            result: Tensor = _Convolution.apply(input, self.weight, self.bias)  # type: ignore[no-untyped-call]
            return result
        return super().forward(input)


class _Convolution(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, images: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        ctx.save_for_backward(images, weight)
        return F.conv2d(images, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor | None, Tensor | None]:
        images, weight = ctx.saved_tensors
        _, by_weight, by_bias = ctx.needs_input_grad
        return (
            _input_gradient(gradient, weight),
            conv2d_weight(images, weight.shape, gradient) if by_weight else None,
            gradient.sum((0, 2, 3)) if by_bias else None,
        )


def _input_gradient(gradient: Tensor, weight: Tensor) -> Tensor:
    """Return the gradient with respect to the image: one matrix product whose rows are runs of neighbouring columns."""
    count, channels, rows, columns = gradient.shape
    _, depth, high, wide = weight.shape
    run = next(run for run in (8, 7, 6, 5, 4, 3, 2, 1) if columns % run == 0)
    # What column j of a run adds to a strip of the image: the kernel, shifted by j columns.
    kernel = weight.permute(0, 2, 3, 1)
    band = weight.new_zeros(run, channels, high, run + wide - 1, depth)
    for column in range(run):
        band[column, :, :, column : column + wide] = kernel
    strips = gradient.permute(0, 2, 3, 1).reshape(-1, run * channels) @ band.flatten(2).flatten(0, 1)
    strips = strips.view(count, rows, columns // run, high, run + wide - 1, depth)
    images = gradient.new_zeros(count, rows + high - 1, columns + wide - 1, depth)
    for row in range(high):
        for number in range(columns // run):
            left = number * run
            images[:, row : row + rows, left : left + run + wide - 1] += strips[:, :, number, row]
    return images.permute(0, 3, 1, 2)
