"""Untrusted weights: what does not fit the model is an error of one sentence that names the file."""

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from radii.interop.checkpoint import import_checkpoint
from radii.runs.recipe import Recipe, Training
from radii.runs.run import Run, RunError
from radii.training.weights import model_spec, trained_model

RECIPE = Recipe(
    dataset="digits",
    model="digits_cnn",
    sigma=0.25,
    training=Training(epochs=1, images_per_step=512, learning_rate=0.05),
)
NONE: list[list[float]] = [[], []]


@pytest.fixture
def run(digits_run: Callable[..., Run]) -> Run:
    return digits_run()


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ([], "does not hold a JSON object"),
        ({}, "does not say what images"),
        ({"shape": [1, 8], "class_names": ["a", "b"], "normalisation": NONE}, "expected channels, height and width"),
        ({"shape": [1, 10**9, 10**9], "class_names": ["a", "b"], "normalisation": NONE}, "expected channels"),
        ({"shape": [1, 8, "8"], "class_names": ["a", "b"], "normalisation": NONE}, "expected channels"),
        ({"shape": [1, 8, 8], "class_names": ["a", 7], "normalisation": NONE}, "class names, expected 2 to"),
        ({"shape": [1, 8, 8], "class_names": ["a"], "normalisation": NONE}, "1 class names, expected 2 to"),
        ({"shape": [1, 8, 8], "class_names": ["a", "b"], "normalisation": [[0.5], [0]]}, "expected a mean and std"),
        ({"shape": [1, 8, 8], "class_names": ["a", "b"], "normalisation": [["a"], [1]]}, "expected a mean and std"),
        ({"shape": [1, 8, 8], "class_names": ["a", "b"], "normalisation": 7}, "does not say what images"),
    ],
)
def test_invalid_spec_is_an_error(spec: Any, sentence: str, run: Run) -> None:
    save_file(load_file(run.weights_file), run.weights_file, {"spec": json.dumps(spec)})
    with pytest.raises(RunError, match=sentence) as caught:
        model_spec(run)
    assert str(run.weights_file) in str(caught.value)


@pytest.mark.parametrize("change", ["dtype", "shape", "missing", "truncated"])
def test_weights_that_do_not_fit_are_an_error(change: str, run: Run) -> None:
    tensors = load_file(run.weights_file)
    spec = json.dumps(model_spec(run)._asdict())
    name = next(key for key, tensor in tensors.items() if tensor.ndim == 2)
    if change == "missing":
        del tensors[name]
    else:
        tensors[name] = tensors[name].to(torch.int8) if change == "dtype" else tensors[name][:, :-1].contiguous()
    save_file(tensors, run.weights_file, {"spec": spec})
    if change == "truncated":
        run.weights_file.write_bytes(run.weights_file.read_bytes()[:-9])
    with pytest.raises(RunError, match="does not hold the weights of digits_cnn") as caught:
        trained_model(run)
    assert "\n" not in str(caught.value)


def test_checkpoint_bomb_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "net.pt"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("net/data/0", bytes(1 << 24))
    with pytest.raises(ValueError, match="net.pt unpacks to 16,777,216 bytes, far more than its size"):
        import_checkpoint(path, RECIPE, tmp_path / "run")


def test_checkpoint_of_integers_is_refused(run: Run, tmp_path: Path) -> None:
    tensors = {key.removeprefix("1."): tensor.to(torch.int8) for key, tensor in load_file(run.weights_file).items()}
    torch.save(tensors, tmp_path / "net.pt")
    with pytest.raises(
        ValueError, match="net.pt does not hold digits_cnn: .* holds torch.int8, expected torch.float32"
    ):
        import_checkpoint(tmp_path / "net.pt", RECIPE, tmp_path / "imported")
