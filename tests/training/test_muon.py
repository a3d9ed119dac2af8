"""Muon: which weights it takes, its polynomial of singular values, and one step by hand."""

import pytest
import torch
from torch import nn

from radii.runs.recipe import Training
from radii.training.muon import COEFFICIENTS, ITERATIONS, SGD_FACTOR, Muon, hidden_matrices, orthogonalised
from radii.training.optimizer import make_optimizer, set_learning_rate


def network() -> nn.Sequential:
    torch.manual_seed(0)
    layers = [nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.Conv2d(4, 6, 3), nn.Flatten(), nn.Linear(6, 5), nn.Linear(5, 3)]
    return nn.Sequential(*layers).double()


def loss_of(model: nn.Module) -> torch.Tensor:
    images = torch.rand((7, 1, 5, 5), generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    loss: torch.Tensor = model(images).square().mean()
    return loss


@pytest.mark.parametrize("shape", [(5, 9), (9, 5), (6, 6), (1, 4)])
def test_singular_values_go_through_the_polynomial(shape: tuple[int, int]) -> None:
    matrix = torch.randn(shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    left, values, right = torch.linalg.svd(matrix / matrix.norm(), full_matrices=False)
    first, third, fifth = COEFFICIENTS
    for _ in range(ITERATIONS):
        values = first * values + third * values**3 + fifth * values**5
    torch.testing.assert_close(orthogonalised(matrix), left @ values.diag() @ right, rtol=1e-9, atol=1e-11)
    assert bool(((values > 0.6) & (values < 1.3)).all())


def test_first_and_last_layer_and_vectors_are_trained_by_sgd() -> None:
    model = network()
    assert [tuple(weight.shape) for weight in hidden_matrices(model)] == [(6, 4, 3, 3), (5, 6)]
    model.get_parameter("4.weight").requires_grad_(False)
    assert [tuple(weight.shape) for weight in hidden_matrices(model)] == [(6, 4, 3, 3)]
    matrices, rest = Muon(model, lr=0.1, momentum=0.9, weight_decay=0.0).param_groups
    assert len(matrices["params"]) + len(rest["params"]) == len(list(model.parameters())) - 1


def test_shared_weights_are_trained_once() -> None:
    first, shared, tied, last = (nn.Linear(3, 3) for _ in range(4))
    tied.weight = shared.weight
    model = nn.Sequential(first, shared, tied, last)
    assert [weight is shared.weight for weight in hidden_matrices(model)] == [True]
    Muon(model, lr=0.1, momentum=0.9, weight_decay=0.0)


def test_first_step_is_the_orthogonal_gradient() -> None:
    model = network()
    kernel = model.get_parameter("2.weight")
    start = kernel.detach().clone()
    optimizer = Muon(model, lr=0.1, momentum=0.9, weight_decay=0.5, dtype=torch.float64)
    loss_of(model).backward()
    assert isinstance(kernel.grad, torch.Tensor)
    expected = start * (1 - 0.1 * 0.5) - 0.1 * orthogonalised(kernel.grad.flatten(1)).view_as(kernel)
    optimizer.step()
    torch.testing.assert_close(kernel.detach(), expected, rtol=1e-12, atol=1e-14)


def test_the_rest_follows_torchs_sgd() -> None:
    ours, theirs = network(), network()
    optimizer = Muon(ours, lr=0.02, momentum=0.9, weight_decay=0.01, dtype=torch.float64)
    names = {name for name, _ in ours.named_parameters()} - {"2.weight", "4.weight"}
    weights = [weight for name, weight in theirs.named_parameters() if name in names]
    plain = torch.optim.SGD(weights, lr=SGD_FACTOR * 0.02, momentum=0.9, weight_decay=0.01, nesterov=True)
    for _ in range(3):
        with torch.no_grad():  # the matrices alike, which Muon alone trains
            for name in ("2.weight", "4.weight"):
                theirs.get_parameter(name).copy_(ours.get_parameter(name))
        for model, own in ((ours, optimizer), (theirs, plain)):
            model.zero_grad()
            loss_of(model).backward()
            own.step()
    for name in names:
        torch.testing.assert_close(ours.get_parameter(name), theirs.get_parameter(name), rtol=1e-10, atol=1e-12)


def test_the_schedule_keeps_the_ratio_of_the_rates() -> None:
    training = Training(epochs=1, images_per_step=1, learning_rate=0.02, optimizer="muon", precision="bfloat16")
    optimizer = make_optimizer(training, network())
    assert isinstance(optimizer, Muon)
    assert optimizer.dtype is torch.bfloat16
    set_learning_rate(optimizer, 0.01)
    assert [group["lr"] for group in optimizer.param_groups] == [0.01, SGD_FACTOR * 0.01]
