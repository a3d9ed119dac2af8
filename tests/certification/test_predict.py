"""The functions for one image."""

from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

import radii
from radii.smoothing import noise as noises


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


GREY = (np.arange(64, dtype=np.uint8) * 4).reshape(8, 8)


def test_every_kind_of_image_is_the_same_image() -> None:
    smoothed = radii.SmoothedClassifier(nn.Sequential(nn.Flatten(), nn.Linear(64, 3)), sigma=0.5, classes=3)
    tensor = torch.from_numpy(GREY).float()[None] / 255
    kinds: list[Any] = [
        tensor,
        GREY,
        GREY[..., None],
        tensor.numpy(),
        torch.from_numpy(GREY)[None],
        Image.fromarray(GREY),
    ]
    assert len({radii.predict(smoothed, kind, seed=0).counts for kind in kinds}) == 1


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "P"])
def test_colour_pictures_have_three_channels(mode: str) -> None:
    smoothed = radii.SmoothedClassifier(nn.Sequential(nn.Flatten(), nn.Linear(192, 3)), sigma=0.5, classes=3)
    colours = np.stack([GREY, GREY.T, GREY[::-1]], 2)
    picture = Image.fromarray(colours) if mode != "P" else Image.fromarray(GREY).convert("P")
    assert radii.predict(smoothed, picture.convert(mode), seed=0).samples == 1_000
    if mode == "RGB":
        found = [
            radii.predict(smoothed, each, seed=0).counts for each in (picture, colours, colours.transpose(2, 0, 1))
        ]
        assert len(set(found)) == 1


def test_bytes_are_on_the_grid_of_grid_noise() -> None:
    noise = noises.create("grid", sigma=0.25)
    smoothed = radii.SmoothedClassifier(nn.Sequential(nn.Flatten(), nn.Linear(64, 3)), noise=noise, classes=3)
    assert radii.predict(smoothed, GREY, seed=0).samples == 1_000
    with pytest.raises(ValueError, match="not multiples of 1/255"):
        radii.predict(smoothed, torch.from_numpy(GREY)[None] / 256, seed=0)


@pytest.mark.parametrize("batch", [torch.stack([IMAGE] * 3), [IMAGE] * 3, np.stack([IMAGE.numpy()] * 3)])
def test_batch_gives_a_list_and_each_image_its_own_noise(batch: Any) -> None:
    found = radii.certify(SMOOTHED, batch, seed=0, index=4, estimation=500)
    alone = [radii.certify(SMOOTHED, IMAGE, seed=0, index=4 + number, estimation=500) for number in range(3)]
    assert [each.counts for each in found] == [each.counts for each in alone]
    assert len({each.counts for each in found}) == 3


def test_labels_of_a_batch() -> None:
    found = radii.certify(SMOOTHED, [IMAGE, IMAGE], "sequential", label=[0, 1], seed=0)
    assert [each.prediction for each in found] == [0, radii.ABSTAIN]
    with pytest.raises(ValueError, match=r"label = \[0\], expected one for each of 2 images"):
        radii.certify(SMOOTHED, [IMAGE, IMAGE], "sequential", label=[0], seed=0)


def test_names_of_classes() -> None:
    smoothed = radii.SmoothedClassifier(Coin(), sigma=0.25, classes=2, names=("light", "dark"))
    assert radii.predict(smoothed, torch.ones(1, 2, 2)).name == "light"
    assert radii.predict(smoothed, torch.full((1, 2, 2), 0.5), seed=0).name is None, "it abstains"


ANY: Any = radii


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: ANY.predict(SMOOTHED, IMAGE, seed=0.5), "seed = 0.5, expected a whole number"),
        (lambda: radii.predict(SMOOTHED, IMAGE, seed=1 << 128), "expected a whole number >= 0, of 128 bits at most"),
        (lambda: ANY.predict(SMOOTHED, "a.png"), "the image is a str, expected a tensor"),
        (lambda: ANY.predict(Coin(), IMAGE), "the classifier is a Coin, expected a radii.SmoothedClassifier"),
        (lambda: ANY.certify(SMOOTHED, IMAGE, "sequential", label="a"), "label = 'a', expected a whole number"),
        (lambda: ANY.certify(SMOOTHED, IMAGE, "sequential", label=1.0), "label = 1.0, expected a whole number"),
        (lambda: ANY.certify(SMOOTHED, IMAGE, "sequential", label=True), "label = True, expected a whole number"),
        (lambda: ANY.predict(SMOOTHED, np.array([None])), "the image cannot be made one array of numbers"),
        (lambda: ANY.load(None), "run = None, expected the folder of a trained run"),
        (
            lambda: radii.SmoothedClassifier(Coin(), sigma=0.1, classes=2, names="ab"),
            "expected the name of every class",
        ),
    ],
)
def test_wrong_arguments_are_a_sentence(call: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        call()


def test_numbers_of_numpy_are_accepted() -> None:
    smoothed = ANY.SmoothedClassifier(Coin(), sigma=np.float32(0.25), classes=np.int64(2))
    assert repr(smoothed) == "SmoothedClassifier(Coin, noise=Gaussian(sigma=0.25), classes=2, engine='torch')"
    assert ANY.certify(smoothed, IMAGE, seed=np.int64(0), estimation=500).samples == 600
