"""Folding keeps the function of any model, or does not change the model."""

import copy
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from radii import models
from radii.engines import EngineSpec, _folding, base, drawn, folded, prepare
from radii.models.base import Shape
from radii.smoothing.noise import Gaussian
from tools.stress.classifiers import NETS, SHAPE, Net


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


SHAPES: dict[str, Shape] = {
    **dict.fromkeys(models.architectures(), (3, 32, 32)),
    **dict.fromkeys(["lenet", "lenet_wide"], (1, 28, 28)),
    "wide_resnet34_10": (3, 8, 8),  # ten seconds with 32 x 32 pixels
}


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
            ValueError, match=r"'torch' gives the trained model's answer on 0 % of a probe, expected 100"
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


def test_a_model_that_an_engine_cannot_convert_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> nn.Module:
        raise RuntimeError("Couldn't get TorchScript module by tracing.\nMany lines")

    monkeypatch.setattr("radii.engines.compile.Compile.prepare", fail)
    with pytest.raises(
        ValueError, match=r"'compile' cannot convert this model \(RuntimeError: .* tracing\.\): use 'torch'"
    ):
        prepare(spec_of(Net(), tmp_path), "compile")


def test_auto_leaves_out_an_engine_that_cannot_convert_a_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> nn.Module:
        raise RuntimeError("no such operator")

    for engine in base._automatic(spec_of(Net(), tmp_path)):
        monkeypatch.setattr(type(engine), "prepare", fail)
    assert prepare(spec_of(Net(), tmp_path), "auto")[0] == "torch"
