"""The smoothed classifier as a torch module: probabilities, gradients, noise, and a public attack library on it."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import radii
from radii.runs.run import Run

PIXELS = 64


def linear(sigma: float = 0.25) -> radii.SmoothedClassifier:
    """Two classes, told apart by the mean pixel."""
    model = nn.Sequential(nn.Flatten(), nn.Linear(PIXELS, 2))
    weight = torch.stack([torch.ones(PIXELS), -torch.ones(PIXELS)])
    model[1].load_state_dict({"weight": weight, "bias": torch.tensor([-32.0, 32.0])})
    return radii.SmoothedClassifier(model, sigma=sigma, classes=2)


def test_outputs_are_mean_probabilities() -> None:
    torch.manual_seed(0)
    images = torch.rand(3, 1, 8, 8)
    smoothed = linear()
    means = smoothed.as_module(samples=4000, seed=1)(images)
    noisy = images + 0.25 * torch.randn(4000, *images.shape)
    expected = smoothed.base(noisy.flatten(0, 1)).softmax(1).view(4000, 3, 2).mean(0)
    assert torch.allclose(means.sum(1), torch.ones(3))
    assert torch.allclose(means, expected, atol=0.03)


def test_logits_are_the_logarithms_of_the_probabilities() -> None:
    images = torch.rand(3, 1, 8, 8)
    means, logs = (linear().as_module(samples=8, seed=1, logits=logits)(images) for logits in (False, True))
    assert torch.allclose(logs.softmax(1), means, atol=1e-6)


def test_noise_is_fresh_in_every_call() -> None:
    module, images = linear().as_module(samples=4), torch.full((1, 1, 8, 8), 0.5)
    torch.manual_seed(0)
    first = module(images)
    torch.manual_seed(0)  # the global generator, which an attack library may seed, has no influence
    assert not torch.equal(first, module(images))


def test_seed_makes_the_output_a_function_of_the_image_alone() -> None:
    images = torch.rand(4, 1, 8, 8)
    module = linear().as_module(samples=4, seed=3)
    assert torch.equal(module(images), module(images))
    assert torch.allclose(module(images)[2:], module(images[2:]))
    assert not torch.equal(module(images), linear().as_module(samples=4, seed=4)(images))


def test_gradient_points_to_the_class() -> None:
    images = torch.full((1, 1, 8, 8), 0.5).requires_grad_()
    linear().as_module()(images)[0, 0].backward()
    assert images.grad is not None
    assert bool((images.grad > 0).all())


def test_base_keeps_its_mode_and_is_evaluated_in_eval_mode() -> None:
    base = nn.Sequential(nn.Flatten(), nn.Dropout(0.5), nn.BatchNorm1d(PIXELS), nn.Linear(PIXELS, 2)).train()
    module = radii.SmoothedClassifier(base, sigma=0.25, classes=2).as_module(seed=0).train()
    images = torch.rand(3, 1, 8, 8)
    assert torch.equal(module(images), module(images))
    assert base.training
    assert base[2].num_batches_tracked == 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: linear().as_module(samples=0), "samples = 0, expected a whole number >= 1"),
        (lambda: linear().as_module(seed=-1), "seed = -1, expected a whole number >= 0"),
        (lambda: linear().as_module()(torch.rand(1, 8, 8)), r"have shape \[1, 8, 8\]. Pass \[batch, channel"),
    ],
)
def test_wrong_arguments_are_refused(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


class Detached(nn.Sequential):
    """A classifier that computes outside of torch, as ONNX Runtime does."""

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self[1](self[0](images.detach()))
        return logits.detach()


def test_model_without_gradients_is_refused() -> None:
    base = Detached(nn.Flatten(), nn.Linear(PIXELS, 10))
    module = radii.SmoothedClassifier(base, sigma=0.25, classes=10).as_module(samples=2)
    assert module(torch.rand(2, 1, 8, 8)).shape == (2, 10)
    with pytest.raises(ValueError, match="gives no gradients. Wrap one that computes with torch"):
        module(torch.rand(2, 1, 8, 8).requires_grad_())


def test_pgd_of_torchattacks_finds_changes_that_random_ones_are_not(digits_run: Callable[..., Run]) -> None:
    torchattacks = pytest.importorskip("torchattacks", reason="torchattacks is not installed")
    smoothed = radii.load(digits_run(), engine="torch")
    images, labels = digits(64)
    module = smoothed.as_module(samples=16, logits=True)
    changed = torchattacks.PGDL2(module, eps=1.0, alpha=0.25, steps=8)(images, labels)
    lengths = (changed - images).flatten(1).norm(dim=1)
    assert float(lengths.max()) <= 1.0 + 1e-4
    random = torch.randn(images.shape, generator=torch.Generator().manual_seed(0))
    moved = (images + random / random.flatten(1).norm(dim=1)[:, None, None, None]).clamp(0, 1)
    attacked, shifted, clean = (right(module, given, labels) for given in (changed, moved, images))
    assert clean > 0.3
    assert shifted > 0.3
    assert attacked < 0.6 * shifted


def digits(count: int) -> tuple[Tensor, Tensor]:
    from radii import datasets

    split = datasets.create("digits").split("test")
    chosen = torch.arange(count)
    return split.batch(chosen), split.labels[chosen]


def right(module: nn.Module, images: Tensor, labels: Tensor) -> float:
    with torch.no_grad():
        return float((module(images).argmax(1) == labels).float().mean())
