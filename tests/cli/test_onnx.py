"""An ONNX file from the command line: import, certify, predict, report and export."""

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from radii.cli import main
from radii.errors import install

Write = Callable[..., Path]


@pytest.fixture
def radii(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., object]:
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> object:
        monkeypatch.setattr(sys, "argv", ["radii", *arguments])
        with pytest.raises(SystemExit) as stopped:
            main()
        return stopped.value.code

    return run


def make_pictures(folder: Path) -> None:
    for name, shade in (("dark", 30), ("light", 220)):
        (folder / "val" / name).mkdir(parents=True)
        for number in range(3):
            Image.fromarray(np.full((4, 4, 3), shade + number, np.uint8)).save(folder / "val" / name / f"{number}.png")


@pytest.mark.slow
def test_onnx_file_can_be_imported_certified_and_reported(
    radii: Callable[..., object], linear_onnx: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_pictures(tmp_path / "pictures")
    linear_onnx("model.onnx", shape=(1, 3, 4, 4), classes=2)
    constants = ("--mean", "0.5,0.5,0.5", "--std", "0.5,0.5,0.5")
    assert radii("import", "model.onnx", "--sigma", "0.5", "--data", "pictures", "--run", "runs/mine", *constants) == 0
    said = capsys.readouterr().out
    assert "runs/mine: imported for sigma 0.5\n" in said
    assert ") of 6 test images right without noise" in said
    assert "\nnext, in 3 min: radii audit runs/mine --minutes 3\n" in said
    (tmp_path / "model.onnx").unlink()
    assert radii("certify", "runs/mine", "--set", "estimation=200", "--workers", "2") == 0
    assert "6 images" in capsys.readouterr().out
    assert radii("predict", "runs/mine", "pictures/val/dark/0.png") in (0, 1)
    assert capsys.readouterr().out.split(": ")[1].split(",")[0] in ("dark", "light", "abstains")
    assert radii("report", "runs/mine") == 0
    assert radii("export", "runs/mine", "out/mine.onnx") == 0
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["mine.onnx", "mine.onnx.json"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("import", "linear.onnx", "--run", "x"), "folder needs photographs in train/<class>/ and val/<class>/"),
        (
            ("import", "linear.onnx", "--model", "lenet", "--run", "x"),
            "has its own architecture. Leave out --model.",
        ),
        (("import", "any.onnx", "--run", "x"), "state the size of your images; pass --size"),
        (("import", "absent.onnx", "--run", "x"), "there is no file absent.onnx"),
        (("import", "broken.onnx", "--run", "x"), "broken.onnx is not an ONNX file that can be read"),
        (("import", "linear.onnx", "--mean", "a", "--run", "x"), "--mean 'a': expected numbers separated by commas"),
        (("import", "linear.onnx", "--mean", "0.5", "--run", "x"), "std = [], expected as many of one as of the other"),
        (("import", "a.pth", "--run", "x"), "a.pth needs --dataset and --model"),
        (
            ("import", "a.pth", "--dataset", "digits", "--model", "lenet", "--size", "8", "--run", "x"),
            "need a factory or an ONNX file",
        ),
        (("export", "absent", "x.onnx"), "absent is not"),
    ],
)
def test_errors_are_one_line(
    arguments: tuple[str, ...],
    message: str,
    radii: Callable[..., object],
    linear_onnx: Write,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("RADII_DATA", raising=False)
    linear_onnx()
    linear_onnx("any.onnx", shape=("batch", 3, "height", "width"))
    (tmp_path / "broken.onnx").write_bytes(b"hello")
    assert radii(*arguments) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not (tmp_path / "x").exists()


def test_missing_extra_is_named_in_the_error(
    radii: Callable[..., object], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    assert radii("import", "model.onnx", "--run", "x") == 2
    assert install("onnx") in capsys.readouterr().err
