"""Any nn.Module by factory: its weights, its normalisation, and the check on the user's pictures."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image
from safetensors.torch import save_file
from torch import nn

from radii.errors import RunWarning
from radii.interop.factory import import_model
from radii.runs.run import Run, RunError
from radii.training.weights import model_spec, trained_model

NETS = """
import torch
from torch import nn


def load(classes, width=4):
    return nn.Sequential(nn.Conv2d(3, width, 3), nn.ReLU(), nn.Flatten(), nn.Linear(36 * width, classes))


def tied():
    model = nn.Sequential(nn.Flatten(), nn.Linear(192, 192), nn.Linear(192, 192), nn.Linear(192, 2))
    model[2].weight = model[1].weight
    return model


class Centred(nn.Linear):
    def forward(self, images):
        return super().forward((images - images.mean(0)).flatten(1))


def noisy():
    return Centred(192, 2)


def many():
    return nn.Sequential(nn.Flatten(), nn.Linear(192, 5))


def columns():
    return nn.Sequential(nn.Flatten(), nn.Linear(192, 2), nn.Unflatten(1, (2, 1)))


class Named(nn.Linear):
    def forward(self, images):
        return {"answer": super().forward(images.flatten(1))}


def named():
    return Named(192, 2)


def softmax():
    return nn.Sequential(nn.Flatten(), nn.Linear(192, 2), nn.Softmax(1))


instance = nn.Identity()


def broken():
    raise RuntimeError("no such\\nlayer")


def offline():
    raise OSError("no route to host")


def nothing():
    return 3
"""


@pytest.fixture
def pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two classes of 8 x 8 pictures for testing, and my_nets.py in the current folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_nets.py").write_text(NETS)
    for name, shade in (("dark", 0), ("light", 255)):
        (tmp_path / "pictures" / name).mkdir(parents=True)
        for number in range(2):
            Image.new("RGB", (8, 8), (shade,) * 3).save(tmp_path / "pictures" / name / f"{number}.png")
    return tmp_path / "pictures"


def import_pictures(pictures: Path, name: str = "load", **options: Any) -> Run:
    options = {"sigma": 0.25, "data": pictures, "size": 8, **options}
    return import_model(f"my_nets:{name}", pictures.parent / "run", **options)


def state() -> dict[str, torch.Tensor]:
    torch.manual_seed(5)
    return dict(nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 2)).state_dict())


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("w.pt", lambda path: torch.save(state(), path)),
        ("w.pth.tar", lambda path: torch.save({"state_dict": state(), "epoch": 3}, path)),
        ("p.pt", lambda path: torch.save({f"module.{key}": value for key, value in state().items()}, path)),
        ("w.safetensors", lambda path: save_file(state(), path)),
    ],
)
def test_weights_come_from_the_file(pictures: Path, name: str, write: Callable[[Path], object]) -> None:
    write(pictures.parent / name)
    run = import_pictures(pictures, weights=pictures.parent / name)
    model = trained_model(run)
    assert all(torch.equal(value, state()[key]) for key, value in model[1].state_dict().items())  # type: ignore[index]
    assert run.recipe.model == {"name": "my_nets:load"}
    assert run.recipe.dataset["resize"] == 8
    assert model_spec(run).class_names == ("dark", "light")
    assert run.check()["images"] == 4


def test_without_a_file_the_factorys_weights_are_used(pictures: Path) -> None:
    run = import_pictures(pictures, "tied")
    model = trained_model(run)
    assert torch.equal(model[1][1].weight, model[1][2].weight)  # type: ignore[index]
    before = run.weights_file.read_bytes()
    assert import_pictures(pictures, "tied").weights_file.read_bytes() == before
    with pytest.raises(RunError, match="belongs to another recipe"):
        import_pictures(pictures, "tied", sigma=0.5)


def test_other_weights_are_not_written_over_a_run(pictures: Path) -> None:
    run = import_pictures(pictures)
    before = run.weights_file.read_bytes()
    (pictures.parent / "my_nets.py").write_text(NETS)
    torch.save(state(), pictures.parent / "w.pt")
    with pytest.raises(RunError, match="was started from another checkpoint"):
        import_pictures(pictures, weights=pictures.parent / "w.pt")
    assert run.weights_file.read_bytes() == before


@pytest.mark.parametrize(
    ("options", "constants"),
    [
        ({}, ()),
        ({"normalisation": "inside"}, ()),
        ({"mean": (0.5,) * 3, "std": (0.25,) * 3}, (0.5,) * 3),
        ({"normalisation": "full"}, (0.485, 0.456, 0.406)),
        ({"dataset": {"name": "folder", "mean": (0.1,) * 3, "std": (0.2,) * 3}}, (0.1,) * 3),
    ],
)
def test_normalisation_is_as_stated(pictures: Path, options: dict[str, Any], constants: tuple[float, ...]) -> None:
    assert model_spec(import_pictures(pictures, **options)).normalisation.mean == constants


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("nothing", {}, "made a int, expected a torch.nn.Module"),
        ("broken", {}, "my_nets:broken cannot make its model: RuntimeError: no such layer"),
        ("many", {}, r"answers \[3, 5\] for 3 images, expected \[3, 2\]: the dataset has 2 classes"),
        ("columns", {}, r"answers \[3, 2, 1\] for 3 images, expected \[3, 2\]. Let it return one row of logits"),
        ("named", {}, r"answers a dict for 3 images, expected \[3, 2\]. Let it return the logits alone"),
        ("instance", {}, "is a Identity that is made already, expected a class or a function. Name a function"),
        ("noisy", {}, "depending on the others in its batch: use it in eval mode"),
        ("offline", {}, "my_nets:offline cannot make its model: OSError: no route to host"),
        ("lod", {}, "there is no 'lod' in my_nets; did you mean 'load'?"),
        ("load", {"size": 7}, "cannot classify the 3 x 7 x 7 images of folder"),
        ("load", {"weights": Path()}, ". is a folder, expected a file of weights"),
        ("load", {"dataset": {"name": "folder", "resize": 9}}, "would be enlarged"),
        ("load", {"normalisation": "inside", "mean": (0.5,) * 3, "std": (0.5,) * 3}, "leave one out"),
        ("load", {"mean": (0.5,), "std": (0.5,)}, "mean and std"),
        (
            "load",
            {"dataset": "digits", "data": None, "size": None, "mean": (0.5,) * 3, "std": (0.5,) * 3},
            "mean and std have 3 numbers, the images of digits have 1 channel",
        ),
        ("load", {"mean": (0.5,) * 3}, "expected as many of one as of the other"),
        ("load", {"mean": (0.5,) * 3, "std": (0.5, 0.5, 0.0)}, "expected numbers > 0"),
        (
            "load",
            {"mean": (124.0, 116.0, 104.0), "std": (58.0,) * 3},
            "for pixels up to 255, divide mean and std by 255",
        ),
        ("load", {"mean": (-0.5,) * 3, "std": (0.5,) * 3}, r"expected numbers in \[0, 1\], as the pixels are.$"),
        ("load", {"weights": Path("absent.pt")}, "there is no checkpoint absent.pt"),
        ("load", {"weights": Path("code.pt")}, "needs more than tensors to be read, so it is refused"),
        ("load", {"weights": Path("text.safetensors")}, "is not a safetensors file that can be read"),
        ("load", {"weights": Path("more.pt")}, "more.pt holds extra, which my_nets:load does not have"),
        ("load", {"weights": Path("less.pt")}, "less.pt does not hold my_nets:load"),
    ],
)
def test_failed_imports_give_one_sentence_and_write_nothing(
    pictures: Path, name: str, options: dict[str, Any], message: str
) -> None:
    torch.save(nn.Linear(1, 1), "code.pt")
    torch.save({**state(), "extra": torch.zeros(1)}, "more.pt")
    torch.save({key: value for key, value in state().items() if key != "0.bias"}, "less.pt")
    Path("text.safetensors").write_text("hello")
    with pytest.raises((ValueError, LookupError), match=message):
        import_pictures(pictures, name, **options)
    assert not (pictures.parent / "run").exists()


def test_a_model_that_ends_in_a_softmax_is_warned_of(pictures: Path) -> None:
    with pytest.warns(RunWarning, match="look like probabilities. Let it return logits, without the last softmax"):
        import_pictures(pictures, "softmax")


def test_a_model_in_memory_is_refused_with_what_takes_one() -> None:
    with pytest.raises(
        ValueError, match=r"The model is a Linear, expected module:name.* radii.SmoothedClassifier\(model"
    ):
        import_model(nn.Linear(2, 2), "run", sigma=0.25)
