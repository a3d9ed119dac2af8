"""Models by name, user-defined models, and what is refused with one sentence."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from radii.models import create, resolved
from radii.models.base import Shape
from radii.smoothing.normalisation import CIFAR10


@pytest.mark.parametrize(
    ("name", "shape", "message"),
    [
        ("lenet", (1, 8, 8), "lenet takes images of at least 16 x 16 pixels, got 8 x 8"),
        ("fast_resnet", (3, 32, 15), "fast_resnet takes images of at least 16 x 16 pixels, got 32 x 15"),
        ("vit", (1, 28, 28), "vit takes images whose sides are divisible by 8, got 28 x 28"),
        ("vit", (3, 32, 0), "shape = .*, expected channels, height and width, each at least 1"),
        ("cifar_resnet20", (32, 32), "shape = .*, expected channels, height and width"),
    ],
)
def test_unsupported_shapes_are_refused(name: str, shape: Shape, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        create(name, shape=shape)


def test_too_few_classes_are_refused() -> None:
    with pytest.raises(ValueError, match="classes = 1, expected at least 2"):
        create("lenet", classes=1)


def test_normalisation_with_other_channels_is_refused() -> None:
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

def with_depth(shape, classes, depth):
    return linear(shape, classes)

class Tiny(nn.Sequential):
    def __init__(self, classes, depth=1):
        super().__init__(nn.Flatten(), *(nn.Linear(16, 16) for _ in range(depth)), nn.Linear(16, classes))

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


def test_user_defined_model(own: str) -> None:
    assert create(f"{own}:linear")(torch.zeros(2, 1, 4, 4)).shape == (2, 3)
    assert create(f"{own}:bare", shape=(3, 5, 5), classes=4)(torch.zeros(2, 3, 5, 5)).shape == (2, 4)


def test_user_defined_class_gets_its_fields_and_shape_and_classes(own: str) -> None:
    model = create(f"{own}:Tiny", shape=(1, 4, 4), classes=5, depth=3)
    assert model(torch.zeros(2, 1, 4, 4)).shape == (2, 5)
    assert len(model[1]) == 5  # type: ignore[arg-type]
    assert isinstance(create(f"{own}:shapeless", shape=(1, 1, 1), classes=4)[1], nn.Linear)
    with pytest.raises(LookupError, match="has no field 'deph'; did you mean 'depth'"):
        create(f"{own}:Tiny", classes=5, deph=3)


def test_model_fields_are_checked() -> None:
    narrow, usual = create("resnet18", width=8), create("resnet18")
    assert sum(p.numel() for p in narrow.parameters()) < sum(p.numel() for p in usual.parameters()) / 20
    with pytest.raises(ValueError, match="model 'resnet18': width = 0, expected a number >= 1"):
        create("resnet18", width=0)
    with pytest.raises(ValueError, match="model 'vit': width = 100, expected a multiple of the 12 heads"):
        create("vit", width=100)
    with pytest.raises(LookupError, match="model 'vit' has no field 'layer'; did you mean 'layers'"):
        create("vit", layer=2)


def test_resolved_model_states_its_defaults() -> None:
    assert resolved("vit", {"layers": 2}) == {"width": 384, "layers": 2, "heads": 12}
    assert resolved("lenet", {}) == {}


@pytest.mark.parametrize(
    ("factory", "kind", "message"),
    [
        ("absent", LookupError, "cannot find the model .*absent"),
        ("number", LookupError, "is a int, expected a class or a function"),
        ("with_depth", LookupError, "needs the field 'depth': state it"),
        ("text", ValueError, "made a str, expected a torch.nn.Module"),
    ],
)
def test_invalid_user_defined_model_is_refused(own: str, factory: str, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        create(f"{own}:{factory}")


@pytest.mark.parametrize("name", ["no_such_module:factory", ":factory"])
def test_missing_module_is_an_error(name: str) -> None:
    with pytest.raises(LookupError, match=r"cannot find the model .*expected module:name"):
        create(name)


def test_unknown_name_suggests_the_nearest() -> None:
    with pytest.raises(LookupError, match=r"there is no model 'resnet_18' .*; did you mean 'resnet18'\?"):
        create("resnet_18")


def test_example_of_a_user_defined_model() -> None:
    assert create("examples.convnet:convnet")(torch.zeros(2, 1, 28, 28)).shape == (2, 10)


def test_factory_gets_num_classes_and_further_fields(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"more_{tmp_path.name}"
    (tmp_path / f"{name}.py").write_text(
        "from torch import nn\n"
        "def net(num_classes=1000, **kwargs):\n"
        "    net = nn.Linear(2, num_classes)\n    net.kwargs = kwargs\n    return net\n"
        "def typed(depth: 'Absent', num_classes: int = 3):\n    return nn.Linear(depth, num_classes)\n"
    )
    monkeypatch.chdir(tmp_path)
    model: Any = create(f"{name}:net", shape=(3, 4, 4), classes=5, width=7)[1]
    assert (model.out_features, model.kwargs) == (5, {"width": 7})  # neither shape nor classes, which it does not name
    assert create(f"{name}:net", shape=(3, 4, 4), classes=5, num_classes=9)[1].out_features == 9
    assert create(f"{name}:typed", shape=(3, 4, 4), classes=5, depth=2)[1].out_features == 5
    assert resolved(f"{name}:net", {"width": 7}) == {"width": 7}
