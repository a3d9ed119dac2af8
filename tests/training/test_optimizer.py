"""Optimisers and learning rates as a recipe states them."""

import math
from typing import Any

import pytest
import torch
from torch import nn

from radii.runs.recipe import Training
from radii.training.optimizer import learning_rate, make_optimizer


def training(**fields: Any) -> Training:
    return Training(**{"epochs": 10, "images_per_step": 1, "learning_rate": 1.0, **fields})


@pytest.mark.parametrize(
    ("fields", "kind", "group"),
    [
        ({}, torch.optim.SGD, {"momentum": 0.9, "nesterov": False, "weight_decay": 1e-4}),
        ({"nesterov": True, "momentum": 0.5}, torch.optim.SGD, {"momentum": 0.5, "nesterov": True}),
        (
            {"optimizer": "adamw", "weight_decay": 0.05},
            torch.optim.AdamW,
            {"betas": (0.9, 0.999), "weight_decay": 0.05},
        ),
    ],
)
def test_optimizer_matches_the_recipe(fields: dict[str, Any], kind: type, group: dict[str, Any]) -> None:
    optimizer = make_optimizer(training(**fields), nn.Linear(2, 2))
    assert type(optimizer) is kind
    assert {key: optimizer.param_groups[0][key] for key in group} == group


def test_nesterov_step_is_torchs() -> None:
    torch.manual_seed(0)
    ours, theirs = nn.Linear(3, 1), nn.Linear(3, 1)
    theirs.load_state_dict(ours.state_dict())
    own = make_optimizer(training(nesterov=True, learning_rate=0.1), ours)
    plain = torch.optim.SGD(theirs.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4, nesterov=True)
    for _ in range(3):
        for model, optimizer in ((ours, own), (theirs, plain)):
            optimizer.zero_grad()
            model(torch.ones(2, 3)).square().sum().backward()
            optimizer.step()
    torch.testing.assert_close(ours.weight, theirs.weight)


@pytest.mark.parametrize(
    "fields", [{"nesterov": True, "momentum": 0.0}, {"nesterov": True, "optimizer": "adamw"}], ids=["momentum", "adamw"]
)
def test_nesterov_without_momentum_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="nesterov needs optimizer = 'sgd' and a momentum > 0"):
        training(**fields)


@pytest.mark.parametrize("schedule", ["step", "cosine"])
def test_warm_up_rises_linearly_and_then_follows_the_schedule(schedule: str) -> None:
    plain, warm = training(schedule=schedule), training(schedule=schedule, warmup_epochs=4)
    for epoch in range(10):
        share = min(1.0, (epoch + 0.5) / 4)
        assert learning_rate(warm, epoch, 0.5) == pytest.approx(share * learning_rate(plain, epoch, 0.5))


def test_warm_up_longer_than_the_training_is_refused() -> None:
    with pytest.raises(ValueError, match="warmup_epochs = 11, expected at most the 10 epochs"):
        training(warmup_epochs=11)


@pytest.mark.parametrize(
    ("schedule", "rates"),
    [
        ({"schedule": "step", "decay_every": 2}, [1, 1, 0.1, 0.1]),
        ({"schedule": "multi_step", "decay_at": (1, 3)}, [1, 0.1, 0.1, 0.01]),
        ({"schedule": "cosine"}, [1, (1 + math.sqrt(0.5)) / 2, 0.5, (1 - math.sqrt(0.5)) / 2]),
    ],
)
def test_learning_rates_decay_at_the_stated_epoch(schedule: dict[str, Any], rates: list[float]) -> None:
    training = Training(epochs=4, images_per_step=1, learning_rate=1.0, **schedule)
    assert [learning_rate(training, epoch, 0.0) for epoch in range(4)] == pytest.approx(rates)


def test_one_cycle_rises_to_the_rate_and_falls_to_zero() -> None:
    training = Training(epochs=10, images_per_step=1, learning_rate=1.0, schedule="one_cycle")
    rates = [learning_rate(training, epoch, share / 10) for epoch in range(10) for share in range(10)]
    assert rates[0] == pytest.approx(0.04)
    assert rates.index(max(rates)) == 30
    assert rates[30] == pytest.approx(1.0)
    assert rates[-1] < 0.01
