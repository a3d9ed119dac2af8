"""The engine of a run: chosen once, recorded, and the certified one afterwards."""

import importlib
import importlib.util
import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import nn

import radii
from radii import certifiers, engines
from radii.certification.attack import AttackConfig, attack_run
from radii.certification.certify import CertificationConfig, certify_run
from radii.certification.deployment import certified_engines, certified_prediction, chosen_engine
from radii.certification.load import open_run
from radii.engines import EngineSpec, SmoothedClassifier
from radii.errors import RunWarning
from radii.provenance import artefact_path
from radii.runs import attacks, certificates
from radii.runs.run import Run
from radii.smoothing.noise import Gaussian
from radii.smoothing.noise.grid import Grid

FIXED = certifiers.create("fixed", selection=20, estimation=100)


@pytest.fixture
def run(digits_run: Callable[..., Run]) -> Run:
    """The trained run without the record of the engine that was chosen for it."""
    run = digits_run()
    assert not (run.path / "engine.json").exists()
    return run


@pytest.fixture
def race(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The engines that will be the fastest: a different one at each opening."""
    winners = ["torch", "compile"] * 4

    def prepare(spec: EngineSpec, engine: str) -> tuple[str, nn.Module]:
        return (winners.pop(0) if engine == "auto" else engine), spec.model

    monkeypatch.setattr(engines, "prepare", prepare)
    return winners


def opened(run: Run, engine: str = "auto") -> str:
    return open_run(run, engine, Gaussian(0.25), None, 128)[0]


def certify(run: Run, engine: str, **fields: Any) -> Path:
    config = CertificationConfig(run=run.path, engine=engine, **{"certifier": FIXED, "max_images": 2, **fields})
    return certify_run(config, workers=1)


LAPLACE = """
from dataclasses import dataclass
import math, numpy as np, torch
from radii.smoothing.noise import Noise

@dataclass(frozen=True)
class Laplace(Noise):
    norm = "l1"
    scale: float = 0.2

    def perturb(self, pixels, out, rng):
        out.exponential_(1 / self.scale, generator=rng)
        return out.mul_(torch.randint(0, 2, out.shape, generator=rng).mul_(2).sub_(1)).add_(pixels)

    def radius(self, probability, runner_up=None):
        return -self.scale * np.log(2 * (1 - np.asarray(probability)))

    def probability_for(self, radius):
        return 1 - math.exp(-radius / self.scale) / 2
"""
GRID = Grid(0.5, levels=16)


def test_certified_noise_is_deployed(run: Run) -> None:
    assert radii.load(run, engine="torch").noise == Gaussian(0.25)
    certify(run, "torch", noise=GRID)
    assert radii.load(run, engine="torch").noise == GRID


def test_several_noises_are_said_and_that_of_the_recipe_is_taken(run: Run) -> None:
    certify(run, "torch", noise=GRID, max_images=3)
    certify(run, "torch", noise=Gaussian(1.0), max_images=1)
    with pytest.warns(RunWarning, match="has certificates for the noise gaussian, sigma 1.0: they do not hold"):
        assert radii.load(run, engine="torch").noise == GRID
    certify(run, "torch", max_images=1)
    with pytest.warns(RunWarning, match="grid, levels 16, sigma 0.5 and gaussian, sigma 1.0"):
        assert radii.load(run, engine="torch").noise == Gaussian(0.25)


def test_a_noise_without_certificates_is_warned_of(run: Run) -> None:
    certify(run, "torch", noise=GRID)
    with pytest.warns(RunWarning, match="they do not hold for the noise used now, gaussian, sigma 0.25"):
        assert radii.load(run, engine="torch", noise="gaussian").noise == Gaussian(0.25)


def test_attack_is_on_the_certified_noise_in_its_norm(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "l1_noise.py").write_text(LAPLACE)
    monkeypatch.syspath_prepend(str(tmp_path))
    module = importlib.import_module("l1_noise")
    path = certify(run, "torch", noise=module.Laplace(0.2), max_images=4, trust=frozenset({"l1_noise"}))
    assert certificates.read(path).header["norm"] == "l1"
    budget: dict[str, Any] = {"steps": 3, "copies": 2, "images": 4, "samples": 50, "engine": "torch"}
    found = attacks.read(attack_run(AttackConfig(run=run.path, trust=frozenset({"l1_noise"}), radii=(8.0,), **budget)))
    assert (found.header["norm"], found.header["noise"]["scale"]) == ("l1", 0.2)
    changed = [row.distance for row in found.rows if row.distance]
    assert changed
    assert max(changed) <= 8.0 * (1 + 1e-5)


def test_attack_on_grid_noise_stays_on_the_grid(run: Run) -> None:
    certify(run, "torch", noise=GRID, max_images=4)
    budget: dict[str, Any] = {"steps": 3, "copies": 2, "images": 2, "samples": 50, "engine": "torch"}
    found = attacks.read(attack_run(AttackConfig(run=run.path, radii=(4.0,), **budget)))
    assert found.header["noise"]["name"] == "grid"
    assert len(found.rows) == 2


def retrain(run: Run) -> None:
    state = {name: tensor + 0.01 for name, tensor in load_file(run.weights_file).items()}
    with safe_open(run.weights_file, "pt") as file:
        metadata = file.metadata()
    save_file(state, run.weights_file, metadata)


def test_auto_is_chosen_once_for_a_run(run: Run, race: list[str]) -> None:
    assert [opened(run) for _ in range(5)] == ["torch"] * 5
    assert len(race) == 7
    assert json.loads((run.path / "engine.json").read_text())["engine"] == "torch"


@pytest.mark.usefixtures("race")
def test_engine_is_chosen_again_for_other_weights(run: Run) -> None:
    assert opened(run) == "torch"
    retrain(run)
    assert [opened(run), opened(run)] == ["compile", "compile"]


@pytest.mark.usefixtures("race")
def test_engine_chosen_by_name_is_not_recorded(run: Run) -> None:
    assert opened(run, "compile") == "compile"
    assert not (run.path / "engine.json").exists()


@pytest.mark.usefixtures("race")
def test_auto_uses_the_engine_of_the_certificates(run: Run) -> None:
    assert opened(run) == "torch"
    certify(run, "compile")
    assert certified_engines(run) == ["compile"]
    assert opened(run) == "compile"
    retrain(run)
    assert certified_engines(run) == []


@pytest.mark.usefixtures("race")
def test_warning_for_another_engine_than_the_certified_one(run: Run) -> None:
    certify(run, "torch")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        radii.load(run.path)
        radii.load(run.path, engine="torch")
    with pytest.warns(RunWarning, match="were made with the engine 'torch': they do not hold for 'compile'"):
        radii.load(run.path, engine="compile")


def test_warning_if_the_certified_engine_does_not_run_here(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    file = certificates.header_file(certify(run, "torch"))
    file.write_text(file.read_text().replace('"engine": "torch"', '"engine": "openvino"'))
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.warns(RunWarning, match="'openvino', which does not run here"):
        assert chosen_engine(run, "auto") == "auto"


@pytest.mark.usefixtures("race")
def test_warning_if_the_engine_cannot_be_recorded(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("radii.disk.write_json", full)
    with pytest.warns(RunWarning, match="cannot record the chosen engine"):
        opened(run)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"engine": 1}', "nothing", "[" * 100_000])
@pytest.mark.usefixtures("race")
def test_invalid_record_is_ignored(run: Run, text: str) -> None:
    (run.path / "engine.json").write_text(text)
    assert opened(run) == "torch"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_artefact_belongs_to_its_weights_and_is_recorded(run: Run) -> None:
    pytest.importorskip("nncf")
    first = certificates.read(certify(run, "openvino_int8")).header
    retrain(run)
    second = certificates.read(certify(run, "openvino_int8")).header
    assert len({first["artefact"], second["artefact"], None}) == 3
    stems = [artefact_path(run, "openvino_int8", header["weights"]).name for header in (first, second)]
    assert {path.stem for path in run.path.glob("*.bin")} == set(stems)
    swapped = run.path / f"{stems[1]}.xml"
    swapped.write_text(swapped.read_text() + "\n")
    with pytest.warns(RunWarning, match="with another artefact of the engine 'openvino_int8'"):
        radii.load(run.path)


SOFT = certifiers.create("soft", estimation=200, sharpness=2.0, failure=0.01, bound="betting")


def test_predictions_are_of_the_kind_that_was_certified(run: Run) -> None:
    assert certified_prediction(run) == ("prediction", {})
    assert certified_prediction(run, "soft") == ("soft", {"estimation": 1_000})
    certify(run, "torch", certifier=SOFT)
    fields = {"estimation": 1_000, "sharpness": 2.0, "failure": 0.01, "bound": "betting"}
    assert certified_prediction(run) == ("soft", fields)
    assert certified_prediction(run, "prediction") == ("prediction", {})
    certify(run, "torch")
    assert certified_prediction(run) == ("prediction", {})
    assert certified_prediction(run, "soft") == ("soft", fields)
    retrain(run)
    assert certified_prediction(run) == ("prediction", {})


def test_a_soft_prediction_is_the_soft_class_without_a_radius() -> None:
    layer = nn.Linear(4, 2)
    with torch.no_grad():
        layer.weight.zero_()
        layer.bias.copy_(torch.tensor([0.0, 2.0]))
    smoothed = SmoothedClassifier(nn.Sequential(nn.Flatten(), layer), sigma=0.25, classes=2)
    found = radii.predict(smoothed, torch.rand(1, 2, 2), "soft", seed=0, index=3, estimation=1_000)
    assert (found.prediction, found.radius, found.samples) == (1, 0.0, 1_100)
