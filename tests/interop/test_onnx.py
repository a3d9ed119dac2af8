"""A classifier in an ONNX file as a run: as certified model and as teacher, and invalid files."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from radii import certifiers, disk
from radii.certification.certify import CertificationConfig, certify_run
from radii.certification.load import load
from radii.interop.onnx import import_onnx
from radii.objectives import Batch, Step
from radii.runs.certificates import Certificates, header_file
from radii.runs.certificates import read as read_certificates
from radii.runs.recipe import Recipe, RecipeError, Training
from radii.smoothing.addresses import NoiseAddress
from radii.training.build import build
from radii.training.weights import model_spec, trained_model

Write = Callable[..., Path]
TRAINING = Training(epochs=1, images_per_step=32, learning_rate=0.1)


def certified(run: Path) -> Certificates:
    config = CertificationConfig(run=run, certifier=certifiers.create("fixed", estimation=200), every=90)
    return read_certificates(certify_run(config, workers=1))


def test_run_contains_the_whole_file(linear_onnx: Write, tmp_path: Path) -> None:
    file = linear_onnx()
    run = import_onnx(file, tmp_path / "run", sigma=0.25, dataset="digits")
    assert run.origin()["checkpoint"]["hash"] == disk.digest(file)
    content = file.read_bytes()
    file.unlink()
    assert trained_model(run)[1].content == content  # type: ignore[index]
    assert run.recipe.model == {"name": "onnx"}
    certificates = certified(run.path)
    assert (len(certificates.rows), certificates.header["engine"]) == (5, "onnx")


def test_different_graphs_have_different_digests(linear_onnx: Write, tmp_path: Path) -> None:
    """Two graphs have two digests: certificates of one are never continued for the other."""
    runs = [
        import_onnx(linear_onnx(f"{number}.onnx", shape=shape), tmp_path / number, sigma=0.25, dataset="digits")
        for number, shape in (("a", ("batch", 1, 8, 8)), ("b", (4, 1, 8, 8)))
    ]
    digests = [
        json.loads(header_file(next(run.certificates.glob("*.tsv"))).read_text())["weights"]
        for run in runs
        if certified(run.path)
    ]
    assert len(set(digests)) == 2
    assert [row.counts for row in certified(runs[0].path).rows] == [row.counts for row in certified(runs[1].path).rows]


def test_imported_run_can_be_loaded_in_python(linear_onnx: Write, tmp_path: Path) -> None:
    run = import_onnx(linear_onnx(), tmp_path / "run", sigma=0.25, dataset="digits")
    smoothed = load(run)
    assert smoothed.votes(torch.full((1, 8, 8), 0.5), 64, NoiseAddress(0)).sum() == 64


def test_images_have_the_models_size_by_default(linear_onnx: Write, tmp_path: Path) -> None:
    for name, shade in (("dark", 30), ("light", 220)):
        folder = tmp_path / "pictures" / "val" / name
        folder.mkdir(parents=True)
        for number in range(2):
            Image.fromarray(np.full((8, 8, 3), shade + number, np.uint8)).save(folder / f"{number}.png")
    file = linear_onnx(shape=("batch", 3, 4, 4), classes=2)
    run = import_onnx(file, tmp_path / "run", sigma=0.25, data=tmp_path / "pictures", mean=(0.5,) * 3, std=(0.25,) * 3)
    spec = model_spec(run)
    assert (spec.shape, spec.class_names) == ((3, 4, 4), ("dark", "light"))
    assert spec.normalisation == ((0.5,) * 3, (0.25,) * 3)
    assert (run.recipe.dataset["size"], run.recipe.dataset["mean"]) == (4, (0.5,) * 3)
    image, model = torch.rand(1, 3, 4, 4), trained_model(run)
    torch.testing.assert_close(model(image), model[1]((image - 0.5) / 0.25))  # type: ignore[index]


def test_constants_in_the_dataset_table_are_used(linear_onnx: Write, tmp_path: Path) -> None:
    (tmp_path / "val" / "a").mkdir(parents=True)
    (tmp_path / "val" / "b").mkdir()
    table = {"name": "folder", "size": 4, "mean": (0.1, 0.2, 0.3), "std": (0.4, 0.5, 0.6)}
    file = linear_onnx(shape=("batch", 3, 4, 4), classes=2)
    run = import_onnx(file, tmp_path / "run", sigma=0.25, dataset=table, data=tmp_path)
    assert model_spec(run).normalisation == ((0.1, 0.2, 0.3), (0.4, 0.5, 0.6))
    assert run.recipe.normalisation == "full"


def test_nothing_is_standardised_unless_stated(linear_onnx: Write, tmp_path: Path) -> None:
    run = import_onnx(linear_onnx(), tmp_path / "run", sigma=0.25, dataset="digits")
    assert model_spec(run).normalisation.mean == ()


def batch_dependent() -> list[Any]:
    from onnx import helper

    return [
        helper.make_node("Flatten", ["x"], ["flat"]),
        helper.make_node("ReduceMean", ["flat"], ["mean"], axes=[0], keepdims=1),
        helper.make_node("Sub", ["flat", "mean"], ["centred"]),
        helper.make_node("MatMul", ["centred", "weight"], ["scores"]),
    ]


@pytest.mark.parametrize(
    ("options", "settings", "message"),
    [
        (
            {"classes": 7},
            {"dataset": "digits"},
            r"answers \[3, 7\] for 3 images, expected \[3, 10\]: the dataset has 10",
        ),
        ({"shape": ("batch", 1, 9, 9)}, {"dataset": "digits"}, "takes images 1 x 9 x 9, the dataset has 1 x 8 x 8"),
        ({"shape": ("batch", 1, "h", "w")}, {}, "takes images of any size: state the size of your images"),
        (
            {"shape": ("batch", "h", 8, 8)},
            {"dataset": "digits", "mean": (0.5,)},
            "expected as many of one as of the other",
        ),
        (
            {},
            {"dataset": "digits", "mean": (0.5,) * 3, "std": (0.5,) * 3},
            "mean and std have 3 numbers, the images of digits have 1 channel",
        ),
        ({}, {"dataset": "digits", "sigma": 0.0}, "sigma = 0.0, expected a number > 0"),
    ],
)
def test_model_that_does_not_fit_the_dataset_is_refused(
    options: dict[str, Any], settings: dict[str, Any], message: str, linear_onnx: Write, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=message):
        import_onnx(linear_onnx(**options), tmp_path / "run", **{"sigma": 0.25, **settings})
    assert not (tmp_path / "run").exists()


def test_graph_that_depends_on_the_batch_is_refused(linear_onnx: Write, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="depending on the others in its batch: use it in eval mode"):
        import_onnx(linear_onnx(nodes=batch_dependent()), tmp_path / "run", sigma=0.25, dataset="digits")


def test_imported_model_cannot_be_trained() -> None:
    with pytest.raises(RecipeError, match="the model 'onnx' has no weights to train: use it as a teacher"):
        build(Recipe(dataset="digits", model="onnx", sigma=0.25, training=TRAINING))


def test_imported_model_can_be_a_teacher(linear_onnx: Write, tmp_path: Path) -> None:
    teacher = import_onnx(linear_onnx(), tmp_path / "run", sigma=0.25, dataset="digits")
    recipe = Recipe(dataset="digits", model="digits_mlp", sigma=0.25, objective="transfer", training=TRAINING)
    made = build(recipe, teacher=teacher)
    batch = Batch(torch.rand(4, 1, 8, 8), torch.arange(4), torch.arange(4))
    terms = made.objective.terms(made.model, batch, Step(1, torch.Generator().manual_seed(0)))
    terms["distance"].mean().backward()
    assert all(parameter.grad is not None for parameter in made.model.parameters())
