"""Context managers that change a model's mode restore it afterwards."""

import pytest
from torch import nn

from radii.smoothing.forward import evaluating, frozen


def model() -> nn.Sequential:
    made = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.BatchNorm1d(2), nn.Dropout()), nn.Linear(2, 2))
    made[1].eval()
    made[2].bias.requires_grad_(False)
    return made


def state(module: nn.Module) -> list[bool]:
    return [m.training for m in module.modules()] + [p.requires_grad for p in module.parameters()]


@pytest.mark.parametrize("fails", [False, True])
def test_frozen_restores_modes_and_gradients(fails: bool) -> None:
    held = model()
    before = state(held)
    try:
        with frozen(held):
            assert not any(state(held))
            if fails:
                raise KeyError
    except KeyError:
        pass
    assert state(held) == before


def test_evaluating_does_not_change_requires_grad() -> None:
    held = model()
    before = state(held)
    with evaluating(held):
        assert not any(module.training for module in held.modules())
        assert [p.requires_grad for p in held.parameters()] == before[-len(list(held.parameters())) :]
    assert state(held) == before
