"""A denoiser in front of a frozen classifier."""

import pytest
import torch
from torch import nn

from radii import engines, models
from radii.models.base import create_denoiser
from radii.models.denoised import Denoised
from radii.models.denoisers import dncnn, ffdnet
from radii.smoothing.normalisation import CIFAR10, Normalise

SMALL = {"name": "dncnn", "depth": 4, "width": 6}


def seeded(**fields: object) -> nn.Sequential:
    torch.manual_seed(0)
    return models.create("denoised", shape=(3, 8, 8), classes=5, **{"denoiser": SMALL, **fields})  # type: ignore[arg-type]


def test_denoised_image_is_normalised_and_classified() -> None:
    model = seeded(classifier="cifar_resnet20", normalisation=CIFAR10).double().eval()
    images = torch.rand((4, 3, 8, 8), dtype=torch.float64)
    mean, std = (torch.tensor(values, dtype=torch.float64).view(1, 3, 1, 1) for values in CIFAR10)
    inner = model[1]
    assert isinstance(inner, Denoised)
    cleaned = images - inner.denoiser.noise(images)  # type: ignore[operator]
    torch.testing.assert_close(model(images), inner.classifier[1]((cleaned - mean) / std))  # type: ignore[index]
    assert isinstance(model[0], nn.Identity)
    assert isinstance(inner.classifier[0], Normalise)  # type: ignore[index]


def test_classifier_stays_frozen_and_in_eval_mode() -> None:
    model = seeded(classifier="cifar_resnet20")
    for ask in (model.train, model[1].train, lambda: model.train(True)):
        ask()
        assert not any(module.training for module in model[1].classifier.modules())  # type: ignore[union-attr]
        assert all(module.training for module in model[1].denoiser.modules())  # type: ignore[union-attr]
    assert not any(parameter.requires_grad for parameter in model[1].classifier.parameters())  # type: ignore[union-attr]
    before = {key: value.clone() for key, value in model[1].classifier.state_dict().items()}  # type: ignore[union-attr]
    model(torch.rand(4, 3, 8, 8)).sum().backward()
    after = model[1].classifier.state_dict()  # type: ignore[union-attr]
    assert all(torch.equal(value, before[key]) for key, value in after.items())


def test_folding_keeps_the_function() -> None:
    model = seeded(classifier="cifar_resnet20")
    for _ in range(3):
        model(torch.rand(8, 3, 8, 8))
    images = torch.rand(4, 3, 8, 8)
    fast = engines.folded(model)
    assert not any(isinstance(module, nn.BatchNorm2d) for module in fast.modules())
    with torch.inference_mode():
        torch.testing.assert_close(fast(images), model.eval()(images), rtol=1e-4, atol=1e-5)


def test_the_published_denoiser() -> None:
    """Seventeen 3x3 convolutions of 64 channels, BatchNorm in all but the outer two, for images of any size."""
    network = create_denoiser("dncnn", (1, 28, 28))
    convolutions = [module for module in network.modules() if isinstance(module, nn.Conv2d)]
    assert [(c.in_channels, c.out_channels) for c in convolutions] == [(1, 64), *[(64, 64)] * 15, (64, 1)]
    assert {c.kernel_size for c in convolutions} == {(3, 3)}
    assert sum(isinstance(module, nn.BatchNorm2d) for module in network.modules()) == 15
    assert network(torch.rand(2, 1, 9, 13)).shape == (2, 1, 9, 13)


def test_denoiser_predicts_the_noise() -> None:
    """With a last layer of zeros the noise is nothing, and the image is left as it is."""
    network = dncnn.dncnn((1, 8, 8), depth=3, width=4)
    nn.init.zeros_(network.noise[-1].weight)  # type: ignore[index,union-attr]
    nn.init.zeros_(network.noise[-1].bias)  # type: ignore[index,union-attr]
    images = torch.rand(2, 1, 8, 8)
    assert torch.equal(network(images), images)


@pytest.mark.parametrize("factor", [1, 2, 3])
def test_ffdnet_sees_a_fraction_of_the_resolution(factor: int) -> None:
    """Untrained it leaves images as they are; then pixels of each `factor` x `factor` square share their features."""
    network = ffdnet.ffdnet((3, 7, 10), depth=2, width=4, factor=factor).double()
    images = torch.rand((2, 3, 7, 10), dtype=torch.float64, requires_grad=True)
    assert torch.equal(network(images), images)
    *_, last = [module for module in network.modules() if isinstance(module, nn.Conv2d)]
    assert (last.in_channels, last.out_channels) == (4, 3 * factor**2)
    nn.init.normal_(last.weight)
    cleaned = network(images)
    assert cleaned.shape == images.shape
    assert not torch.equal(cleaned, images)
    (seen,) = torch.autograd.grad(cleaned[0, 0, 3, 3], images)
    rows = seen[0].abs().sum((0, 2)).nonzero().flatten()
    corner = 3 - 3 % factor
    # Two convolutions see two squares to each side of the pixel's own; beyond the edge there is nothing.
    assert int(rows.min()) >= max(0, corner - 2 * factor)
    assert int(rows.max()) < min(7, corner + 3 * factor)


def test_denoisers_are_not_listed_as_models() -> None:
    assert "denoised" in models.names()
    assert "dncnn" not in models.names()


def test_parts_are_resolved_with_their_defaults() -> None:
    nested = {"name": "denoised", "classifier": {"name": "vit", "layers": 2}}
    assert models.resolved("denoised", {"classifier": nested, "denoiser": {"name": "dncnn", "depth": 5}}) == {
        "classifier": {
            "name": "denoised",
            "classifier": {"name": "vit", "width": 384, "layers": 2, "heads": 12},
            "denoiser": {"name": "dncnn", "depth": 17, "width": 64},
        },
        "denoiser": {"name": "dncnn", "depth": 5, "width": 64},
    }
    assert (models.inner_models("denoised"), models.inner_models("vit")) == (["classifier"], [])


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "model 'denoised' needs the field 'classifier'"),
        ({"classifier": "lenett"}, "there is no model 'lenett' .*; did you mean 'lenet'"),
        ({"classifier": "digits_cnn", "denoiser": "dncn"}, "there is no denoiser 'dncn' .*; did you mean 'dncnn'"),
        (
            {"classifier": "digits_cnn", "denoiser": {"name": "dncnn", "depht": 3}},
            "denoiser 'dncnn' has no field 'depht'",
        ),
        ({"classifier": "digits_cnn", "denoiser": {"name": "dncnn", "depth": 1}}, "depth = 1, expected a number >= 2"),
        ({"classifier": "os:system"}, "expected a name, or a table"),
        ({"classifier": "digits_cnn", "denoiser": "os:system"}, "expected a name, or a table"),
    ],
)
def test_wrong_parts_give_one_sentence(fields: dict[str, object], message: str) -> None:
    with pytest.raises((ValueError, LookupError), match=message):
        models.create("denoised", shape=(1, 8, 8), classes=3, **fields)  # type: ignore[arg-type]
