"""Every registered model: its parameter count, its logits, its gradients, its normalisation."""

import copy
from functools import cache

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from radii.models import architectures, create
from radii.models.base import Shape
from radii.smoothing.normalisation import CIFAR10, Normalise

PARAMETERS = {
    "cifar_resnet20": 272_474,
    "cifar_resnet110": 1_730_714,
    "denoised": 71_754 + 556_097,
    "digits_cnn": 71_754,
    "digits_mlp": 301_066,
    "dla": 16_291_386,
    "ensemble": 71_754 + 301_066,
    "fast_resnet": 1_646_112,
    "fast_vit": 895_434,
    "lenet": 431_080,
    "lenet_wide": 1_712_150,
    "regnetx_200mf": 2_321_946,
    "regnetx_4gf": 22_118_248,
    "resnet18": 11_689_512,
    "resnet50": 25_557_032,
    "resnext29_2x64d": 9_128_778,
    "vit": 12_470_026,
    "wide_resnet34_10": 46_160_474,
}
DIGITS, MNIST, CIFAR, IMAGENET = (1, 8, 8), (1, 28, 28), (3, 32, 32), (3, 224, 224)
USUAL: dict[str, tuple[Shape, int]] = dict.fromkeys(PARAMETERS, (CIFAR, 10)) | {
    "denoised": (DIGITS, 10),
    "digits_cnn": (DIGITS, 10),
    "digits_mlp": (DIGITS, 10),
    "ensemble": (DIGITS, 10),
    "lenet": (MNIST, 10),
    "lenet_wide": (MNIST, 10),
    "regnetx_4gf": (IMAGENET, 1000),
    "resnet18": (IMAGENET, 1000),
    "resnet50": (IMAGENET, 1000),
}
FIELDS = {
    "denoised": {"classifier": "digits_cnn", "shape": DIGITS, "classes": 10},
    "ensemble": {"members": ("digits_cnn", "digits_mlp"), "shape": DIGITS, "classes": 10},
}
"""What has to be stated of a model that has no usual dataset of its own."""
FROZEN = {"denoised": "1.classifier."}
"""Where the parameters lie that a model does not train."""
SMALLEST: dict[str, Shape] = dict.fromkeys(PARAMETERS, (1, 8, 8)) | dict.fromkeys(
    ["fast_resnet", "lenet", "lenet_wide"], (1, 16, 16)
)


def all_models() -> list[str]:
    """Every model that is made for a shape, some of them with fields."""
    return sorted([*architectures(), *FIELDS])


def up_to(parameters: int) -> list[str]:
    """The models that are quick to run; the larger ones are built from the same blocks."""
    return [name for name in all_models() if PARAMETERS.get(name, 0) <= parameters]


@cache
def on_meta(name: str, shape: Shape | None = None, classes: int | None = None) -> nn.Sequential:
    with torch.device("meta"):
        return created(name, shape, classes)


def seeded(name: str, shape: Shape | None = None, classes: int | None = None) -> nn.Sequential:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return created(name, shape, classes)


def created(name: str, shape: Shape | None, classes: int | None) -> nn.Sequential:
    stated = {key: value for key, value in (("shape", shape), ("classes", classes)) if value is not None}
    return create(name, **{**FIELDS.get(name, {}), **stated})  # type: ignore[arg-type]


def random_images(count: int, shape: Shape) -> Tensor:
    images = torch.rand((count, *shape), generator=torch.Generator().manual_seed(1))
    return images.contiguous(memory_format=torch.channels_last)


def parameters(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def test_every_model_has_an_expected_parameter_count() -> None:
    assert sorted(PARAMETERS) == all_models()


@pytest.mark.parametrize("name", all_models())
def test_parameter_count(name: str) -> None:
    assert parameters(on_meta(name)) == PARAMETERS[name]


def test_parameter_count_of_a_hundred_classes() -> None:
    assert parameters(on_meta("cifar_resnet110", classes=100)) == 1_736_564


@pytest.mark.parametrize("name", all_models())
def test_logits_for_the_default_image_shape(name: str) -> None:
    shape, classes = USUAL[name]
    model = seeded(name).eval()
    model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    with torch.inference_mode():
        logits = model(random_images(1, shape))
    assert logits.shape == (1, classes)
    assert logits.isfinite().all()
    assert logits.unique().numel() > 1


@pytest.mark.parametrize("name", all_models())
def test_other_channels_sizes_and_classes(name: str) -> None:
    _, height, width = SMALLEST[name]
    shape = (2, height, 3 * width)
    model = on_meta(name, shape, classes=7).eval()
    assert model(torch.empty((2, *shape), device="meta")).shape == (2, 7)


@pytest.mark.parametrize("name", up_to(13_000_000))
def test_float64_is_kept_throughout(name: str) -> None:
    """Two memory layouts agree up to float64 rounding: no layer computes in a lower precision."""
    model, images = seeded(name, SMALLEST[name], 10).eval(), random_images(2, SMALLEST[name])
    exact = copy.deepcopy(model).double()
    with torch.inference_mode():
        logits = exact(images.double())
        again = exact(images.double().contiguous())
        close = model(images)
    assert logits.dtype == torch.float64
    assert torch.allclose(logits, again, rtol=0, atol=1e-12 * float(logits.abs().max()))
    assert torch.allclose(logits, close.double(), rtol=0, atol=1e-4 * float(logits.abs().max()))


@pytest.mark.parametrize("name", up_to(13_000_000))
def test_gradients_reach_every_parameter(name: str) -> None:
    shape = SMALLEST[name]
    model = seeded(name, shape, 10).train()
    images = random_images(4, shape).requires_grad_()
    F.cross_entropy(model(images), torch.arange(4)).backward()
    frozen = {key for key, parameter in model.named_parameters() if not parameter.requires_grad}
    assert all(key.startswith(FROZEN.get(name, "none")) for key in frozen)
    reached = {key: parameter.grad for key, parameter in model.named_parameters() if key not in frozen}
    assert [key for key, grad in reached.items() if grad is None or not grad.any()] == []
    assert images.grad is not None
    assert images.grad.any()


@pytest.mark.parametrize("name", all_models())
def test_traces_to_one_graph(name: str) -> None:
    traced = torch.fx.symbolic_trace(on_meta(name).eval())
    assert parameters(traced) == PARAMETERS[name]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["vit", "cifar_resnet20", "dla"])
def test_compiles_to_one_graph(name: str) -> None:
    model, images = seeded(name, SMALLEST[name], 10).eval(), random_images(2, SMALLEST[name])
    with torch.no_grad():
        compiled = torch.compile(model, backend="eager", fullgraph=True)(images)
        assert torch.equal(compiled, model(images))


@pytest.mark.parametrize("name", all_models())
def test_normalisation_comes_first_and_adds_nothing_to_the_state_dict(name: str) -> None:
    model = on_meta(name)
    assert isinstance(model[0], Normalise if USUAL[name][0][0] == 3 else nn.Identity)
    assert parameters(model[0]) == 0
    assert {key.partition(".")[0] for key in model.state_dict()} == {"1"}


def test_normalisation_is_applied() -> None:
    model = seeded("cifar_resnet20").eval()
    images = random_images(2, CIFAR)
    mean, std = (torch.tensor(values).view(1, 3, 1, 1) for values in CIFAR10)
    with torch.inference_mode():
        assert torch.allclose(model(images), model[1]((images - mean) / std))
