"""Models by name and of one's own, and what is refused with one sentence."""

from pathlib import Path

import pytest
import torch

from radii.models import create
from radii.models.base import Shape
from radii.smoothing.normalisation import CIFAR10


@pytest.mark.parametrize(
    ("name", "shape", "told"),
    [
        ("lenet", (1, 8, 8), "lenet takes images of at least 16 x 16 pixels, got 8 x 8"),
        ("vit", (1, 28, 28), "vit takes images whose sides are divisible by 8, got 28 x 28"),
        ("vit", (3, 32, 0), "shape = .*, expected channels, height and width, each at least 1"),
        ("cifar_resnet20", (32, 32), "shape = .*, expected channels, height and width"),
    ],
)
def test_refused_shapes(name: str, shape: Shape, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        create(name, shape=shape)


def test_too_few_classes_are_refused() -> None:
    with pytest.raises(ValueError, match="classes = 1, expected at least 2"):
        create("lenet", classes=1)


def test_normalisation_of_other_channels_is_refused() -> None:
    with pytest.raises(ValueError, match="of 3 channels, expected 1"):
        create("lenet", normalisation=CIFAR10)


OWN = """
from torch import nn

def linear(shape=(1, 4, 4), classes=3):
    return nn.Sequential(nn.Flatten(), nn.Linear(shape[0] * shape[1] * shape[2], classes))

def bare(shape, classes):
    return linear(shape, classes)

def shapeless(classes):
    return nn.Linear(1, classes)

def text(shape=None, classes=None):
    return "a model"

number = 3
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    name = f"own_{tmp_path.name}"
    (tmp_path / f"{name}.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return name


def test_a_model_of_ones_own(own: str) -> None:
    assert create(f"{own}:linear")(torch.zeros(2, 1, 4, 4)).shape == (2, 3)
    assert create(f"{own}:bare", shape=(3, 5, 5), classes=4)(torch.zeros(2, 3, 5, 5)).shape == (2, 4)


@pytest.mark.parametrize(
    ("factory", "kind", "told"),
    [
        ("absent", LookupError, "cannot find the model .*absent"),
        ("number", LookupError, "is a int, expected a function"),
        ("shapeless", ValueError, "cannot be made with the keywords shape and classes"),
        ("text", ValueError, "made a str, expected a torch.nn.Module"),
    ],
)
def test_a_model_of_ones_own_that_is_none(own: str, factory: str, kind: type[Exception], told: str) -> None:
    with pytest.raises(kind, match=told):
        create(f"{own}:{factory}")


@pytest.mark.parametrize("name", ["no_such_module:factory", ":factory"])
def test_a_module_that_is_not_there(name: str) -> None:
    with pytest.raises(LookupError, match=r"cannot find the model .*expected module:factory"):
        create(name)


def test_unknown_name_says_which_was_meant() -> None:
    with pytest.raises(LookupError, match=r"there is no model 'resnet_18'; did you mean 'resnet18'\?"):
        create("resnet_18")


def test_the_example_of_ones_own() -> None:
    assert create("examples.convnet:convnet")(torch.zeros(2, 1, 28, 28)).shape == (2, 10)
