"""From a classifier trained elsewhere to certified predictions, command by command, outside the checkout."""

import json
import shlex
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from tests.cli.running import radii

NETS = """
from torch import nn


def load(classes, depth=1):
    layers = [nn.Conv2d(3, 8, 3, stride=2), nn.ReLU()]
    for _ in range(depth):
        layers += [nn.Conv2d(8, 8, 3, stride=2), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, classes))
"""
CLASSES = ("cat", "cow", "dog", "hen")


def make_pictures(root: Path, count: int = 200) -> None:
    """Pictures of 20 x 18 pixels; the class is the shade of the middle."""
    rng = np.random.default_rng(0)
    for number in range(count):
        label, split = number % 4, "val" if number % 5 == 0 else "train"
        pixels = rng.integers(0, 40, (20, 18, 3)) + 60 * label
        folder = root / split / CLASSES[label]
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels.astype(np.uint8)).save(folder / f"{number}.png")


def write_weights(home: Path) -> None:
    """Weights that know the shades: a few steps of plain training."""
    namespace: dict[str, object] = {}
    exec(NETS, namespace)
    torch.manual_seed(0)
    model = namespace["load"](4)  # type: ignore[operator]
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    for _ in range(150):
        labels = torch.randint(4, (32,))
        images = (60 * labels[:, None, None, None] + 40 * torch.rand(32, 3, 16, 16)) / 255
        loss = torch.nn.functional.cross_entropy(model((images - 0.5) / 0.25), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    torch.save({"state_dict": model.state_dict(), "epoch": 3}, home / "mine.pt")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("RADII_DATA", raising=False)
    monkeypatch.setattr("sys.path", [*__import__("sys").path])
    (tmp_path / "my").mkdir()
    (tmp_path / "my" / "nets.py").write_text(NETS)
    make_pictures(tmp_path / "pictures")
    write_weights(tmp_path)
    return tmp_path


@pytest.mark.slow
def test_import_certify_train_transfer_report_predict_and_export(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def said(line: str, code: int = 0) -> str:
        outcome = radii(*shlex.split(line), cwd=home)
        assert outcome.code == code, outcome.error + outcome.out
        return outcome.out

    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", lambda place: not opened.append(place))  # type: ignore[func-returns-value]
    pixels = "--sigma 0.25 --data pictures/ --size 16 --mean 0.5,0.5,0.5 --std 0.25,0.25,0.25"
    imported = said(f"import my.nets:load --weights mine.pt {pixels} --run runs/mine")
    assert "of 40 test images right without noise\n" in imported
    few = "--every 4 --workers 1 --engine torch"
    assert "10 images" in said(f"certify runs/mine {few} --set estimation=200")
    one = "--set training.epochs=1 --set training.images_per_step=80"
    tuned = said(f"train consistency --from runs/mine --run runs/tuned {one}")
    assert "next, in 3 min: radii audit runs/tuned" in tuned
    small = "--set 'model.denoiser={ name = \"dncnn\", depth = 3, width = 8 }'"
    said(f"train denoising --from runs/mine --run runs/defended {one} {small}")
    student = "'{ name = \"resnet18\", width = 8 }'"
    assert "runs/defended-to-resnet18" in said(f"transfer --teacher runs/defended --model {student} {one}")
    for run in ("tuned", "defended"):
        said(f"certify runs/{run} {few} --with sequential --radii 0,0.25 --set most_samples=200")
    page = said("report runs/mine runs/tuned runs/defended --open")
    assert opened == [(home / page.splitlines()[0]).resolve().as_uri()]
    answers = said(
        "predict runs/tuned pictures/val/hen/15.png pictures/val/cat --json --set estimation=300"
    ).splitlines()
    found = [json.loads(line) for line in answers]
    assert len(found) == 11
    assert {each["class"] for each in found} <= set(CLASSES)
    assert all(each["radius"] >= 0 and each["parameters"]["failure"] == 0.001 for each in found)
    pytest.importorskip("onnx")
    said("export runs/tuned tuned.onnx")
    again = said("import tuned.onnx --sigma 0.25 --data pictures/ --run runs/again")
    assert "no normalisation was stated: the model gets pixels in [0, 1] as they are" in again
