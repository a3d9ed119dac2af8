"""Models of timm, torchvision and Hugging Face by name: with stand-ins of their interfaces, and for real offline."""

import importlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from radii.errors import MissingExtraError, ParameterError
from radii.interop.factory import import_model
from radii.models import create, own_normalisation, resolved, without_pretrained
from radii.runs import trust
from radii.runs.recipe import Recipe, Training
from radii.runs.run import Run
from radii.training.loop import train
from radii.training.weights import model_spec, trained_model

HALF = {"mean": (0.5, 0.5, 0.5), "std": (0.25, 0.25, 0.25)}
TRAINING = Training(epochs=1, images_per_step=256, learning_rate=0.05)


class Net(nn.Sequential):
    """A stand-in of a library's network for images of any size."""

    def __init__(self, channels: int, classes: int, width: int = 4) -> None:
        super().__init__(
            nn.Conv2d(channels, width, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, classes)
        )


@pytest.fixture
def timm(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """A stand-in for timm; the list says for each model that is made whether its weights were fetched."""
    fetched: list[bool] = []
    module: Any = ModuleType("timm")

    def create_model(
        _name: str, pretrained: bool = False, in_chans: int = 3, num_classes: int = 1000, **kwargs: Any
    ) -> Net:
        fetched.append(pretrained)
        return Net(in_chans, num_classes, **kwargs)

    module.create_model = create_model
    module.list_models = lambda: ["resnet18", "small"]
    module.is_model = lambda name: name.partition(".")[0] in module.list_models()
    module.get_pretrained_cfg = lambda name: SimpleNamespace(**HALF) if name == "resnet18" else None
    monkeypatch.setitem(sys.modules, "timm", module)
    return fetched


@pytest.fixture
def torchvision(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in of torchvision's models, with weights of seven classes."""
    package, models = ModuleType("torchvision"), ModuleType("torchvision.models")
    weights = SimpleNamespace(meta={"categories": list("abcdefg")}, transforms=lambda: SimpleNamespace(**HALF))
    module: Any = models

    def get_model(_name: str, weights: Any, num_classes: int = 7, **kwargs: Any) -> Net:
        return Net(3, num_classes if weights is None else len(weights.meta["categories"]), **kwargs)

    module.get_model = get_model
    module.get_model_weights = lambda _: SimpleNamespace(DEFAULT=weights)
    module.list_models = lambda **_: ["resnet50"]
    monkeypatch.setitem(sys.modules, "torchvision", package)
    monkeypatch.setitem(sys.modules, "torchvision.models", models)


@pytest.mark.usefixtures("timm")
def test_timm_model_gets_channels_classes_and_stated_fields() -> None:
    model = create("timm:resnet18", shape=(1, 8, 8), classes=4, width=6)
    assert model(torch.zeros(2, 1, 8, 8)).shape == (2, 4)
    assert own_normalisation("timm:resnet18", {}).mean == HALF["mean"]
    assert own_normalisation("timm:small", {}).mean == ()


@pytest.mark.usefixtures("timm")
@pytest.mark.parametrize(
    ("name", "fields", "message"),
    [
        ("timm:resnet81", {}, "timm has no model 'resnet81'; did you mean 'resnet18'"),
        ("timm:hf-hub:somebody/net", {}, "timm has no model 'hf-hub:somebody/net'"),
        ("timm:resnet18", {"checkpoint_path": "/etc/passwd"}, "does not take the field 'checkpoint_path'"),
        ("timm:resnet18", {"widht": 3}, "cannot be made with these fields: .*widht"),
    ],
)
def test_names_and_fields_that_timm_lacks_are_refused(name: str, fields: dict[str, Any], message: str) -> None:
    with pytest.raises((LookupError, ValueError), match=message):
        create(name, shape=(3, 8, 8), classes=4, **fields)


def test_run_of_a_library_model_opens_without_fetching_weights(timm: list[bool], tmp_path: Path) -> None:
    model = {"name": "timm:resnet18", "pretrained": True, "width": 5}
    run = train(Recipe(dataset="digits", model=model, sigma=0.25, training=TRAINING), tmp_path / "run")
    assert fetched_once(timm)
    trained_model(Run(run.path))
    assert fetched_once(timm)
    assert run.recipe.model == model


def fetched_once(fetched: list[bool]) -> bool:
    return fetched.count(True) == 1


@pytest.mark.usefixtures("timm")
def test_imported_library_model_has_the_library_normalisation(colours: Path, tmp_path: Path) -> None:
    run = import_model("timm:resnet18", tmp_path / "run", sigma=0.25, data=colours, size=8)
    assert model_spec(run).normalisation.mean == HALF["mean"]
    inside = import_model("timm:resnet18", tmp_path / "plain", sigma=0.25, data=colours, size=8, normalisation="inside")
    assert model_spec(inside).normalisation.mean == ()


@pytest.fixture
def colours(tmp_path: Path) -> Path:
    """Two classes of 8 x 8 pictures."""
    from PIL import Image

    for name, shade in (("dark", 0), ("light", 255)):
        (tmp_path / "pictures" / name).mkdir(parents=True)
        for number in range(2):
            Image.new("RGB", (8, 8), (shade,) * 3).save(tmp_path / "pictures" / name / f"{number}.png")
    return tmp_path / "pictures"


@pytest.mark.usefixtures("torchvision")
def test_torchvision_model_and_its_weights() -> None:
    assert create("torchvision:resnet50", shape=(3, 8, 8), classes=4)(torch.zeros(2, 3, 8, 8)).shape == (2, 4)
    assert create("torchvision:resnet50", shape=(3, 8, 8), classes=7, pretrained=True)(
        torch.zeros(1, 3, 8, 8)
    ).shape == (1, 7)
    with pytest.raises(ParameterError, match=r"'resnet50' are of 7 classes, the dataset has 4\. Use timm"):
        create("torchvision:resnet50", shape=(3, 8, 8), classes=4, pretrained=True)
    with pytest.raises(LookupError, match="torchvision has no classifier 'resnet51'; did you mean 'resnet50'"):
        create("torchvision:resnet51", shape=(3, 8, 8), classes=4)
    assert own_normalisation("torchvision:resnet50", {}).std == HALF["std"]


@pytest.mark.parametrize("library", ["timm", "torchvision", "hf"])
def test_absent_library_names_its_extra(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("timm", "torchvision", "torchvision.models", "transformers", "huggingface_hub"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=rf"need .*, which is not installed\. Install it by: .*\[{library}\]"):
        create(f"{library}:owner/net", shape=(3, 8, 8), classes=4)


def test_module_of_the_current_folder_is_no_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "timm.py").write_text("open('canary', 'w').close()")
    monkeypatch.delitem(sys.modules, "timm", raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", str(tmp_path)])
    with pytest.raises(MissingExtraError):
        create("timm:resnet18", shape=(3, 8, 8), classes=4)
    assert not (tmp_path / "canary").exists()


def test_library_names_are_not_modules_to_trust() -> None:
    assert [trust.module_of(name) for name in ("timm:resnet18", "hf:a/b", "nets:load")] == ["", "", "nets"]


HF = {
    "model_type": "resnet",
    "num_channels": 3,
    "embedding_size": 4,
    "hidden_sizes": [4, 4],
    "depths": [1, 1],
    "layer_type": "basic",
    "id2label": {"0": "cat", "1": "dog", "2": "cow"},
    "auto_map": {"AutoConfig": "evil.Config"},
}


@pytest.fixture
def hub_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, dict[str, bytes]], None]:
    """Fill an offline cache of the hub: hub_cache("owner/name", files)."""
    constants = pytest.importorskip("huggingface_hub.constants", reason="the extra radii[hf] is not installed")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)

    def fill(repository: str, files: dict[str, bytes]) -> None:
        folder = tmp_path / "hub" / f"models--{repository.replace('/', '--')}"
        commit = "0" * 40
        (folder / "refs").mkdir(parents=True)
        (folder / "refs/main").write_text(commit)
        for name, content in files.items():
            path = folder / "snapshots" / commit / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)

    return fill


def test_run_whose_recipe_lost_its_config_fetches_none() -> None:
    """A stranger's recipe would otherwise make a connection as soon as the run is opened."""
    with pytest.raises(ParameterError, match="states no config of 'hf:owner/tiny', and opening a run fetches nothing"):
        without_pretrained("hf:owner/tiny", {})


@pytest.mark.slow
def test_hugging_face_model_from_the_offline_cache(
    hub_cache: Callable[[str, dict[str, bytes]], None], colours: Path, tmp_path: Path
) -> None:
    pytest.importorskip("transformers", reason="the extra radii[hf] is not installed")
    preprocessor = {"do_normalize": True, "image_mean": [0.5] * 3, "image_std": [0.25] * 3}
    files = {"config.json": HF, "preprocessor_config.json": preprocessor}
    hub_cache("owner/tiny", {name: json.dumps(content).encode() for name, content in files.items()})
    fields = resolved("hf:owner/tiny", {})
    assert "evil" not in fields["config"]
    run = import_model("hf:owner/tiny", tmp_path / "run", sigma=0.25, data=colours, size=8)
    assert model_spec(run).normalisation.std == (0.25,) * 3
    hub_cache_is_gone = tmp_path / "hub"
    hub_cache_is_gone.rename(tmp_path / "elsewhere")
    assert trained_model(Run(run.path))(torch.zeros(2, 3, 8, 8)).shape == (2, 2)
    with pytest.raises(ParameterError, match=r"config.json of 'owner/none' cannot be fetched .*Check the name"):
        resolved("hf:owner/none", {})


@pytest.mark.slow
@pytest.mark.parametrize("library", ["timm", "torchvision"])
def test_real_library_makes_a_model(library: str) -> None:
    """Where these libraries import; their common builds do not beside a torch for CPUs."""
    try:
        importlib.import_module(library)
    except (ImportError, RuntimeError) as error:
        pytest.skip(f"{library} cannot be imported beside this torch: {error}")
    model = create(f"{library}:resnet18", shape=(3, 32, 32), classes=7).eval()
    assert model(torch.zeros(2, 3, 32, 32)).shape == (2, 7)
    assert own_normalisation(f"{library}:resnet18", {}).mean == (0.485, 0.456, 0.406)
    with pytest.raises(LookupError, match="'resnet81'; did you mean 'resnet18'"):
        create(f"{library}:resnet81", shape=(3, 32, 32), classes=7)
