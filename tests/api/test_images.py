"""The functions for one image."""

import pytest
import torch
from torch import Tensor, nn

import radii


class Coin(nn.Module):
    """Two classes, by the sign of the noise of the first pixel."""

    def forward(self, images: Tensor) -> Tensor:
        above = images.flatten(1)[:, :1] - 0.5
        return torch.cat([above, -above], 1)


SMOOTHED = radii.SmoothedClassifier(Coin(), sigma=0.25, classes=2)
IMAGE = torch.full((1, 2, 2), 0.55)


def test_every_image_of_a_dataset_has_its_own_noise() -> None:
    found = [radii.certify(SMOOTHED, IMAGE, seed=0, index=index, estimation=500).counts for index in range(20)]
    assert len(set(found)) > 10
    assert found[0] == radii.certify(SMOOTHED, IMAGE, seed=0, estimation=500).counts, "the first image is number 0"


def test_noise_without_a_seed_is_fresh() -> None:
    assert len({radii.certify(SMOOTHED, IMAGE, estimation=500).counts for _ in range(20)}) > 5


@pytest.mark.parametrize("name", ["seed", "index"])
def test_a_negative_number_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} = -1, expected a whole number >= 0"):
        radii.predict(SMOOTHED, IMAGE, "prediction", **{name: -1})


def test_a_prediction_has_no_radius() -> None:
    for procedure in ("prediction", "fixed", "soft"):
        found = radii.predict(SMOOTHED, torch.ones(1, 2, 2), procedure, seed=0, index=1)
        assert (found.prediction, found.radius) == (0, 0.0)
