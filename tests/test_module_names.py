"""`module:name` in every registry: from a recipe, from the command line and from Python."""

import json
import sys
from pathlib import Path

import pytest
import torch

import radii
from radii import certifiers, datasets, engines, objectives
from radii.cli import main
from radii.runs.recipe import Training
from radii.runs.run import Run
from radii.smoothing import noise as noises

OWN = """
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import nn

from radii.certifiers.base import Certifier
from radii.certifiers.fixed import Fixed
from radii.datasets.base import Dataset, InMemory
from radii.engines.base import Engine
from radii.fields import option
from radii.objectives.base import Objective, cross_entropy
from radii.smoothing.forward import logits_of
from radii.smoothing.noise import Gaussian, noisy_copies


@dataclass(frozen=True, kw_only=True, eq=False)
class Checks(Dataset):
    class_names: ClassVar = ("dark", "light")
    images: int = option(32, ge=8)
    shape: ClassVar = (1, 4, 4)

    def split(self, split):
        labels = torch.arange(self.images) % 2
        return InMemory((labels.float() * 0.8 + 0.1)[:, None, None, None].expand(-1, 1, 4, 4).contiguous(), labels)


@dataclass(frozen=True, kw_only=True, eq=False)
class Plain(Objective):
    weight: float = option(1.0, gt=0)

    def terms(self, model, batch, step):
        logits = logits_of(model, noisy_copies(batch.images, 1, self.sigma, step.rng))
        return {"cross_entropy": self.weight * cross_entropy(logits, batch.labels).mean(0)}


class Net(nn.Sequential):
    def __init__(self, classes: int, hidden: int = 8):
        super().__init__(nn.Flatten(), nn.Linear(16, hidden), nn.ReLU(), nn.Linear(hidden, classes))


@dataclass(frozen=True, kw_only=True)
class Few(Fixed):
    estimation: int = option(200, ge=1)


@dataclass(frozen=True, kw_only=True)
class Slow(Engine):
    def prepare(self, spec):
        return spec.model


def half(sigma):
    return Gaussian(sigma / 2)


def text():
    return "nothing"
"""
TRAINING = Training(epochs=1, images_per_step=16, learning_rate=0.1)
RECIPE = """
dataset = {{ name = "{own}:Checks", images = 48 }}
model = {{ name = "{own}:Net", hidden = 4 }}
sigma = 0.25
objective = {{ name = "{own}:Plain", weight = 2.0 }}

[training]
epochs = 2
images_per_step = 16
learning_rate = 0.1
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    name = f"own_{abs(hash(tmp_path))}"
    (tmp_path / f"{name}.py").write_text(OWN)
    (tmp_path / "recipe.toml").write_text(RECIPE.format(own=name))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    return name


def run(*arguments: str) -> object:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["radii", *arguments])
        with pytest.raises(SystemExit) as stopped:
            main()
    return stopped.value.code


def test_every_registry_accepts_module_names_on_the_command_line(own: str) -> None:
    assert run("train", "recipe.toml", "--run", "run") == 0
    recipe = Run("run").recipe
    assert recipe.names() == [f"{own}:Checks", f"{own}:Net", f"{own}:Plain"]
    assert (recipe.dataset["images"], recipe.model["hidden"], recipe.objective["weight"]) == (48, 4, 2.0)
    options = ["--with", f"{own}:Few", "--engine", f"{own}:Slow", "--noise", f"{own}:half", "--every", "8"]
    assert run("certify", "run", *options) == 0
    (file,) = Path("run/certificates").glob("*.json")
    header = json.loads(file.read_text())
    assert (header["procedure"], header["engine"]) == (f"{own}:Few", f"{own}:Slow")
    assert header["noise"] == {"name": "gaussian", "sigma": 0.125}
    assert header["parameters"]["estimation"] == 200
    assert run("report", "run") == 0


def test_every_registry_accepts_module_names_in_python(own: str) -> None:
    assert objectives.create(f"{own}:Plain", sigma=0.1).name == f"{own}:Plain"
    assert certifiers.create(f"{own}:Few").name == f"{own}:Few"
    assert datasets.create(f"{own}:Checks").classes == 2
    assert engines.create(f"{own}:Slow").name == f"{own}:Slow"
    assert noises.create(f"{own}:half", sigma=1.0) == noises.Gaussian(0.5)
    radii.train(radii.Recipe(dataset=f"{own}:Checks", model=f"{own}:Net", sigma=0.2, training=TRAINING), "run")
    smoothed = radii.load("run", engine=f"{own}:Slow")
    assert radii.certify(smoothed, torch.full((1, 4, 4), 0.9), f"{own}:Few", seed=0).samples == 300


@pytest.mark.parametrize("registry", [objectives, certifiers, datasets, engines, noises])
def test_component_of_the_wrong_kind_is_refused(own: str, registry: object) -> None:
    create = registry.create  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match="made a str, expected a radii"):
        create(f"{own}:text")
    with pytest.raises(LookupError, match="cannot find the .* expected module:name"):
        create("no_such_module:text")


def test_fields_of_user_components_are_checked(own: str) -> None:
    with pytest.raises(LookupError, match="has no field 'imagse'; did you mean 'images'"):
        datasets.create(f"{own}:Checks", imagse=9)
    with pytest.raises(ValueError, match="images = 3, expected a number >= 8"):
        datasets.create(f"{own}:Checks", images=3)
