"""CROWN-IBP: train on bounds of the network over a ball around each image (Zhang et al. 2020).

Interval bounds go forward through the layers; a linear bound of each margin goes back through them and uses the
intervals where a ReLU or a maximum may go either way. Both hold for every change of the image within the ball.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from radii.errors import ParameterError
from radii.fields import option
from radii.objectives.base import Batch, Objective, Step, Terms, cross_entropy, ramp
from radii.smoothing.forward import logits_of
from radii.smoothing.normalisation import Normalise

AFFINE = (nn.Conv2d, nn.Linear)
OTHER = (Normalise, nn.Identity, nn.ReLU, nn.MaxPool2d, nn.AvgPool2d, nn.Flatten)


class Box(NamedTuple):
    """Bounds of a layer's input: from centre - radius to centre + radius, element by element."""

    centre: Tensor
    radius: Tensor


@dataclass(frozen=True, kw_only=True, eq=False)
class CrownIbp(Objective):
    """Cross-entropy of the image, mixed with that of the lowest margins that its ball can have.

    `radius` and `norm` are the ball, which grows over the `ramp_epochs`. Meanwhile the share of the image's own
    cross-entropy falls from 1 to `clean_weight`, and that of the linear bounds, beside the interval bounds, from 1 to
    `linear_weight` (kappa and beta in the paper). No noise is added: `sigma` is what the model will be certified with.
    The model is a sequence of convolutions, linear layers, ReLU, pooling and flattening.
    """

    radius: float = option(0.1, ge=0)
    norm: str = option("linf", choices=("linf", "l2"))
    ramp_epochs: int = option(20, ge=0)
    clean_weight: float = option(0.0, ge=0, le=1)
    linear_weight: float = option(0.0, ge=0, le=1)

    def check_model(self, model: nn.Module) -> None:
        _outputs(list(layers_of(model))[-1])

    def terms(self, model: nn.Module, batch: Batch, step: Step) -> Terms:
        done = ramp(step.epoch, self.ramp_epochs)
        clean, linear = (1 - done * (1 - final) for final in (self.clean_weight, self.linear_weight))
        margins = self.lowest_margins(model, batch.images, batch.labels, done * self.radius, linear)
        worst = torch.logsumexp(-margins, 1)
        return {
            "cross_entropy": clean * cross_entropy(logits_of(model, batch.images[None]), batch.labels).squeeze(0),
            "worst_case": (1 - clean) * worst,
        }

    def lowest_margins(self, model: nn.Module, images: Tensor, labels: Tensor, radius: float, linear: float) -> Tensor:
        """Return lower bounds of the label's logit minus each class's over the ball, 0 for the label: [batch, class].

        `linear` is the share of the linear bounds; the rest are interval bounds.
        """
        layers = list(layers_of(model))
        inputs = forward_boxes(layers, images, radius, self.norm)
        classes = _outputs(layers[-1])
        one_hot = torch.eye(classes, dtype=images.dtype, device=images.device)
        margins = one_hot[labels][:, None] - one_hot
        bounds = images.new_zeros(len(images), classes)
        if linear < 1:
            bounds = bounds + (1 - linear) * _from_boxes(layers[-1:], inputs[-1:], margins)
        if linear > 0:
            bounds = bounds + linear * _from_ball(layers, inputs, margins, images, radius, self.norm)
        return bounds


def layers_of(model: nn.Module) -> Iterator[nn.Module]:
    """Yield the layers of a feed-forward model in order; raise a ParameterError for a layer that cannot be bounded."""
    inner = list(model.children()) if isinstance(model, nn.Sequential) else [model]
    for layer in inner:
        if isinstance(layer, nn.Sequential):
            yield from layers_of(layer)
        elif isinstance(layer, nn.MaxPool2d) and not _has_separate_windows(layer):
            raise ParameterError("objective 'crown_ibp' takes maxima over windows that neither overlap nor are padded")
        elif isinstance(layer, (*AFFINE, *OTHER)):
            yield layer
        else:
            known = ", ".join(kind.__name__ for kind in (*AFFINE, *OTHER))
            raise ParameterError(f"objective 'crown_ibp' cannot bound a {type(layer).__name__}, expected {known}")


def _has_separate_windows(layer: nn.MaxPool2d) -> bool:
    return layer.kernel_size == layer.stride and not layer.padding and layer.dilation in (1, (1, 1))


def forward_boxes(layers: list[nn.Module], images: Tensor, radius: float, norm: str) -> list[Box]:
    """Return the box of every layer's input while the image changes by at most `radius`."""
    box, boxes = Box(images, torch.full_like(images, radius)), []
    round_ball = norm == "l2"
    for layer in layers:
        boxes.append(box)
        if round_ball and isinstance(layer, AFFINE) and not _repeats_pixels(layer):
            # In l2 a neuron moves by at most the norm of its weights, less than the box around the ball allows.
            box = Box(_run(layer, box.centre), _root(_run(layer, box.radius.square(), torch.square)))
        else:
            box = _through(layer, box)
        round_ball = round_ball and isinstance(layer, Normalise | nn.Identity | nn.Flatten)
    return boxes


def _repeats_pixels(layer: nn.Module) -> bool:
    """Return whether padding repeats pixels: a neuron may then move by more than the norm of its weights."""
    return isinstance(layer, nn.Conv2d) and layer.padding_mode != "zeros"


def _through(layer: nn.Module, box: Box) -> Box:
    """Return the box of a layer's output."""
    if isinstance(layer, nn.ReLU | nn.MaxPool2d):
        low, high = (_run(layer, box.centre + sign * box.radius) for sign in (-1, 1))
        return Box((low + high) / 2, (high - low) / 2)
    return Box(_run(layer, box.centre), _run(layer, box.radius, torch.abs))


def _run(layer: nn.Module, inputs: Tensor, of_weights: Callable[[Tensor], Tensor] | None = None) -> Tensor:
    """Run a layer; with `of_weights`, run it with changed weights and without a bias."""
    if isinstance(layer, AFFINE):
        weight = layer.weight if of_weights is None else of_weights(layer.weight)
        bias = layer.bias if of_weights is None else None
        if isinstance(layer, nn.Linear):
            return F.linear(inputs, weight, bias)
        convolved: Tensor = layer._conv_forward(inputs, weight, bias)
        return convolved
    if isinstance(layer, Normalise) and of_weights is not None:
        return inputs * of_weights(1 / layer.std)
    if isinstance(layer, nn.ReLU):
        return inputs.relu()
    outputs: Tensor = layer(inputs)
    return outputs


def _from_boxes(layers: list[nn.Module], inputs: list[Box], margins: Tensor) -> Tensor:
    """Bound the margins from below over the box of the first of these layers."""
    slopes, offset = _back(layers, inputs, margins)
    box, pixels = inputs[0], tuple(range(2, slopes.dim()))
    return offset + (slopes * box.centre[:, None] - slopes.abs() * box.radius[:, None]).sum(pixels)


def _from_ball(
    layers: list[nn.Module], inputs: list[Box], margins: Tensor, images: Tensor, radius: float, norm: str
) -> Tensor:
    """Bound the margins from below over the ball around the image."""
    slopes, offset = _back(layers, inputs, margins)
    flat = slopes.flatten(2)
    steepest = flat.abs().sum(2) if norm == "linf" else _root(flat.square().sum(2))
    return offset + (flat * images.flatten(1)[:, None]).sum(2) - radius * steepest


def _root(squares: Tensor) -> Tensor:
    """Return the square root, kept a little above zero because its gradient is infinite there."""
    return squares.clamp(min=1e-30).sqrt()


def _back(layers: list[nn.Module], inputs: list[Box], slopes: Tensor) -> tuple[Tensor, Tensor]:
    """Bound slopes times the output from below, linearly in the input; return slopes [batch, row, ...] and offset."""
    offset = slopes.new_zeros(slopes.shape[:2])
    for layer, box in zip(reversed(layers), reversed(inputs), strict=True):
        if isinstance(layer, nn.ReLU):
            slopes, constant = _back_relu(slopes, box)
        elif isinstance(layer, nn.MaxPool2d):
            slopes, constant = _back_maximum(layer, slopes, box)
        else:
            slopes, constant = _back_affine(layer, slopes, box)
        offset = offset + constant
    return slopes, offset


def _back_affine(layer: nn.Module, slopes: Tensor, box: Box) -> tuple[Tensor, Tensor]:
    """Take the slopes from the gradient of the layer's output and the offset from its value at zero; both are exact."""
    rows = slopes.flatten(0, 1)
    with torch.enable_grad():
        zero = torch.zeros((len(rows), *box.centre.shape[1:]), dtype=rows.dtype, device=rows.device).requires_grad_()
        output = _run(layer, zero)
        (back,) = torch.autograd.grad(output, zero, rows, create_graph=True)
    constant = (rows * output).flatten(1).sum(1)
    return back.unflatten(0, slopes.shape[:2]), constant.unflatten(0, slopes.shape[:2])


def _back_relu(slopes: Tensor, box: Box) -> tuple[Tensor, Tensor]:
    """Use the chord where a slope is negative, else 0 or the input itself, whichever bound is tighter."""
    low, high = box.centre - box.radius, box.centre + box.radius
    either = (low < 0) & (high > 0)
    on = (low >= 0).to(slopes)
    chord = torch.where(either, high / (high - low).clamp(min=1e-12), on)
    below = torch.where(either, (high > -low).to(slopes), on)
    positive, negative = slopes.clamp(min=0), slopes.clamp(max=0)
    constant = negative * torch.where(either, -chord * low, 0)[:, None]
    return positive * below[:, None] + negative * chord[:, None], constant.flatten(2).sum(2)


def _back_maximum(layer: nn.MaxPool2d, slopes: Tensor, box: Box) -> tuple[Tensor, Tensor]:
    """Bound a maximum: at least the input with the highest lower bound, at most the highest upper bound."""
    low, high = box.centre - box.radius, box.centre + box.radius
    _, places = F.max_pool2d(low, layer.kernel_size, layer.stride, return_indices=True)
    most = _run(layer, high)[:, None]
    size = box.centre.shape
    back = slopes.new_zeros(*slopes.shape[:3], size[2] * size[3])
    where = places.flatten(2)[:, None].expand(-1, slopes.shape[1], -1, -1)
    back = back.scatter(3, where, slopes.clamp(min=0).flatten(3))
    return back.unflatten(3, size[2:]), (slopes.clamp(max=0) * most).flatten(2).sum(2)


def _outputs(layer: nn.Module) -> int:
    if not isinstance(layer, nn.Linear):
        raise ParameterError(f"objective 'crown_ibp': the last layer is a {type(layer).__name__}, expected a Linear")
    return layer.out_features
