"""The classes of the images against the model's: a folder that was renamed or added never shifts labels unnoticed."""

import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils import data as torch_data

from radii import certifiers, datasets
from radii.certification.attack import AttackConfig, attack_run
from radii.certification.certify import CertificationConfig, certify_run
from radii.certification.dataset import certify_dataset
from radii.certification.load import load
from radii.certification.verify import verify_run
from radii.interop.checkpoint import import_checkpoint
from radii.interop.ensemble import import_ensemble
from radii.interop.export import export
from radii.interop.onnx import import_onnx
from radii.runs.recipe import Recipe, Training
from radii.runs.run import Run, RunError
from radii.training.build import build
from radii.training.loop import train
from radii.training.open_dataset import OtherClassesError
from radii.training.soft_labels import soft_labels

FIXED = certifiers.create("fixed", selection=10, estimation=50)
DATASET = {"name": "folder", "size": 8, "channels": 1}
TRAINING = Training(epochs=1, images_per_step=12, learning_rate=0.05)
CLASSES = ("ant", "bee", "cat")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on photographs of three classes, in `run`, and the photographs, in `photographs`."""
    folder, rng = tmp_path_factory.mktemp("classes"), np.random.default_rng(0)
    for split in ("train", "val"):
        for name in CLASSES:
            place = folder / "photographs" / split / name
            place.mkdir(parents=True)
            for number in range(4):
                Image.fromarray(rng.integers(0, 256, (8, 8), np.uint8)).save(place / f"{number}.png")
    recipe = Recipe(dataset=DATASET, model="digits_cnn", sigma=0.25, training=TRAINING)
    train(recipe, folder / "run", data=folder / "photographs")
    return folder


@pytest.fixture
def run(made: Path, tmp_path: Path) -> Run:
    shutil.copytree(made / "photographs", tmp_path / "photographs")
    return Run(shutil.copytree(made / "run", tmp_path / "run"))


def rename(old: str, new: str) -> Callable[[Path], None]:
    def act(root: Path) -> None:
        for split in ("train", "val"):
            (root / split / old).rename(root / split / new)

    return act


def add(root: Path) -> None:
    for split in ("train", "val"):
        shutil.copytree(root / split / "ant", root / split / "asp")


def remove(root: Path) -> None:
    for split in ("train", "val"):
        shutil.rmtree(root / split / "ant")


def reorder(root: Path) -> None:
    (root / "classes.txt").write_text("bee\nant\ncat\n")


CHANGES = {
    "renamed": (rename("bee", "wasp"), "it lacks 'bee' and 'wasp' is unknown to the model"),
    "new": (add, "'asp' is unknown to the model"),
    "removed": (remove, "it lacks 'ant'"),
    "reordered": (reorder, "their order is 'bee', 'ant', 'cat'"),
}


def denoised(run: Run) -> dict[str, Any]:
    return {"name": "denoised", "classifier": str(run.path), "denoiser": {"name": "dncnn", "depth": 3, "width": 2}}


USES: dict[str, Callable[[Run, Path], object]] = {
    "certify": lambda run, data: certify_run(
        CertificationConfig(run=run.path, certifier=FIXED, engine="torch", data=data), workers=1
    ),
    "attack": lambda run, data: attack_run(AttackConfig(run=run.path, engine="torch", data=data, images=1)),
    "soft labels": lambda run, data: soft_labels(run, samples=4, engine="torch", data=data),
    "certify_dataset": lambda run, data: certify_dataset(
        load(run, engine="torch"), {**DATASET, "path": str(data)}, seed=0, workers=1
    ),
    "transfer": lambda run, data: build(
        Recipe(dataset=DATASET, model="digits_cnn", sigma=0.25, objective="transfer", training=TRAINING),
        data=data,
        teacher=run,
    ),
    "fine-tuning": lambda run, data: build(
        Recipe(dataset=DATASET, model="digits_cnn", sigma=0.25, training=replace(TRAINING, initial=str(run.path))),
        data=data,
    ),
    "a denoiser in front of it": lambda run, data: build(
        Recipe(dataset=DATASET, model=denoised(run), sigma=0.25, objective="denoising", training=TRAINING), data=data
    ),
    "import of weights": lambda run, data: import_checkpoint(
        run.weights_file, Recipe(dataset=DATASET, model="digits_cnn", sigma=0.25), run.path.parent / "new", data=data
    ),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("change", CHANGES)
def test_other_classes_are_refused_by_name(run: Run, change: str, use: str) -> None:
    data = run.path.parent / "photographs"
    act, words = CHANGES[change]
    act(data)
    # A model that takes another number of classes than the folder has cannot be loaded at all.
    number = r"takes images .* in 3 classes, not|another number of classes|does not hold digits_cnn"
    sentence = f"{re.escape(words)}|has other classes|{number}"
    with pytest.raises((RunError, ValueError), match=sentence):
        USES[use](run, data)
    assert not (run.path.parent / "new").exists()


@pytest.mark.parametrize("change", CHANGES)
def test_the_sentence_names_the_classes(run: Run, change: str) -> None:
    data = run.path.parent / "photographs"
    act, words = CHANGES[change]
    act(data)
    with pytest.raises(OtherClassesError) as error:
        USES["certify"](run, data)
    assert words in str(error.value)
    assert str(error.value).endswith("Name and order them as in training: 'ant', 'bee', 'cat'")


def test_verify_says_why_it_cannot_check(run: Run) -> None:
    data = run.path.parent / "photographs"
    USES["certify"](run, data)
    rename("bee", "wasp")(data)
    result = verify_run(run, data=data, rows=0)
    assert result.exit_code == 2
    assert "it lacks 'bee'" in result.in_words()


def test_a_folder_without_the_last_classes_keeps_its_labels(run: Run) -> None:
    data = run.path.parent / "photographs"
    for split in ("train", "val"):
        shutil.rmtree(data / split / "cat")
    assert USES["certify"](run, data)


def test_an_export_knows_its_classes(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("onnx", reason="the extra radii[onnx] is not installed")
    file, data = export(run, tmp_path / "x.onnx"), tmp_path / "photographs"
    assert import_onnx(file, tmp_path / "same", sigma=0.25, dataset=DATASET, data=data).finished
    rename("ant", "dog")(data)
    with pytest.raises(OtherClassesError, match=r"other classes than .*x\.onnx: it lacks 'ant'"):
        import_onnx(file, tmp_path / "other", sigma=0.25, dataset=DATASET, data=data)


def test_numbers_are_places_in_the_order_of_the_classes(run: Run, tmp_path: Path) -> None:
    data = tmp_path / "photographs"
    for number, name in enumerate(CLASSES):
        rename(name, str(number))(data)
    assert USES["certify"](run, data)
    rename("2", "3")(data)
    with pytest.raises(OtherClassesError, match="'3' are unknown to the model"):
        USES["certify"](run, data)


class Pairs(torch_data.Dataset[Any]):
    """A torch dataset that states its classes as torchvision's do."""

    def __init__(self, *classes: str, target_transform: Callable[[int], int] | None = None) -> None:
        self.classes, self.target_transform = list(classes), target_transform

    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return torch.full((1, 8, 8), 0.5), index


def test_classes_that_a_torch_dataset_states_are_compared(run: Run) -> None:
    smoothed = load(run, engine="torch")

    def certify(dataset: object) -> int:
        return len(certify_dataset(smoothed, dataset, seed=0, workers=1, estimation=50, max_images=1).rows)

    moved = Pairs("bee", "ant", "cat")
    for source in (moved, torch_data.DataLoader(moved), torch_data.Subset(moved, [0, 1])):
        with pytest.raises(ValueError, match="the dataset has the class 'ant' in another place than the classifier"):
            certify(source)
    labels = SimpleNamespace(names=["cat", "bee", "ant"])
    moved.features = {"label": labels}  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match="has the class 'ant' in another place"):
        certify(moved)
    for source in (Pairs("ant", "bee", "cat"), Pairs("0", "1", "2"), Pairs("bee", "ant", target_transform=abs)):
        assert certify(source) == 1


def test_names_of_a_classifier_in_memory_are_compared(run: Run, tmp_path: Path) -> None:
    smoothed = load(run, engine="torch")
    whole = datasets.create("folder", tmp_path / "photographs", size=8, channels=1)
    results = certify_dataset(smoothed, whole, seed=0, workers=1, estimation=50, max_images=1)
    assert len(results.rows) == 1


def test_members_of_an_ensemble_have_one_order_of_classes(run: Run, tmp_path: Path) -> None:
    data = tmp_path / "photographs"
    same = shutil.copytree(run.path, tmp_path / "same")
    assert import_ensemble([run, same], tmp_path / "both", data=data).finished
    shutil.copytree(data, tmp_path / "others")
    reorder(tmp_path / "others")
    other = train(replace(run.recipe, dataset=DATASET), tmp_path / "other", data=tmp_path / "others")
    for members, place in (([run, other], data), ([other, run], tmp_path / "others")):
        with pytest.raises(RunError, match=r"has other classes: .*in this order\. Name and order them as in training"):
            import_ensemble(members, tmp_path / "mixed", data=place)
    assert not (tmp_path / "mixed").exists()


def test_classes_that_are_new_in_their_place_are_learned_by_fine_tuning_alone(run: Run) -> None:
    data = run.path.parent / "photographs"
    rename("bee", "bat")(data)
    assert USES["fine-tuning"](run, data)
    with pytest.raises(RunError, match="has other classes: 'ant', 'bee', 'cat'"):
        USES["a denoiser in front of it"](run, data)
