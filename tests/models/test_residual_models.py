"""Residual networks: their last feature maps, the names of their layers, their initial weights."""

import copy

import pytest
import torch
from torch import nn

from radii.models import create
from radii.models._blocks import Bottleneck
from radii.models.base import Shape


@pytest.mark.parametrize(
    ("name", "maps"),
    [
        ("cifar_resnet20", (64, 8, 8)),
        ("cifar_resnet110", (64, 8, 8)),
        ("resnext29_2x64d", (1024, 8, 8)),
        ("dla", (512, 4, 4)),
        ("regnetx_200mf", (368, 8, 8)),
        ("regnetx_4gf", (1360, 7, 7)),
        ("resnet18", (512, 7, 7)),
        ("resnet50", (2048, 7, 7)),
        ("wide_resnet34_10", (640, 8, 8)),
    ],
)
def test_feature_maps_before_global_average_pooling(name: str, maps: tuple[int, ...]) -> None:
    with torch.device("meta"):
        model = create(name).eval()
    seen: list[tuple[int, ...]] = []
    pool = model.get_submodule("1.avgpool")
    pool.register_forward_pre_hook(lambda _, inputs: seen.append(tuple(inputs[0].shape[1:])))
    side = 224 if maps[-1] == 7 else 32
    model(torch.empty((1, 3, side, side), device="meta"))
    assert seen == [maps]


def block_keys(prefix: str, convolutions: int, downsample: bool) -> set[str]:
    batch_norm = ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")
    pairs = [(f"{prefix}conv{n}", f"{prefix}bn{n}") for n in range(1, convolutions + 1)]
    pairs += [(f"{prefix}downsample.0", f"{prefix}downsample.1")] * downsample
    return {f"{conv}.weight" for conv, _ in pairs} | {f"{bn}.{key}" for _, bn in pairs for key in batch_norm}


@pytest.mark.parametrize(
    ("name", "depths", "convolutions"),
    [
        ("cifar_resnet20", (3, 3, 3), 2),
        ("cifar_resnet110", (18, 18, 18), 2),
        ("resnet18", (2, 2, 2, 2), 2),
        ("resnet50", (3, 4, 6, 3), 3),
    ],
)
def test_state_dict_keys_of_published_weights(name: str, depths: tuple[int, ...], convolutions: int) -> None:
    expected = block_keys("", 1, downsample=False) | {"fc.weight", "fc.bias"}
    for stage, depth in enumerate(depths, 1):
        for block in range(depth):
            downsample = block == 0 and (stage > 1 or convolutions == 3)
            expected |= block_keys(f"layer{stage}.{block}.", convolutions, downsample)
    with torch.device("meta"):
        assert set(create(name)[1].state_dict()) == expected


@pytest.mark.parametrize(
    ("name", "shape"), [("cifar_resnet20", (1, 28, 28)), ("cifar_resnet20", (1, 8, 8)), ("fast_resnet", (1, 28, 28))]
)
def test_residual_networks_on_grey_images(name: str, shape: Shape) -> None:
    logits = create(name, shape=shape).train()(torch.rand(2, *shape))
    assert logits.shape == (2, 10)
    assert logits.isfinite().all()


def test_global_average_pooling_equals_the_pooling_of_the_paper() -> None:
    network = create("cifar_resnet20").eval().double()[1]
    assert isinstance(network, nn.Sequential)
    pooled = copy.deepcopy(network)
    pooled.avgpool = nn.AvgPool2d(8)
    images = torch.rand(2, 3, 32, 32, dtype=torch.float64)
    assert torch.allclose(network(images), pooled(images), rtol=1e-12)


def test_convolutions_are_initialised_by_fan_out() -> None:
    torch.manual_seed(0)
    for module in create("cifar_resnet20").modules():
        if isinstance(module, nn.Conv2d):
            fan_out = module.kernel_size[0] * module.kernel_size[1] * module.out_channels
            weights = module.weight.detach()
            excess = float(weights.std()) / (2 / fan_out) ** 0.5 - 1
            assert abs(excess) < 4 / (2 * weights.numel()) ** 0.5


@pytest.mark.parametrize(("width", "parameters"), [(16, 412_944), (64, 6_573_120)])
def test_fast_resnet_parameters_by_width(width: int, parameters: int) -> None:
    with torch.device("meta"):
        assert sum(parameter.numel() for parameter in create("fast_resnet", width=width).parameters()) == parameters
    with pytest.raises(ValueError, match="model 'fast_resnet': width = 0, expected a number >= 1"):
        create("fast_resnet", width=0)


def test_regnetx_4gf_residual_branches_start_at_zero() -> None:
    blocks = [block for block in create("regnetx_4gf").modules() if isinstance(block, Bottleneck)]
    assert len(blocks) == 2 + 5 + 14 + 2
    assert not any(block.bn3.weight.any() for block in blocks)


def test_wide_block_normalises_before_a_shortcut_that_changes_shape() -> None:
    network = create("wide_resnet34_10").eval()[1]
    first, second = network.get_submodule("layer1.0"), network.get_submodule("layer1.1")
    nn.init.zeros_(first.get_parameter("conv2.weight"))
    nn.init.zeros_(second.get_parameter("conv2.weight"))
    maps = torch.randn(1, 16, 4, 4)
    with torch.inference_mode():
        wide = first(maps)
        shortcut = first.get_submodule("downsample")(first.get_submodule("bn1")(maps).relu())
        assert torch.equal(wide, shortcut)
        assert torch.equal(second(wide), wide)
