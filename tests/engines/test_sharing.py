"""Every engine in a smoothed classifier: threads can share it, and its rows are independent."""

import importlib.util
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from radii import engines, models
from radii.engines import EngineSpec, SmoothedClassifier, prepare
from radii.engines.base import FixedBlock
from radii.smoothing.addresses import NoiseAddress
from radii.smoothing.noise import Gaussian
from tests.engines.networks import small_residual

SHAPE, BLOCK, ANSWERS = (1, 28, 28), 32, 24


def classifier_of(engine: str, model: nn.Module, folder: Path) -> SmoothedClassifier:
    if engine.startswith("openvino") and not importlib.util.find_spec("openvino"):
        pytest.skip("the extra radii[openvino] is not installed")
    if engine == "openvino_bf16" and not engines.create(engine).runs_on(torch.device("cpu")):
        pytest.skip("this CPU has no bfloat16 units")
    spec = EngineSpec(model, SHAPE, Gaussian(0.5), BLOCK, folder / "int8", lambda: torch.rand(256, *SHAPE))
    return SmoothedClassifier(prepare(spec, engine)[1], sigma=0.5, classes=10, batch_size=BLOCK)


def small() -> nn.Module:
    """Make a network whose passes cost little: a fault of sharing shows in any model."""
    torch.manual_seed(0)
    layers = (nn.Conv2d(1, 8, 5, 2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3), nn.ReLU(), nn.Flatten())
    return nn.Sequential(*layers, nn.Linear(256, 10)).eval()


@pytest.mark.slow
@pytest.mark.parametrize("probed", [True, False])
@pytest.mark.parametrize("engine", engines.names())
def test_threads_get_the_same_results_as_one_thread(engine: str, probed: bool, tmp_path: Path) -> None:
    classifier = classifier_of(engine, small(), tmp_path)
    images = torch.rand((ANSWERS, *SHAPE), generator=torch.Generator().manual_seed(1))

    def ask(number: int) -> list[int]:
        votes: list[int] = classifier.votes(images[number], 5 * BLOCK + 7, NoiseAddress(0, number)).tolist()
        return votes

    alone = [ask(number) for number in range(ANSWERS)] if probed else []
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(ask, range(ANSWERS)))
    assert together == (alone or [ask(number) for number in range(ANSWERS)])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["digits_cnn", "lenet", "cifar_resnet20"])
@pytest.mark.parametrize("engine", engines.names())
def test_no_engine_is_refused(engine: str, name: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    if (engine, name) == ("compile", "cifar_resnet20"):
        model = small_residual(SHAPE)  # twenty layers take a quarter of a minute to compile
    else:
        narrow = {"width": 8} if name == "cifar_resnet20" else {}
        model = models.create(name, shape=SHAPE, classes=10, **narrow)
        model(torch.rand(16, *SHAPE))
    classifier = classifier_of(engine, model.eval(), tmp_path)
    for samples in (BLOCK, BLOCK + 1, 3, 2 * BLOCK - 1):
        assert classifier.votes(torch.rand(SHAPE), samples, NoiseAddress(0)).sum() == samples


def test_a_larger_block_than_an_engine_was_prepared_for_is_refused() -> None:
    form = FixedBlock(lambda images: images.flatten(1)[:, :2], 16)
    assert form(torch.rand(5, 1, 2, 2)).shape == (5, 2)
    with pytest.raises(ValueError, match="prepared for blocks of up to 16 images, got 17: use batch_size 16"):
        form(torch.rand(17, 1, 2, 2))


def test_surplus_rows_are_refused_despite_padding() -> None:
    def twice(images: Tensor) -> Tensor:
        return images.flatten(1)[:, :2].repeat_interleave(2, 0)

    with pytest.raises(ValueError, match=r"returned \[32, 2\] for a block of 16"):
        FixedBlock(twice, 16)(torch.rand(5, 1, 2, 2))
