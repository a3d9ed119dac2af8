from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from radii import models
from radii.interop.checkpoint import import_checkpoint
from radii.runs.recipe import Recipe
from radii.smoothing.normalisation import Normalise
from radii.training.weights import model_spec, trained_model


def recipe(normalisation: str = "full", model: str = "cifar_resnet20") -> Recipe:
    return Recipe(
        dataset="cifar10", model=model, sigma=0.25, normalisation=normalisation, objective={"name": "imported"}
    )


def backbone() -> nn.Module:
    torch.manual_seed(1)
    return models.create("cifar_resnet20")[1]


def prefixed(prefix: str) -> dict[str, Tensor]:
    return {prefix + key: value for key, value in backbone().state_dict().items()}


LAYOUTS: dict[str, Any] = {
    "cohen": {"epoch": 90, "arch": "cifar_resnet20", "state_dict": prefixed("1."), "optimizer": {"state": {}}},
    "imagenet": {"epoch": 90, "arch": "resnet50", "state_dict": prefixed("1.module."), "optimizer": {}},
    "macer": {"net": prefixed(""), "epoch": 440},
    "macer_parallel": {"net": prefixed("module."), "epoch": 440},
    "crt": {"epoch": 199, "state_dict": prefixed("1."), "optimizer": {}, "scheduler": {}},
    "bare": prefixed(""),
    "lightning": {"epoch": 3, "state_dict": prefixed("model."), "optimizer_states": [{"state": {}}]},
    "compiled": prefixed("_orig_mod."),
    "tutorial": {
        "epoch": 3,
        "model_state_dict": prefixed(""),
        "optimizer_state_dict": {"state": {0: {"momentum_buffer": torch.zeros(1)}}, "param_groups": []},
    },
    "nested": {"meta": {"epoch": 3}, "nets": {"student": prefixed("module."), "optimizer": {"state": {}}}},
    "before_counters": {"state_dict": {k: v for k, v in prefixed("1.").items() if "num_batches" not in k}},
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_checkpoint_layout_is_read(layout: str, tmp_path: Path) -> None:
    torch.save(LAYOUTS[layout], tmp_path / "checkpoint.pth.tar")
    run = import_checkpoint(tmp_path / "checkpoint.pth.tar", recipe(), tmp_path / "run")
    images = torch.rand(2, 3, 32, 32)
    loaded = trained_model(run)
    with torch.inference_mode():
        torch.testing.assert_close(loaded(images), backbone().eval()(Normalise(model_spec(run).normalisation)(images)))


@pytest.mark.parametrize(("choice", "deviation"), [("full", 0.2023), ("centre", 1.0), ("none", None)])
def test_normalisation_is_stored_in_the_run(choice: str, deviation: float | None, tmp_path: Path) -> None:
    torch.save(LAYOUTS["macer"], tmp_path / "checkpoint.pth.tar")
    run = import_checkpoint(tmp_path / "checkpoint.pth.tar", recipe(choice), tmp_path / "run")
    stds = model_spec(run).normalisation.std
    assert (stds[0] if stds else None) == deviation


class Harmful:
    def __reduce__(self) -> Any:
        return print, ("code ran",)


def test_pickle_that_runs_code_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    torch.save({"state_dict": Harmful()}, tmp_path / "bad.pth.tar")
    with pytest.raises(ValueError, match="needs more than tensors"):
        import_checkpoint(tmp_path / "bad.pth.tar", recipe(), tmp_path / "run")
    assert capsys.readouterr().out == ""
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"state_dict": {"a.weight": torch.zeros(1)}}, "it has keys such as a.weight"),
        ({"state_dict": {k: v[:1] if k == "1.fc.bias" else v for k, v in prefixed("1.").items()}}, "fc.bias is"),
        ([1, 2], "holds list"),
        ({"epoch": 3}, "holds no tensors, only epoch. Save the model's state_dict."),
        ({}, "holds no tensors, only nothing"),
        ({"a": {"x": torch.zeros(1)}, "b": {"y": torch.zeros(1)}}, "holds tensors in a, b. Save the state_dict of one"),
        (prefixed("online.") | prefixed("average."), r"holds cifar_resnet20 under average\., online\.\. Save the"),
        (
            {k: v for k, v in prefixed("").items() if k != "fc.bias"},
            "it lacks fc.bias. Name the model as it was trained",
        ),
    ],
)
def test_checkpoint_of_another_model_is_refused(content: Any, message: str, tmp_path: Path) -> None:
    torch.save(content, tmp_path / "other.pth.tar")
    with pytest.raises(ValueError, match=message):
        import_checkpoint(tmp_path / "other.pth.tar", recipe(), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_file_that_is_not_a_checkpoint_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.pth.tar").write_bytes(b"hello")
    with pytest.raises(ValueError, match="x.pth.tar"):
        import_checkpoint(tmp_path / "x.pth.tar", recipe(), tmp_path / "run")
    with pytest.raises(ValueError, match="there is no checkpoint"):
        import_checkpoint(tmp_path / "y.pth.tar", recipe(), tmp_path / "run")
