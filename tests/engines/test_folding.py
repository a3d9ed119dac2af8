"""Folding keeps the function of any model, or does not change the model."""

import copy
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import parametrizations

from radii import models
from radii.engines import EngineSpec, _folding, drawn, folded, prepare
from radii.models.base import Shape
from radii.smoothing.noise import Gaussian

SHAPE = (3, 8, 8)


class Net(nn.Module):
    """A convolution, a BatchNorm and a linear layer, connected by a test."""

    def __init__(self, wiring: Callable[["Net", Tensor], Tensor] | None = None) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv = nn.Conv2d(3, 3, 3, padding=1)
        self.norm, self.other = (_with_statistics(nn.BatchNorm2d(3), seed) for seed in (1, 2))
        self.last = nn.Linear(3, 4)
        self.wiring = wiring

    def forward(self, images: Tensor) -> Tensor:
        maps = self.norm(self.conv(images)) if self.wiring is None else self.wiring(self, images)
        logits: Tensor = self.last(maps.relu().mean((2, 3)))
        return logits


def _with_statistics(norm: nn.BatchNorm2d, seed: int) -> nn.BatchNorm2d:
    rng = torch.Generator().manual_seed(seed)
    for tensor in (norm.running_mean, norm.running_var, norm.weight.data, norm.bias.data):
        assert tensor is not None
        tensor.copy_(torch.rand(3, generator=rng) + 0.1)
    return norm


class OwnConv(nn.Conv2d):
    def forward(self, input: Tensor) -> Tensor:
        return 2 * super().forward(input).relu()


class OwnNorm(nn.BatchNorm2d):
    def forward(self, input: Tensor) -> Tensor:
        normed: Tensor = super().forward(input)
        return normed.abs()


class OwnPool(nn.MaxPool2d):
    def forward(self, input: Tensor) -> Tensor:
        largest: Tensor = super().forward(-input)
        return -largest


class OwnCall(Net):
    def __call__(self, images: Tensor) -> Tensor:
        logits: Tensor = super().__call__(images)
        return 2 * logits


def patched(change: Callable[[Net], object]) -> Net:
    net = Net()
    change(net)
    return net


def _flip_forward(net: Net) -> None:
    plain = net.forward
    net.forward = lambda images: plain(images).flip(1)  # type: ignore[method-assign]


def _tied(net: Net) -> None:
    extra = net.extra = nn.Conv2d(3, 3, 3, padding=1)
    extra.weight = net.conv.weight
    net.wiring = lambda net, x: net.get_submodule("extra")(net.norm(net.conv(x)))


def _for_tracers_only(net: Net, images: Tensor) -> Tensor:
    """Branches when its input is not a tensor: a trace does not record what runs."""
    return net.norm(net.conv(images)) if isinstance(images, Tensor) else net.conv(images)  # type: ignore[no-any-return]


def _caught(net: Net, images: Tensor) -> Tensor:
    try:
        dark = bool(images.mean() < 10)
    except Exception:
        dark = False
    return net.norm(net.conv(images)) if dark else net.conv(images)  # type: ignore[no-any-return]


NETS: dict[str, Callable[[], nn.Module]] = {
    "plain": Net,
    "two norms on one convolution": lambda: Net(lambda n, x: n.norm(n.conv(x)) + n.other(n.conv(x.flip(3)))),
    "one convolution twice in a row": lambda: Net(lambda n, x: n.other(n.conv(n.norm(n.conv(x))))),
    "one norm twice": lambda: Net(lambda n, x: n.norm(n.conv(n.norm(x)))),
    "the convolution's output used twice": lambda: Net(lambda n, x: n.norm(n.conv(x)) + n.conv(x)),
    "the weight used elsewhere": lambda: Net(lambda n, x: n.norm(n.conv(x)) + F.conv2d(x, n.conv.weight, padding=1)),
    "the statistics used elsewhere": lambda: Net(
        lambda n, x: n.norm(n.conv(x)) * n.norm.get_buffer("running_mean").sum()
    ),
    "tied weights": lambda: patched(_tied),
    "hook on the convolution": lambda: patched(lambda n: n.conv.register_forward_hook(lambda *a: 3 * a[2])),
    "hook on the norm": lambda: patched(lambda n: n.norm.register_forward_hook(lambda *a: a[2].abs())),
    "hook before the norm": lambda: patched(lambda n: n.norm.register_forward_pre_hook(lambda *a: (3 * a[1][0],))),
    "hook on the whole": lambda: patched(lambda n: n.register_forward_hook(lambda *a: a[2].flip(1))),
    "hook before the whole": lambda: patched(lambda n: n.register_forward_pre_hook(lambda *a: (a[1][0].flip(3),))),
    "hook on a parent": lambda: nn.Sequential(patched(lambda n: n.register_forward_hook(lambda *a: a[2].flip(1)))),
    "own convolution": lambda: patched(lambda n: setattr(n, "conv", OwnConv(3, 3, 3, padding=1))),
    "own norm": lambda: patched(lambda n: setattr(n, "norm", OwnNorm(3))),
    "own pool": lambda: nn.Sequential(OwnPool(2), Net()),
    "own call": OwnCall,
    "patched forward": lambda: patched(_flip_forward),
    "weight norm": lambda: patched(lambda n: parametrizations.weight_norm(n.conv)),
    "spectral norm": lambda: patched(lambda n: parametrizations.spectral_norm(n.conv)),
    "no running statistics": lambda: patched(
        lambda n: setattr(n, "norm", nn.BatchNorm2d(3, track_running_stats=False))
    ),
    "no affine": lambda: patched(lambda n: setattr(n, "norm", nn.BatchNorm2d(3, affine=False))),
    "no bias": lambda: patched(lambda n: setattr(n, "conv", nn.Conv2d(3, 3, 3, bias=False))),
    "reflected borders": lambda: patched(
        lambda n: setattr(n, "conv", nn.Conv2d(3, 3, 3, padding=1, padding_mode="reflect"))
    ),
    "another way for tracers": lambda: Net(_for_tracers_only),
    "a branch behind a try": lambda: Net(_caught),
}


@pytest.mark.parametrize("make", NETS.values(), ids=NETS)
def test_folding_keeps_the_function_of(make: Callable[[], nn.Module]) -> None:
    model = make().eval()
    before = copy.deepcopy(model.state_dict())
    images = drawn(16, SHAPE) + 0.5 * torch.randn(16, *SHAPE)
    with torch.inference_mode():
        torch.testing.assert_close(folded(model, images)(images), model(images), rtol=1e-4, atol=1e-5)
    assert all(torch.equal(before[key], tensor) for key, tensor in model.state_dict().items())


PROVEN_BY_STRUCTURE = sorted(set(NETS) - {"another way for tracers", "a branch behind a try"})


@pytest.mark.parametrize("name", PROVEN_BY_STRUCTURE)
def test_no_probe_is_needed_for(name: str) -> None:
    model = NETS[name]().eval()
    images = torch.rand(16, *SHAPE)
    with torch.inference_mode():
        torch.testing.assert_close(folded(model)(images), model(images), rtol=1e-4, atol=1e-5)


def test_a_global_hook_stops_folding() -> None:
    handle = nn.modules.module.register_module_forward_hook(lambda *_: None)
    try:
        assert any(isinstance(module, nn.BatchNorm2d) for module in folded(Net()).modules())
    finally:
        handle.remove()


def test_plain_model_is_folded() -> None:
    fast = folded(Net(), torch.rand(4, *SHAPE))
    assert not any(isinstance(module, nn.BatchNorm2d) for module in fast.modules())


def test_a_model_in_training_mode_is_compared_in_eval_mode() -> None:
    model = Net().train()
    fast = folded(model, torch.rand(4, *SHAPE))
    assert not isinstance(fast, Net)
    assert model.training


def test_model_that_cannot_be_copied_is_not_folded() -> None:
    model = Net()
    model.kept = model.conv.weight * 1.0  # not a leaf: deepcopy refuses it
    assert folded(model) is model


SHAPES: dict[str, Shape] = dict.fromkeys(models.architectures(), (3, 32, 32)) | dict.fromkeys(
    ["lenet", "lenet_wide"], (1, 28, 28)
)


@pytest.mark.slow
@pytest.mark.parametrize("name", models.architectures())
def test_every_model_stays_folded(name: str) -> None:
    """The comparison refuses none: an unfolded model would be slower and round differently."""
    torch.manual_seed(0)
    shape = SHAPES[name]
    model = models.create(name, shape=shape, classes=10)
    model(torch.rand(4, *shape))
    images = drawn(8, shape) + 0.5 * torch.randn(8, *shape)
    assert isinstance(folded(model.eval(), images), torch.fx.GraphModule)


def spec_of(model: nn.Module, tmp_path: Path, **fields: Callable[[], Tensor]) -> EngineSpec:
    return EngineSpec(
        model.eval(), SHAPE, Gaussian(0.25), 32, tmp_path / "int8", lambda: torch.rand(64, *SHAPE), **fields
    )


def test_torch_is_compared_with_the_original_on_training_images(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fold that is wrong on the training images only, not on drawn images."""
    bright = torch.full((16, *SHAPE), 1.0)

    class Wrong(nn.Module):
        def __init__(self, model: nn.Module) -> None:
            super().__init__()
            self.model = model

        def forward(self, images: Tensor) -> Tensor:
            logits: Tensor = self.model(images)
            return torch.where(images.mean((1, 2, 3))[:, None] > 0.9, logits.flip(1), logits)

    monkeypatch.setattr(_folding, "_fold", Wrong)
    assert prepare(spec_of(Net(), tmp_path), "torch")[0] == "torch"
    for engine in ("torch", "auto"):
        with pytest.raises(
            ValueError, match=r"'torch' gives the trained model's class on 0 % of a probe, expected 100"
        ):
            prepare(spec_of(Net(), tmp_path, examples=lambda: bright), engine)


def test_a_wrong_fold_falls_back_to_the_original(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_folding, "_fold", lambda model: nn.Sequential(model, nn.Softmax(1)))
    model = Net()
    _, form = prepare(spec_of(model, tmp_path), "torch")
    images = torch.rand(4, *SHAPE)
    torch.testing.assert_close(form(images), model(images))
    assert isinstance(form, Net)


def test_probe_images_are_varied(tmp_path: Path) -> None:
    spec = spec_of(Net(), tmp_path)
    assert spec.probe.shape == (32, *SHAPE)
    assert drawn(32, SHAPE).flatten(1).std(1).max() > 0.2
    given = torch.rand(5, *SHAPE)
    few = spec_of(Net(), tmp_path, examples=lambda: given).probe
    noise = few - given[torch.arange(32) % 5]
    assert noise.std() == pytest.approx(0.25, rel=0.05)


@pytest.mark.parametrize("output", [lambda z: (z, z), lambda z: {"logits": z}, lambda z: torch.cat([z, z])])
def test_invalid_output_of_the_original_is_an_error(output: Callable[[Tensor], object], tmp_path: Path) -> None:
    class Odd(Net):
        def forward(self, images: Tensor) -> Tensor:
            return output(super().forward(images))  # type: ignore[return-value]

    for engine in ("torch", "auto"):
        with pytest.raises(ValueError, match="the base classifier returned"):
            prepare(spec_of(Odd(), tmp_path), engine)
