"""Pictures from the command line: one line each, and what cannot be read does not stop the rest."""

import gc
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from radii import datasets
from radii.datasets import Preparation
from radii.interop.factory import import_model
from tests.cli.running import Outcome, radii

NETS = """
import torch
from torch import nn


class Shade(nn.Module):
    def forward(self, images):
        shade = images.mean((1, 2, 3))
        return 40 * torch.stack([0.5 - shade, shade - 0.5], 1)


def load():
    return Shade()
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run of a model that tells dark pictures from light ones."""
    folder = tmp_path_factory.mktemp("shades")
    (folder / "shades.py").write_text(NETS)
    for name, shade in (("dark", 30), ("light", 220)):
        (folder / "pictures" / name).mkdir(parents=True)
        for number in range(3):
            pixels = np.full((12, 10, 3), shade + number, np.uint8)
            Image.fromarray(pixels).save(folder / "pictures" / name / f"{number}.png")
    Image.new("L", (20, 20), 128).save(folder / "middle.png")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        import_model("shades:load", folder / "run", sigma=0.25, data=folder / "pictures", size=8)
    return folder


def predict(home: Path, *arguments: str) -> Outcome:
    return radii("predict", "run", *arguments, "--engine", "torch", cwd=home)


def test_each_picture_gets_a_line_with_its_radius(home: Path) -> None:
    found = predict(home, "pictures/dark/0.png", "pictures/light")
    assert found.code == 0, found.error
    lines = found.out.splitlines()
    assert lines[0] == "pictures/dark/0.png: dark, radius 0.6158, 1,000 of 1,000 votes, failure 0.001, engine torch"
    assert predict(home, "pictures/dark/0.png", "--batch-size", "37").out.splitlines() == lines[:1]
    assert [line.partition(",")[0] for line in lines[1:]] == [
        f"pictures/light/{number}.png: light" for number in range(3)
    ]
    assert found.error == (
        "radii: pictures are prepared as the test pictures: shorter side made 8 pixels, the middle 8 x 8 cut out\n"
    )


def test_unreadable_pictures_are_reported_and_the_rest_is_predicted(home: Path, tmp_path: Path) -> None:
    (tmp_path / "broken.png").write_bytes(b"\x89PNG\r\n")
    Image.new("RGB", (7, 9)).save(tmp_path / "small.png")
    (tmp_path / "empty").mkdir()
    places = [str(tmp_path / name) for name in ("broken.png", "small.png", "empty", "absent.png")]
    found = predict(home, *places, "pictures/dark/1.png", "--quiet")
    assert found.code == 1
    assert found.out.startswith("pictures/dark/1.png: dark, ")
    for word in (
        "not a readable photograph",
        "7 x 9 pixels and would be enlarged",
        "holds no pictures",
        "is not there",
    ):
        assert word in found.error
    assert found.error.count("\n") == 4
    answers = [json.loads(line) for line in predict(home, *places, "--json").out.splitlines()]
    assert [answer["file"] for answer in answers] == places
    assert all(answer["error"] for answer in answers)


def test_abstention_has_exit_code_1_and_no_class(home: Path) -> None:
    found = predict(home, "middle.png", "--set", "estimation=20", "--set", "failure=0.001")
    assert (found.code, found.out.split(",")[0]) == (1, "middle.png: abstains")
    assert " votes for " in found.out
    answer = json.loads(predict(home, "middle.png", "--json", "--set", "estimation=20").out)
    assert (answer["class"], answer["label"], answer["radius"]) == (None, None, None)


def test_json_states_certifier_votes_and_noise(home: Path) -> None:
    (line,) = predict(
        home, "pictures/light/2.png", "--json", "--with", "sequential", "--radii", "0.25,0.5"
    ).out.splitlines()
    answer = json.loads(line)
    assert (answer["class"], answer["label"], answer["radius"]) == ("light", 1, 0.5)
    assert answer["votes"] == {"light": answer["samples"] - answer["parameters"]["pilot"]}
    assert (answer["certifier"], answer["engine"], answer["parameters"]["failure"]) == ("sequential", "torch", 0.001)
    assert answer["noise"] == {"name": "gaussian", "sigma": 0.25}


def test_noise_can_be_chosen_and_is_named(home: Path) -> None:
    chosen = ("pictures/light/2.png", "--noise", '{ name = "grid", sigma = 0.5 }')
    assert ", noise grid, sigma 0.5, levels 255, engine torch\n" in predict(home, *chosen).out
    assert json.loads(predict(home, *chosen, "--json").out)["noise"] == {"name": "grid", "sigma": 0.5, "levels": 255}


def test_prediction_has_no_radius(home: Path) -> None:
    found = predict(home, "pictures/light/2.png", "--with", "prediction")
    assert found.out == "pictures/light/2.png: light, 1,000 of 1,000 votes, failure 0.001, engine torch\n"
    assert json.loads(predict(home, "pictures/light/2.png", "--with", "prediction", "--json").out)["radius"] is None


def test_paths_are_read_from_stdin(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("pictures/dark/0.png\n\npictures/light\n"))
    found = predict(home, "-", "-q")
    assert (found.code, found.error, found.out.count("\n")) == (0, "", 4)


def test_pictures_are_prepared_as_the_test_pictures(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[torch.Tensor] = []

    def watched(*arguments: object) -> Preparation:
        words, read = prepare(*arguments)  # type: ignore[arg-type]
        return Preparation(words, lambda path: seen.append(read(path)) or seen[-1])  # type: ignore[func-returns-value]

    prepare = datasets.preparation
    monkeypatch.setattr(datasets, "preparation", watched)
    assert predict(home, "pictures/light/2.png").code == 0
    images = datasets.create("folder", home / "pictures", size=8).split("test")
    assert torch.equal(seen[0], images.batch(torch.tensor([5]))[0])


def test_one_pass_answers_without_a_radius(home: Path) -> None:
    found = predict(home, "pictures/dark/0.png", "--one-pass")
    assert found.code == 0, found.error
    words = "dark, by one noisy pass, nothing is proven about this picture, engine torch"
    assert found.out == f"pictures/dark/0.png: {words}\n"
    answers = [json.loads(predict(home, "middle.png", "--one-pass", "--json").out) for _ in range(12)]
    assert {answer["class"] for answer in answers} == {"dark", "light"}, "the noise is fresh"
    assert answers[0]["radius"] is None
    assert "seed" not in answers[0]


def test_one_pass_takes_no_certifier(home: Path) -> None:
    found = predict(home, "middle.png", "--one-pass", "--with", "fixed")
    assert found.code == 2
    assert "--one-pass has no certifier. Leave out --with, --radii and --set." in found.error


def test_garbage_is_collected_rarely_while_the_model_is_loaded(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    prepare = datasets.preparation

    def prepare_and_note(*arguments: Any) -> Any:
        seen.append(gc.get_threshold()[0])
        return prepare(*arguments)

    monkeypatch.setattr(datasets, "preparation", prepare_and_note)
    before = gc.get_threshold()
    assert predict(home, "pictures/light/2.png").code == 0
    assert seen == [500_000]
    assert gc.get_threshold() == before
