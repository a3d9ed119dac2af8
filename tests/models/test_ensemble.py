"""Ensembles: the mean logits of their members, and fewer of them where the first agree."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from radii import models
from radii.models.ensemble import Ensemble


class Fixed(nn.Module):
    """Answers the same logits for an image whatever the other rows are, and counts the rows that it was asked."""

    def __init__(self, answer: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.answer, self.rows = answer, 0

    def forward(self, images: Tensor) -> Tensor:
        self.rows += len(images)
        return self.answer(images)


def linear(seed: int) -> Fixed:
    weight = torch.randn(4, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return Fixed(lambda images: images @ weight)


def images(count: int = 64) -> Tensor:
    return torch.randn(count, 4, generator=torch.Generator().manual_seed(9), dtype=torch.float64)


def test_logits_are_the_mean_of_the_members() -> None:
    members = [linear(seed) for seed in range(3)]
    expected = torch.stack([member(images()) for member in members]).mean(0)
    torch.testing.assert_close(Ensemble(list(members)).eval()(images()), expected)


def test_consensus_evaluates_the_others_only_where_the_first_disagree() -> None:
    members = [linear(seed) for seed in range(4)]
    logits = torch.stack([member(images()) for member in members])
    agree = logits[0].argmax(1) == logits[1].argmax(1)
    assert 0 < int(agree.sum()) < len(agree)
    for member in members:
        member.rows = 0
    ensemble = Ensemble(list(members), consensus=2).eval()
    expected = torch.where(agree[:, None], logits[:2].mean(0), logits.mean(0))
    torch.testing.assert_close(ensemble(images()), expected)
    assert [member.rows for member in members] == [64, 64, 64 - int(agree.sum()), 64 - int(agree.sum())]


def test_consensus_row_does_not_depend_on_its_company() -> None:
    ensemble = Ensemble([linear(seed) for seed in range(4)], consensus=2).eval()
    alone = torch.cat([ensemble(image[None]) for image in images()])
    torch.testing.assert_close(ensemble(images()), alone)


def test_traced_consensus_is_the_same_function() -> None:
    ensemble = Ensemble([nn.Linear(4, 3, dtype=torch.float64) for _ in range(4)], consensus=2).eval()
    traced = torch.jit.trace(ensemble, images(2))
    torch.testing.assert_close(traced(images()), ensemble(images()))


def test_training_uses_all_members() -> None:
    members = [linear(seed) for seed in range(3)]
    ensemble = Ensemble(list(members), consensus=1).train()
    expected = torch.stack([member(images()) for member in members]).mean(0)
    torch.testing.assert_close(ensemble(images()), expected)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"members": ("digits_cnn",)}, "model 'ensemble' has 1 members, expected at least 2"),
        ({"members": ("digits_cnn", "digits_mlp"), "consensus": 2}, "consensus = 2, expected less than the 2 members"),
        ({"members": ("digits_cnn", "digits_mlp"), "consensus": -1}, "consensus = -1, expected a number >= 0"),
        ({"members": "digits_cnn"}, "expected a list"),
        ({}, "needs the field 'members'"),
    ],
)
def test_wrong_fields_are_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises((ValueError, LookupError), match=message):
        models.create("ensemble", shape=(1, 8, 8), classes=10, **fields)
