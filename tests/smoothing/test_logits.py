"""Checks of a base's output: one row of finite logits per image, up to rounding."""

from collections.abc import Callable
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn

from radii.engines import SmoothedClassifier
from radii.errors import ParameterError
from radii.smoothing.addresses import NoiseAddress
from radii.smoothing.logits import rounding, same_up_to_rounding
from radii.smoothing.questions import Probabilities, Question, Task, Votes
from tools.voters import plain

IMAGE = torch.full((3, 4, 4), 0.5)
NOISE = NoiseAddress(0, 3, 1)


def smoothed(base: nn.Module) -> SmoothedClassifier:
    return plain(base, IMAGE, sigma=0.25, classes=2)


class Returns(nn.Module):
    """Classifies by the mean pixel, in various forms of output."""

    def __init__(self, form: Callable[[Tensor], object]) -> None:
        super().__init__()
        self.form = form

    def forward(self, images: Tensor) -> object:
        mean = images.flatten(1).mean(1)
        return self.form(torch.stack([mean, 1 - mean], 1))


FORMS: dict[str, tuple[Callable[[Tensor], object], str]] = {
    "two rows each": (lambda z: z.repeat_interleave(2, 0), r"\[256, 2\] for a block of 128, expected \[128, 2\]"),
    "augmented copies": (lambda z: torch.cat([z, z.flip(0)]), r"\[256, 2\] for a block of 128"),
    "half the rows": (lambda z: z[::2], r"\[64, 2\] for a block of 128"),
    "one row": (lambda z: z.mean(0, keepdim=True), r"\[1, 2\] for a block of 128"),
    "rows in columns": (lambda z: z.reshape(-1, 4), r"\[64, 4\] for a block of 128"),
    "transposed": (lambda z: z.T, r"\[2, 128\] for a block of 128"),
    "another width": (lambda z: z[:, :1], r"\[128, 1\] .*state the number of its classes"),
    "a map": (lambda z: z[:, :, None, None], r"\[128, 2, 1, 1\] for a block of 128"),
    "a scalar": (lambda z: z.sum(), r"returned \[\] for a block of 128"),
    "tuple": (lambda z: (z, z), "returned a tuple, expected one tensor of logits"),
    "list": (list, "returned a list, expected one tensor"),
    "dict": (lambda z: {"logits": z}, "returned a dict, expected one tensor"),
    "object": (lambda z: SimpleNamespace(scores=z), "returned a SimpleNamespace, expected one tensor"),
    "object of surplus rows": (lambda z: SimpleNamespace(logits=torch.cat([z, z])), r"\[256, 2\] for a block of 128"),
    "nothing": (lambda _: None, "returned a NoneType, expected one tensor"),
    "array": (lambda z: z.numpy(), "returned a ndarray, expected one tensor"),
    "truths": (lambda z: z > 0.5, "numbers of torch.bool, expected real logits"),
    "complex": (lambda z: z + 1j, "numbers of torch.complex64, expected real logits"),
}


@pytest.mark.parametrize("question", [Votes(0, 0, 300), Probabilities(0, 0, 300)], ids=["votes", "probabilities"])
@pytest.mark.parametrize(("form", "message"), FORMS.values(), ids=FORMS)
def test_output_other_than_one_row_of_logits_per_image_is_refused(
    form: Callable[[Tensor], object], message: str, question: Question
) -> None:
    with pytest.raises(ParameterError, match=message) as caught:
        smoothed(Returns(form)).count([Task(IMAGE, NOISE, question)])
    assert "\n" not in str(caught.value)


def test_surplus_rows_are_refused_after_the_probe() -> None:
    """Every block is checked: the output of a base may change later."""
    forms = [lambda z: z]
    classifier = smoothed(Returns(lambda z: forms[0](z)))
    classifier.votes(IMAGE, 256, NOISE)
    forms[0] = lambda z: torch.cat([z, z])
    with pytest.raises(ParameterError, match=r"returned \[256, 2\] for a block of 128"):
        classifier.votes(IMAGE, 256, NOISE)


@pytest.mark.parametrize("error", [RuntimeError("a\nb"), TypeError("a"), IndexError("a"), AssertionError()])
def test_error_of_the_base_becomes_one_sentence(error: Exception) -> None:
    def fail(_: Tensor) -> Tensor:
        raise error

    with pytest.raises(
        ParameterError, match=f"does not take 128 images of 3 x 4 x 4.*{type(error).__name__}"
    ) as caught:
        smoothed(Returns(fail)).votes(IMAGE, 10, NOISE)
    assert "\n" not in str(caught.value)


def test_rounding_is_relative_to_the_usual_logit() -> None:
    logits = torch.tensor([[10.0, 0.001, -8.0], [9.0, 0.002, -1e9]])
    moved = rounding(logits)
    assert moved[0, 1] == moved[0, 0] == pytest.approx(256 * 2.0**-23 * 10)
    assert moved[1, 2] == pytest.approx(256 * 2.0**-23 * 1e9)


def test_rounding_grows_with_coarser_types_up_to_a_limit() -> None:
    logits = torch.ones(1, 2)
    assert rounding(logits.double())[0, 0] == rounding(logits)[0, 0]
    assert rounding(logits.bfloat16())[0, 0] == pytest.approx(0.05)


def test_many_changed_classes_are_not_rounding() -> None:
    ties = torch.ones(200, 2)
    turned = ties.clone()
    turned[:2, 1] += 1e-6
    assert same_up_to_rounding(turned, ties)
    turned[:3, 1] += 1e-6
    assert not same_up_to_rounding(turned, ties)
