"""The probe of a base: a base whose rows depend on each other is refused, and no other is."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from radii import models
from radii.engines import SmoothedClassifier, folded
from radii.models.base import Shape
from radii.smoothing.addresses import NoiseAddress
from tools.stress.classifiers import BY_COMPANY, BY_LENGTH, BY_PLACE, HONEST, Base, Fault
from tools.voters import plain

IMAGE = torch.rand((1, 8, 8), generator=torch.Generator().manual_seed(0))
NOISE = NoiseAddress(0)


def votes(base: nn.Module, samples: int = 128 + 37, batch_size: int = 128) -> None:
    plain(base, IMAGE, sigma=0.5, classes=3, batch_size=batch_size).votes(IMAGE, samples, NOISE)


@pytest.mark.parametrize("fault", BY_COMPANY.values(), ids=BY_COMPANY)
def test_dependence_on_the_other_rows_is_refused(fault: Fault) -> None:
    with pytest.raises(ValueError, match="depends on the other images of its block"):
        votes(Base(fault))


@pytest.mark.parametrize("batch_size", [128, 127])
@pytest.mark.parametrize("fault", BY_PLACE.values(), ids=BY_PLACE)
def test_dependence_on_the_position_is_refused(fault: Fault, batch_size: int) -> None:
    with pytest.raises(ValueError, match="depends on its position in the block"):
        votes(Base(fault), batch_size=batch_size)


@pytest.mark.parametrize("fault", BY_LENGTH.values(), ids=BY_LENGTH)
def test_dependence_on_the_block_length_is_refused(fault: Fault) -> None:
    with pytest.raises(ValueError, match="depends on the length of its block"):
        votes(Base(fault))


def test_a_length_that_never_runs_does_not_matter() -> None:
    odd = Base(lambda logits, _: logits.flip(1) if len(logits) == 37 else logits)
    found, expected = (
        plain(base, IMAGE, sigma=0.5, classes=3).votes(IMAGE, 37, NOISE).tolist()
        for base in (odd, Base(HONEST["plain"]))
    )
    assert found == expected


@pytest.mark.parametrize(
    ("layer", "name"),
    [
        (nn.BatchNorm2d(1, track_running_stats=False), "'0', BatchNorm2d, uses the statistics of the block"),
        (nn.BatchNorm2d(1), ""),
    ],
)
def test_batch_norm_of_the_block_is_named(layer: nn.Module, name: str) -> None:
    classify = nn.Sequential(nn.Flatten(), nn.Linear(64, 3))
    if not name:  # in a list, which eval() does not reach
        hidden = [layer.train()]
        base: nn.Module = Base(lambda _, images: classify(hidden[0](images)))
    else:
        base = nn.Sequential(layer, classify)
    with pytest.raises(ValueError, match=f"depends on the other images.*{name}"):
        votes(base)


@pytest.mark.filterwarnings("ignore")
def test_dynamic_quantisation_is_named() -> None:
    torch.manual_seed(0)
    plain = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 3))
    quantised = torch.ao.quantization.quantize_dynamic(plain, {nn.Linear}, dtype=torch.qint8)
    with pytest.raises(ValueError, match="'1', Linear, is quantised by the range of the block"):
        votes(quantised)


def test_a_base_that_turns_logits_within_rounding_is_refused() -> None:
    """Two tied classes, decided by the other rows: no logit differs by more than rounding."""

    def coin(logits: Tensor, images: Tensor) -> Tensor:
        tie = torch.full((len(images), 3), 1e3)
        tie[:, 1] += 1e-3 * torch.sign(logits[:, 0] - logits[:, 0].roll(1, 0))
        return tie

    with pytest.raises(ValueError, match="depends on the other images"):
        votes(Base(coin))


def test_masked_class_does_not_raise_the_tolerance() -> None:
    def masked(logits: Tensor, _: Tensor) -> Tensor:
        return torch.cat([(logits + 1e-3 * logits.mean(0))[:, :2], torch.full((len(logits), 1), -1e9)], 1)

    with pytest.raises(ValueError, match="depends on the other images"):
        votes(Base(masked))


@pytest.mark.parametrize("fault", HONEST.values(), ids=HONEST)
@pytest.mark.parametrize("batch_size", [1, 2, 3, 128])
def test_row_independent_base_is_not_refused(fault: Fault, batch_size: int) -> None:
    votes(Base(fault), batch_size=batch_size)


def test_a_model_in_half_precision_is_not_refused() -> None:
    base = models.create("digits_cnn").eval().bfloat16()
    votes_of = SmoothedClassifier(nn.Sequential(_Cast(), base), sigma=0.5, classes=10).votes
    assert votes_of(IMAGE, 200, NOISE).sum() == 200


class _Cast(nn.Module):
    def forward(self, images: Tensor) -> Tensor:
        return images.bfloat16()


SHAPES: dict[str, Shape] = {
    **dict.fromkeys(models.architectures(), (3, 32, 32)),
    **dict.fromkeys(["lenet", "lenet_wide"], (1, 28, 28)),
    "wide_resnet34_10": (3, 8, 8),  # ten seconds with 32 x 32 pixels
}


@pytest.mark.slow
@pytest.mark.parametrize("form", [lambda model: model, folded], ids=["plain", "folded"])
@pytest.mark.parametrize("name", models.architectures())
def test_no_model_is_refused(name: str, form: Callable[[nn.Module], nn.Module]) -> None:
    torch.manual_seed(0)
    shape = SHAPES[name]
    model = models.create(name, shape=shape, classes=10)
    model(torch.rand(4, *shape))  # statistics for BatchNorm
    classifier = SmoothedClassifier(form(model.eval()), sigma=0.5, classes=10, batch_size=8)
    assert classifier.votes(torch.rand(shape), 11, NOISE).sum() == 11


def test_probe_runs_once_and_does_not_change_certificates() -> None:
    rows: list[int] = []

    def keep(logits: Tensor, _: Tensor) -> Tensor:
        rows.append(len(logits))
        return logits

    classifier = plain(Base(keep), IMAGE, sigma=0.5, classes=3)
    first = classifier.votes(IMAGE, 256, NOISE)
    assert rows == [128] * 4 + [1, 64] + [128, 128]
    rows.clear()
    assert (classifier.votes(IMAGE, 256, NOISE) == first).all()
    assert rows == [128, 128]
    rows.clear()
    classifier.votes(IMAGE, 20, NOISE)
    classifier.votes(IMAGE, 20, NOISE)
    assert rows == [128, 128]


def test_another_base_is_probed_again() -> None:
    classifier = SmoothedClassifier(Base(lambda z, _: z), sigma=0.5, classes=3)
    classifier.votes(IMAGE, 10, NOISE)
    classifier.base = Base(BY_PLACE["odd places"])
    with pytest.raises(ValueError, match="position in the block"):
        classifier.votes(IMAGE, 10, NOISE)


def test_a_base_that_learns_between_two_lengths_is_not_refused() -> None:
    base = Base(lambda z, _: z)
    classifier = SmoothedClassifier(base, sigma=0.5, classes=3)
    classifier.votes(IMAGE, 128, NOISE)
    with torch.no_grad():
        base.get_parameter("layers.1.weight").mul_(-1)
    assert classifier.votes(IMAGE, 20, NOISE).sum() == 20


def test_a_small_sum_of_large_numbers_is_not_refused() -> None:
    """Rounding is relative to the terms of a sum: a row whose logits cancel differs by more than its own size says."""
    torch.manual_seed(0)
    layer = nn.Linear(3072, 2)
    with torch.no_grad():
        layer.weight[1] = -layer.weight[0]
        layer.bias.zero_()
    for seed in range(20):
        image = torch.rand(3, 32, 32, generator=torch.Generator().manual_seed(seed))
        with torch.no_grad():
            layer.bias[0] = -(layer.weight[0] @ image.flatten())
            layer.bias[1] = -layer.bias[0]
        classifier = SmoothedClassifier(nn.Sequential(nn.Flatten(), layer), sigma=0.5, classes=2)
        assert classifier.votes(image, 130, NOISE).sum() == 130
