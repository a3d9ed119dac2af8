import importlib.util
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import radii
from radii import engines, models
from radii.engines import EngineSpec, SmoothedClassifier, agreement, base, folded, openvino_bf16, prepare
from radii.engines.base import Engine
from radii.smoothing.noise import Gaussian
from tests.engines.networks import small_residual, with_statistics


def trained_like(name: str, shape: tuple[int, int, int]) -> nn.Module:
    """A model whose BatchNorm has running statistics."""
    torch.manual_seed(0)
    return with_statistics(models.create(name, shape=shape, classes=10), shape)


@pytest.mark.parametrize("name", ["cifar_resnet20", "digits_cnn"])
def test_folding_keeps_the_function(name: str) -> None:
    shape = (1, 8, 8)
    model = trained_like(name, shape)
    fast = folded(model)
    images = torch.rand(8, *shape)
    with torch.inference_mode():
        torch.testing.assert_close(fast(images), model(images), rtol=1e-4, atol=1e-5)
    assert not any(isinstance(module, nn.BatchNorm2d) for module in fast.modules())


def test_a_model_that_cannot_be_traced_is_left_as_it_is() -> None:
    class Branching(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 2)

        def forward(self, images: Tensor) -> Tensor:
            flat = images.flatten(1)
            return self.layer(flat if flat.sum() > 0 else -flat)  # type: ignore[no-any-return]

    model = Branching().eval()
    images = torch.rand(3, 1, 2, 2)
    assert torch.equal(folded(model)(images), model(images))


def engine_spec(tmp_path: Path) -> EngineSpec:
    shape = (1, 8, 8)
    return EngineSpec(
        small_residual(shape),
        shape,
        Gaussian(0.25),
        32,
        tmp_path / "int8",
        lambda: torch.rand(256, *shape),
    )


def skip_without_its_extra(engine: str) -> None:
    extra = engine.removesuffix("_int8").removesuffix("_bf16")
    if extra in ("onnx", "openvino") and not importlib.util.find_spec(extra):
        pytest.skip(f"the extra radii[{extra}] is not installed")
    if engine == "openvino_bf16" and not engines.create(engine).runs_on(torch.device("cpu")):
        pytest.skip("this CPU has no bfloat16 units")


@pytest.mark.slow
@pytest.mark.parametrize("engine", engines.names())
def test_every_engine_agrees_with_plain_torch(engine: str, tmp_path: Path) -> None:
    skip_without_its_extra(engine)
    name, form = prepare(engine_spec(tmp_path), engine)
    assert name == engine
    short = torch.rand(5, 1, 8, 8)
    with torch.inference_mode():
        assert form(short).shape == (5, 10)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["torch", "onnx", "openvino", "openvino_bf16", "openvino_int8"])
def test_engine_radius_does_not_exceed_the_distance_to_a_plane(engine: str, tmp_path: Path) -> None:
    skip_without_its_extra(engine)
    torch.manual_seed(0)
    shape, sigma = (3, 32, 32), 0.25
    plane = torch.randn(3072) / 3072**0.5
    layer = nn.Linear(3072, 2)
    with torch.no_grad():
        layer.weight.copy_(torch.stack([torch.zeros(3072), plane]))
        layer.bias.copy_(torch.tensor([float(plane.sum()) / 2 + 0.2, 0.0]))
    model = nn.Sequential(nn.Flatten(), layer).eval()
    made = EngineSpec(model, shape, Gaussian(sigma), 64, tmp_path / "int8", lambda: torch.rand(128, *shape))
    smoothed = SmoothedClassifier(prepare(made, engine)[1], sigma=sigma, classes=2, batch_size=64)
    # Quantisation and coarse rounding move the plane: what it is certified for is the plane that runs.
    slack = 0.05 if engine.endswith(("int8", "bf16")) else 1e-4
    for number in range(8):
        image = torch.rand(shape, generator=torch.Generator().manual_seed(number))
        distance = abs(float(image.flatten() @ plane - layer.bias.detach()[0])) / float(plane.norm())
        proof = radii.certify(smoothed, image, seed=number, estimation=1_000)
        assert proof.radius <= distance + slack


@pytest.mark.slow
def test_auto_chooses_an_installed_engine_that_agrees(tmp_path: Path) -> None:
    name, form = prepare(engine_spec(tmp_path), "auto")
    assert name in ("torch", "openvino")
    assert agreement(engine_spec(tmp_path), form) == 1.0


def test_an_engine_that_disagrees_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Stuck(nn.Module):
        def forward(self, images: Tensor) -> Tensor:
            return torch.arange(10.0).repeat(len(images), 1)

    class StuckEngine(Engine):
        def prepare(self, spec: EngineSpec) -> nn.Module:
            return Stuck()

    monkeypatch.setattr(base, "create", lambda _: StuckEngine())
    with pytest.raises(ValueError, match="gives the trained model's answer on [0-9.]+ % of a probe, expected 100 %"):
        prepare(engine_spec(tmp_path), "stuck")


@pytest.mark.slow
@pytest.mark.skipif(not importlib.util.find_spec("openvino"), reason="the extra radii[openvino] is not installed")
def test_bf16_is_refused_where_the_cpu_would_only_pretend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openvino_bf16, "capabilities", lambda: ["FP32", "INT8"])
    assert not engines.create("openvino_bf16").runs_on(torch.device("cpu"))
    with pytest.raises(LookupError, match="needs a CPU with bfloat16 units: use 'openvino'"):
        prepare(engine_spec(tmp_path), "openvino_bf16")


@pytest.mark.slow
def test_bf16_rounds_and_openvino_does_not(tmp_path: Path) -> None:
    skip_without_its_extra("openvino_bf16")
    spec = engine_spec(tmp_path)
    coarse, fine = (engines.create(name).prepare(spec) for name in ("openvino_bf16", "openvino"))
    assert agreement(spec, fine) == 1.0
    assert agreement(spec, coarse) < 1.0 <= agreement(spec, coarse, exact=False) + 0.05


def test_an_unknown_engine_is_named(tmp_path: Path) -> None:
    with pytest.raises(LookupError, match="did you mean 'openvino'"):
        prepare(engine_spec(tmp_path), "openvin")


class Coarse(nn.Module):
    """Gives logits of 8 bits, whose rounding is as large as zeros' would be without a limit."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return torch.stack([images.flatten(1).sum(1), images.flatten(1).amax(1)], 1).bfloat16()


class Nothing(nn.Module):
    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return torch.zeros(len(images), 2)


def test_an_engine_that_returns_zeros_never_agrees(tmp_path: Path) -> None:
    spec = replace(engine_spec(tmp_path), original=Coarse())
    assert agreement(spec, Coarse()) == 1.0
    assert agreement(spec, Nothing()) < 0.5


@pytest.mark.parametrize("name", ["torch_bf16", "torch_fp16"])
def test_engines_of_16_bits_round_and_are_functions_of_their_own(name: str, tmp_path: Path) -> None:
    spec = engine_spec(tmp_path)
    form = engines.create(name).prepare(spec)
    assert agreement(spec, form) < 1.0 <= agreement(spec, form, exact=False) + 0.05
    assert form(spec.probe).dtype == {"torch_bf16": torch.bfloat16, "torch_fp16": torch.float16}[name]
    assert not engines.create(name).automatic


def test_an_engine_of_the_cpu_serves_a_model_on_another_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[torch.device] = []

    class CpuOnly(Engine):
        @classmethod
        def runs_on(cls, device: torch.device) -> bool:
            return device.type == "cpu"

        def prepare(self, spec: EngineSpec) -> nn.Module:
            seen.append(spec.device)
            return spec.model

    monkeypatch.setattr(base, "create", lambda _: CpuOnly())
    spec = engine_spec(tmp_path)
    monkeypatch.setattr(EngineSpec, "device", property(lambda self: torch.device("meta" if self is spec else "cpu")))
    monkeypatch.setattr(base, "_expect_agreement", lambda *_: None)
    spec.__dict__["expected"] = torch.zeros(1, 10)
    name, form = prepare(spec, "own")
    assert (name, type(form), seen) == ("own", base.OnCpu, [torch.device("cpu")])
    images = torch.zeros(2, *spec.shape)
    torch.testing.assert_close(form(images), spec.original(images))


def test_full_disk_names_the_file_of_an_engine_and_not_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    openvino = pytest.importorskip("openvino", reason="the extra radii[openvino] is not installed")
    pytest.importorskip("nncf", reason="the extra radii[int8] is not installed")
    spec = replace(engine_spec(tmp_path), original=trained_like("digits_cnn", (1, 8, 8)))
    monkeypatch.setattr("radii.engines.openvino_int8._quantised", lambda model, _: model)

    def full(*_: object, **__: object) -> None:
        raise RuntimeError("basic_ios::clear: iostream error")

    with monkeypatch.context() as patch:
        patch.setattr(openvino, "save_model", full)
        with pytest.raises(OSError, match=r"OpenVINO cannot write this file: is the disk full\?: '.*int8.xml'"):
            prepare(spec, "openvino_int8")
    with monkeypatch.context() as patch:
        patch.setattr("radii.disk.os.write", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
        with pytest.raises(OSError, match=r"No space left on device: '.*int8"):
            prepare(spec, "openvino_int8")
