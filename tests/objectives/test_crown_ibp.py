"""The bounds of CROWN-IBP hold at every point of the ball, and are exact where they can be."""

import itertools
from typing import Literal

import pytest
import torch
from torch import Tensor, nn

from radii.errors import ParameterError
from radii.models.base import create
from radii.objectives import Batch, Step
from radii.objectives.crown_ibp import CrownIbp, forward_boxes, layers_of
from radii.smoothing.normalisation import Normalisation, Normalise

Padding = Literal["zeros", "reflect", "replicate", "circular"]


def network(seed: int) -> nn.Sequential:
    torch.manual_seed(seed)
    layers = [
        *(Normalise(Normalisation((0.4,), (0.3,))), nn.Conv2d(1, 4, 3, padding=1), nn.MaxPool2d(2), nn.ReLU()),
        *(nn.AvgPool2d(2), nn.Flatten(), nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3)),
    ]
    return nn.Sequential(*layers).double()


def ball(images: Tensor, radius: float, norm: str, count: int) -> Tensor:
    """Points of the ball around each image, most of them on its edge: [point, batch, ...]."""
    drawn = torch.randn(count, *images.shape, dtype=torch.float64)
    if norm == "linf":
        return images + radius * drawn.sign() * torch.rand(count, 1, 1, 1, 1, dtype=torch.float64).sqrt()
    lengths: Tensor = drawn.flatten(2).norm(dim=2)[..., None, None, None]
    return images + radius * drawn / lengths


def margins_of(model: nn.Module, points: Tensor, labels: Tensor) -> Tensor:
    logits: Tensor = model(points.flatten(0, 1)).view(*points.shape[:2], -1)
    return logits.gather(2, labels.expand(len(points), -1)[..., None]) - logits


@pytest.mark.parametrize("norm", ["linf", "l2"])
@pytest.mark.parametrize("linear", [0.0, 1.0, 0.4])
@pytest.mark.parametrize("radius", [0.0, 0.02, 0.3])
def test_bounds_hold_at_every_point_of_the_ball(norm: str, linear: float, radius: float) -> None:
    for seed in range(3):
        model, images = network(seed), torch.rand(5, 1, 4, 4, dtype=torch.float64)
        labels = model(images).argmax(1)
        low = CrownIbp(sigma=0.5, norm=norm).lowest_margins(model, images, labels, radius, linear)
        assert (margins_of(model, ball(images, radius, norm, 400), labels) >= low - 1e-12).all()
        assert low.gather(1, labels[:, None]).abs().max() < 1e-12
        if radius == 0:
            torch.testing.assert_close(low, margins_of(model, images[None], labels)[0], rtol=0, atol=1e-6)


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_every_input_of_a_layer_is_in_its_box(norm: str) -> None:
    model, images = network(0), torch.rand(5, 1, 4, 4, dtype=torch.float64)
    layers = list(layers_of(model))
    boxes = forward_boxes(layers, images, 0.2, norm)
    values = ball(images, 0.2, norm, 300).flatten(0, 1)
    for layer, box in zip(layers, boxes, strict=True):
        moved = (values.unflatten(0, (300, 5)) - box.centre).abs()
        assert (moved <= box.radius + 1e-12).all()
        values = layer(values)


@pytest.mark.parametrize("mode", ["zeros", "reflect", "replicate", "circular"])
def test_bounds_hold_with_padding_that_repeats_pixels(mode: Padding) -> None:
    torch.manual_seed(0)
    layer = nn.Conv2d(1, 2, 5, padding=2, padding_mode=mode).double()
    images = torch.rand(1, 1, 4, 4, dtype=torch.float64)
    jacobian = torch.autograd.functional.jacobian(layer, images).view(2 * 16, 16)
    box = forward_boxes([layer, nn.ReLU()], images, 0.3, "l2")[1]
    assert (box.radius.flatten() >= 0.3 * jacobian.norm(dim=1) - 1e-12).all()


def test_linear_bounds_of_a_linear_model_are_exact_at_the_vertices() -> None:
    torch.manual_seed(2)
    last = nn.Linear(4, 3)
    model = nn.Sequential(nn.Flatten(), last).double()
    images, labels = torch.rand(3, 1, 2, 2, dtype=torch.float64), torch.tensor([0, 1, 2])
    signs = torch.tensor(list(itertools.product([-1.0, 1.0], repeat=4)), dtype=torch.float64)
    vertices = images + 0.3 * signs.view(16, 1, 1, 2, 2)
    lowest = margins_of(model, vertices, labels).amin(0)
    for linear in (0.0, 1.0):
        bounds = CrownIbp(sigma=0.5).lowest_margins(model, images, labels, 0.3, linear)
        torch.testing.assert_close(bounds, lowest)
    slopes = last.weight[labels][:, None] - last.weight
    exact = margins_of(model, images[None], labels)[0] - 0.3 * slopes.norm(dim=2)
    for linear in (0.0, 1.0):
        bounds = CrownIbp(sigma=0.5, norm="l2").lowest_margins(model, images, labels, 0.3, linear)
        expected = exact if linear else lowest
        torch.testing.assert_close(bounds, expected, rtol=0, atol=1e-12)


def test_linear_bounds_are_tighter_than_intervals_on_the_average() -> None:
    model, images = network(1), torch.rand(20, 1, 4, 4, dtype=torch.float64)
    labels = model(images).argmax(1)
    intervals, linear = (
        CrownIbp(sigma=0.5).lowest_margins(model, images, labels, 0.05, share).mean() for share in (0.0, 1.0)
    )
    assert linear > intervals


def test_shares_follow_the_ramp() -> None:
    model, images = network(0), torch.rand(6, 1, 4, 4, dtype=torch.float64)
    batch = Batch(images, model(images).argmax(1), torch.arange(6))
    objective = CrownIbp(sigma=0.5, radius=0.2, ramp_epochs=4, clean_weight=0.5, linear_weight=0.2)
    own = nn.functional.cross_entropy(model(images), batch.labels, reduction="none")
    for epoch, clean in enumerate([0.875, 0.75, 0.625, 0.5, 0.5]):
        linear, radius = 1 - 0.8 * min(1, (epoch + 1) / 4), 0.2 * min(1, (epoch + 1) / 4)
        low = objective.lowest_margins(model, images, batch.labels, radius, linear)
        terms = objective.terms(model, batch, Step(epoch, torch.Generator()))
        torch.testing.assert_close(terms["cross_entropy"], clean * own)
        torch.testing.assert_close(terms["worst_case"], (1 - clean) * (-low).exp().sum(1).log())


def test_models_that_cannot_be_bounded_are_refused_before_training() -> None:
    objective = CrownIbp(sigma=0.5)
    objective.check_model(create("lenet"))
    objective.check_model(create("digits_cnn"))
    with pytest.raises(ParameterError, match="cannot bound a"):
        objective.check_model(create("cifar_resnet20"))
    with pytest.raises(ParameterError, match="neither overlap nor are padded"):
        objective.check_model(nn.Sequential(nn.MaxPool2d(3, 2)))
    with pytest.raises(ParameterError, match="neither overlap nor are padded"):
        objective.check_model(nn.Sequential(nn.MaxPool2d(2, dilation=2)))
    with pytest.raises(ParameterError, match="expected a Linear"):
        objective.check_model(nn.Sequential(nn.Linear(4, 3), nn.ReLU()))
