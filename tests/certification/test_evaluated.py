"""Certificates of other images than the run's own test split."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from radii import certifiers, datasets
from radii.certification.certify import CertificationConfig, certify_run
from radii.certification.verify import verify_run
from radii.datasets import DataError
from radii.datasets.corrupted import corrupt_dataset
from radii.reports.inputs import read
from radii.reports.report import report
from radii.runs import certificates
from radii.runs.recipe import Recipe, Training
from radii.runs.run import Run, RunError
from radii.training.loop import train

FIXED = certifiers.create("fixed", selection=10, estimation=50)
RECIPE = Recipe(
    dataset={"name": "digits", "validation": 147},
    model="digits_cnn",
    sigma=0.25,
    training=Training(epochs=1, images_per_step=400, learning_rate=0.05),
)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return train(RECIPE, tmp_path_factory.mktemp("runs") / "digits")


def config(run: Run, **fields: object) -> CertificationConfig:
    return CertificationConfig(**{"run": run.path, "certifier": FIXED, "every": 40, "engine": "torch", **fields})  # type: ignore[arg-type]


def arrays(folder: Path, **more: NDArray[np.str_]) -> Path:
    test = datasets.create("digits").split("test")
    content = {"images": test.batch(torch.arange(80)).numpy() / 2, "labels": test.labels[:80].numpy(), **more}
    np.savez(folder / "arrays.npz", allow_pickle=False, **content)
    return folder


def test_train_and_validation_are_disjoint_and_complete_and_certified_apart(run: Run) -> None:
    dataset = datasets.create("digits", validation=147)
    held, rest, whole = dataset.part("validation"), dataset.part("train"), dataset.split("train")
    assert (len(held), len(rest)) == (147, 1200)
    digests = [{part.image_digest(number) for number in range(len(part))} for part in (held, rest, whole)]
    assert digests[0] | digests[1] == digests[2]
    assert not set(held.positions.tolist()) & set(rest.positions.tolist())  # type: ignore[attr-defined]
    assert held.digest != rest.digest != whole.digest
    assert "validation = 147" in run.recipe_file.read_text()

    own = certify_run(config(run), workers=1)
    chosen = certify_run(config(run, split="validation"), workers=1)
    header = json.loads(certificates.header_file(chosen).read_text())
    assert (header["split"], header["validation"], header["images"]) == ("validation", 147, 147)
    assert header["data"] == held.digest
    assert {row.digest for row in certificates.read(chosen).rows} <= digests[0]
    assert {"split", "data"} <= json.loads(certificates.header_file(own).read_text()).keys()
    assert {entry.name for entry in read([run.path])} == {"digits", "digits (validation)"}
    assert verify_run(run, rows=None).exit_code == 0


def test_a_larger_validation_part_holds_the_smaller() -> None:
    few, many = (datasets.create("digits", validation=count).part("validation") for count in (50, 90))
    assert set(few.positions.tolist()) < set(many.positions.tolist())  # type: ignore[attr-defined]


def test_without_the_field_the_training_images_are_those_of_the_split() -> None:
    dataset = datasets.create("digits")
    assert dataset.part("train").digest == dataset.split("train").digest
    with pytest.raises(DataError, match="no validation images"):
        dataset.part("validation")
    with pytest.raises(DataError, match="leaves none"):
        datasets.create("digits", validation=1347).part("train")


def test_another_dataset_has_its_own_file_and_header(run: Run, tmp_path: Path) -> None:
    arrays(tmp_path)
    wanted = config(run, dataset="arrays", data=tmp_path)
    made = certify_run(wanted, workers=1)
    header = json.loads(certificates.header_file(made).read_text())
    assert (header["dataset"], header["evaluated_on"], header["images"]) == ("arrays", {"name": "arrays"}, 80)
    assert verify_run(run, made, rows=None, data=tmp_path).exit_code == 0
    assert verify_run(run, made, rows=None).exit_code == 2
    assert certify_run(replace(wanted, dataset={"name": "arrays"}), workers=1) == made  # type: ignore[arg-type]
    assert f"{run.name} (arrays)" in {entry.name for entry in read([run.path])}


def test_other_shapes_classes_and_splits_are_refused(run: Run, tmp_path: Path) -> None:
    with pytest.raises(RunError, match="it lacks '0', '1', .* and 5 more and 'a', 'b', .* are unknown"):
        certify_run(config(run, dataset="arrays", data=arrays(tmp_path, class_names=np.array(list("abcdefghij")))))
    np.savez(tmp_path / "arrays.npz", images=np.zeros((10, 9, 9), np.uint8), labels=np.arange(10))
    with pytest.raises(RunError, match=r"takes images of shape \(1, 8, 8\)"):
        certify_run(config(run, dataset="arrays", data=tmp_path))
    with pytest.raises(ValueError, match="leave out the other dataset"):
        certify_run(config(run, dataset="arrays", data=tmp_path, split="validation"))
    with pytest.raises(ValueError, match="split = 'val'"):
        config(run, split="val")


def test_corruptions_are_reported_apart_from_the_run_s_own(run: Run, tmp_path: Path) -> None:
    corrupt_dataset(datasets.create("digits"), tmp_path / "c", every=150)
    certify_run(config(run), workers=1)
    for fields in ({"kind": "fog"}, {"kind": "snow", "severity": 1}, {"kind": "snow", "severity": 5}):
        other = {"name": "corrupted", **fields}
        certify_run(config(run, every=1, dataset=other, data=tmp_path / "c"), workers=1)
    report([run.path], tmp_path / "out")
    page = (tmp_path / "out" / "report.md").read_text()
    assert "## Corruptions: digits (corrupted, fixed)" in page
    own, _, corrupted = page.partition("## Corruptions")
    assert "fog" not in own
    assert "| fog | 15 |" in corrupted
    assert "| snow | 6 |" in corrupted
