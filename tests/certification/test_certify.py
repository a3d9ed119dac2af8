import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from radii import certifiers, datasets
from radii.certification import certify
from radii.certification.certify import CertificationConfig, certify_missing, certify_run, open_certification
from radii.certification.load import load, open_run
from radii.certification.verify import verify_run
from radii.certifiers.fixed import Fixed
from radii.disk import LockedError
from radii.errors import RunWarning
from radii.provenance import rounding_environment
from radii.runs import certificates, resume
from radii.runs.certificates import Row
from radii.runs.recipe import Recipe, Training
from radii.runs.run import Run, RunError
from radii.smoothing.noise import Gaussian
from radii.training.loop import train
from radii.training.open_dataset import dataset_of
from radii.training.soft_labels import soft_labels
from radii.workers import voter

CPU = torch.device("cpu")
FIXED = certifiers.create("fixed", selection=20, estimation=200)


@pytest.fixture
def run(digits_run: Callable[..., Run]) -> Run:
    return digits_run()


def content(path: Path) -> list[Row]:
    """The rows of a certificate file without their times."""
    return [
        Row(r.index, r.label, r.prediction, r.radius, 0.0, r.samples, r.counts) for r in certificates.read(path).rows
    ]


def config(run: Run, **fields: object) -> CertificationConfig:
    return CertificationConfig(**{"run": run.path, "certifier": FIXED, "every": 45, "engine": "torch", **fields})  # type: ignore[arg-type]


def test_header_records_the_configuration(run: Run) -> None:
    path = certify_run(config(run), workers=1)
    header = json.loads(path.with_suffix(".json").read_text())
    assert header["procedure"] == "fixed"
    assert header["parameters"] == {"failure": 0.001, "selection": 20, "estimation": 200} | {
        key: header["parameters"][key] for key in header["parameters"]
    }
    assert (header["seed"], header["every"], header["split"], header["engine"]) == (0, 45, "test", "torch")
    assert len(header["weights"]) == 64
    rows = content(path)
    assert [row.index for row in rows] == list(range(0, 450, 45))
    assert all(row.samples == 220 and sum(row.counts.values()) == 200 for row in rows)


@pytest.mark.slow
def test_results_do_not_depend_on_workers_or_order(run: Run, tmp_path: Path) -> None:
    alone = content(certify_run(config(run), workers=1))
    for path in run.certificates.iterdir():
        path.rename(tmp_path / path.name)
    assert content(certify_run(config(run), workers=2)) == alone
    denser = content(certify_run(config(run, every=15), workers=1))
    assert [row for row in denser if row.index % 45 == 0] == alone


def test_a_stopped_certification_continues_and_repairs_its_last_line(run: Run) -> None:
    path = certify_run(config(run), workers=1)
    whole = content(path)
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:4]) + lines[4][:9])
    seen: list[int] = []
    certify_run(config(run), workers=1, on_image=lambda _, row: seen.append(row.index) if row else None)
    assert content(path) == whole
    assert seen == [row.index for row in whole]


def test_two_cannot_write_one_file(run: Run) -> None:
    seen: list[int] = []

    def second(_: int, row: Row | None) -> None:
        if row is None:
            with pytest.raises(LockedError, match=rf"\.tsv is being written by process {os.getpid()}: wait for it"):
                certify_run(config(run), workers=1)
            other = certifiers.create("fixed", selection=20, estimation=100)
            seen.append(len(content(certify_run(config(run, certifier=other), workers=1))))

    assert len(content(certify_run(config(run), workers=1, on_image=second))) == 10
    assert seen == [10]
    assert not list(run.certificates.glob(".*"))


def test_another_seed_is_refused_while_the_first_image_is_being_certified(run: Run) -> None:
    def second(_: int, row: Row | None) -> None:
        if row is None:
            with pytest.raises(RunError, match=r"seed = 1, but .* is being made of these images with seed 0"):
                certify_run(config(run, seed=1), workers=1)

    assert len(content(certify_run(config(run), workers=1, on_image=second))) == 10
    assert not list(run.certificates.glob(".*"))


@pytest.mark.parametrize(
    "other",
    [
        {},
        {"max_images": 3},
        {"every": 90},
        {"certifier": certifiers.create("fixed", selection=20, estimation=201)},
        {"certifier": certifiers.create("fixed", selection=21, estimation=200)},
        {"certifier": certifiers.create("prediction")},
        {"noise": Gaussian(0.3)},
        {"batch_size": 64},
        pytest.param({"engine": "openvino"}, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_another_seed_is_refused_where_images_overlap(run: Run, other: dict[str, object]) -> None:
    if other.get("engine") == "openvino":
        pytest.importorskip("openvino")
    certify_run(config(run), workers=1)
    with pytest.raises(RunError, match=r"with seed 0\. Choosing a seed after seeing results would bias them"):
        certify_run(config(run, **{"seed": 1, **other}), workers=1)


def test_another_seed_is_taken_for_other_images_other_weights_and_where_there_is_no_row(run: Run) -> None:
    begun = certify_run(config(run, max_images=1), workers=1)
    lines = begun.read_text().splitlines(keepends=True)
    begun.write_text(lines[0])
    kept = certify_run(config(run, seed=1, max_images=1), workers=1)
    assert [row.index for row in content(kept)] == [0]
    begun.write_text("".join(lines))
    with pytest.raises(RunError, match="with seed"):
        certify_run(config(run, seed=2, max_images=1), workers=1)
    retrain(run)
    assert len(content(certify_run(config(run, seed=2, max_images=1), workers=1))) == 1


def retrain(run: Run) -> None:
    """Other weights in the same run, as if it had been trained again."""
    state = {name: tensor + 0.01 for name, tensor in load_file(run.weights_file).items()}
    with safe_open(run.weights_file, "pt") as file:
        metadata = file.metadata()
    save_file(state, run.weights_file, metadata)


def test_rows_and_header_name_the_data(run: Run) -> None:
    path = certify_run(config(run), workers=1)
    images = dataset_of(run, None).split("test")
    assert certificates.read(path).header["data"] == images.digest
    assert [row.digest for row in certificates.read(path).rows] == [images.image_digest(i) for i in range(0, 450, 45)]


@pytest.fixture
def arrays(tmp_path: Path) -> tuple[Run, Path]:
    """A run on images of the user's own, and the file that they lie in."""
    digits = datasets.create("digits")
    content: dict[str, Any] = {}
    for split in ("train", "test"):
        images = digits.split(split)
        content[f"{split}_images"] = images.batch(torch.arange(60))[:, 0].numpy()
        content[f"{split}_labels"] = images.labels[:60].numpy()
    data = tmp_path / "digits.npz"
    np.savez(data, **content)
    training = Training(epochs=1, images_per_step=32, learning_rate=0.05)
    recipe = Recipe(dataset="arrays", model="digits_cnn", sigma=0.25, training=training)
    return train(recipe, tmp_path / "own", data=data), data


def swap(data: Path, *names: str) -> None:
    """Exchange the first two images or labels of a file."""
    content = dict(np.load(data))
    for name in names:
        content[name] = np.concatenate([content[name][1::-1], content[name][2:]])
    np.savez(data, **content)


@pytest.mark.parametrize("swapped", [["test_images"], ["test_labels"], ["test_images", "test_labels"]], ids=str)
def test_continuing_on_other_data_is_refused(arrays: tuple[Run, Path], swapped: list[str]) -> None:
    run, data = arrays
    path = certify_run(config(run, every=1, max_images=3), workers=1)
    before = path.read_bytes()
    swap(data, *swapped)
    with pytest.raises(RunError, match=r"was made from other data: its image 0 differs"):
        certify_run(config(run, every=1, max_images=3), workers=1)
    assert path.read_bytes() == before


def test_another_seed_is_refused_for_reordered_images(arrays: tuple[Run, Path]) -> None:
    run, data = arrays
    certify_run(config(run, every=1, max_images=2), workers=1)
    swap(data, "test_images", "test_labels")
    with pytest.raises(RunError, match=r"seed = 1, but .* has certificates of 1 of these images with seed 0"):
        certify_run(config(run, every=1, max_images=1, seed=1), workers=1)


@pytest.mark.parametrize("swapped", ["train_images", "train_labels"])
def test_training_on_other_data_is_refused(arrays: tuple[Run, Path], swapped: str) -> None:
    run, data = arrays
    run.weights_file.unlink()
    swap(data, swapped)
    training = Training(epochs=1, images_per_step=32, learning_rate=0.05)
    recipe = Recipe(dataset="arrays", model="digits_cnn", sigma=0.25, training=training)
    with pytest.raises(RunError, match="was started with other training images or labels"):
        train(recipe, run.path, data=data)


def test_soft_labels_of_other_data_are_refused(arrays: tuple[Run, Path], tmp_path: Path) -> None:
    run, data = arrays
    path = soft_labels(run, samples=4, engine="torch")
    swap(data, "train_labels")
    with pytest.raises(RunError, match="has soft labels that were made with data"):
        soft_labels(run, samples=4, engine="torch")
    training = Training(epochs=1, images_per_step=32, learning_rate=0.05)
    objective = {"name": "catrs", "copies": 2, "steps": 1}
    recipe = Recipe(dataset="arrays", model="digits_cnn", sigma=0.25, objective=objective, training=training)
    with pytest.raises(ValueError, match="soft labels of other images"):
        train(recipe, tmp_path / "catrs", data=data, soft_labels=path)


def test_weights_that_change_while_they_are_loaded_are_refused(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def swapped(*arguments: Any, **named: Any) -> Any:
        retrain(run)
        return open_run(*arguments, **named)

    monkeypatch.setattr(certify, "open_run", swapped)
    with pytest.raises(RunError, match="the weights of .* changed since the certification began"):
        open_certification(config(run))


def test_header_contains_the_users_code_but_no_environment(run: Run) -> None:
    header = open_certification(config(run)).header
    assert header["code"] == {}
    own = open_certification(config(run, certifier=Own())).header
    assert list(own["code"]) == [f"{__name__}:Own"]
    assert not {"torch", "instruction_set", "environments"} & header.keys()
    (noted,) = certificates.read(certify_run(config(run), workers=1)).header["environments"]
    assert (noted["first_row"], noted["instruction_set"]) == (0, torch.backends.cpu.get_cpu_capability())


def test_edited_model_table_does_not_continue_a_file(tmp_path: Path) -> None:
    """The weights of a `vit` fit any number of heads."""
    model = {"name": "vit", "width": 8, "layers": 1, "heads": 2}
    training = Training(epochs=1, images_per_step=512, learning_rate=0.05)
    run = train(Recipe(dataset="digits", model=model, sigma=0.25, training=training), tmp_path / "vit")
    certify_run(config(run, every=225), workers=1)
    text = run.recipe_file.read_text()
    run.recipe_file.write_text(text.replace("heads = 2", "heads = 4"))
    assert text != run.recipe_file.read_text()
    with pytest.raises(ValueError, match="was made with another model table in its recipe"):
        certify_run(config(run, every=225), workers=1)
    with pytest.warns(RunWarning, match="were made with another model table in its recipe: they do not hold for this"):
        load(run.path, engine="torch")


class Own(Fixed):
    """A certifier of the user's own."""


def test_a_file_is_continued_on_another_machine(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    path = certify_run(config(run), workers=1)
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:5]))
    another = {**rounding_environment("torch", CPU, 128), "instruction_set": "another"}
    monkeypatch.setattr("radii.certification.certify.rounding_environment", lambda *_: another)
    monkeypatch.setattr(voter, "_environment", lambda *_: another)
    assert certify_run(config(run), workers=1) == path
    assert [each["first_row"] for each in certificates.read(path).header["environments"]] == [0, 4]
    assert len(content(path)) == 10


def test_a_file_is_continued_with_another_batch_size(run: Run) -> None:
    """The draws do not depend on it: neither new chances nor another file."""
    whole = certify_run(config(run, batch_size=128), workers=1)
    rows, header = content(whole), certificates.read(whole).header
    assert header["stream"] == "philox4x64"
    assert not {"batch_size", "device"} & header.keys()
    whole.write_text("".join(whole.read_text().splitlines(keepends=True)[:5]))
    assert certify_run(config(run, batch_size=17), workers=1) == whole
    assert content(whole) == rows
    environments = certificates.read(whole).header["environments"]
    assert [(entry["first_row"], entry["batch_size"]) for entry in environments] == [(0, 128), (4, 17)]


def test_a_file_of_the_older_streams_is_continued_with_them(run: Run) -> None:
    """Its header has a batch size and no stream; the next command draws as it was begun."""
    older = open_certification(replace(config(run), stream=None))
    assert "stream" not in older.header
    assert (older.header["batch_size"], older.header["device"]) == (128, "cpu")
    with resume.open_file(run, older.request(older.chosen)) as file:
        certify_missing(older, file, older.chosen[:3], 1, None, lambda *_: None)
    begun = file.path
    rows = list(older.rows(older.chosen))
    assert certify_run(config(run), workers=1) == begun
    strip = [replace(row, seconds=0.0) for row in certificates.read(begun).rows]
    assert strip == [replace(row, seconds=0.0) for row in rows]
    assert verify_run(run, rows=None).in_words().endswith("10 replayed, all votes equal")
    other = certify_run(config(run, batch_size=64), workers=1)
    assert other != begun
    assert [row.counts for row in certificates.read(other).rows] != [row.counts for row in rows]


def test_auto_keeps_the_engine_of_an_existing_file(run: Run) -> None:
    begun = certify_run(config(run, engine="torch"), workers=1)
    assert certify_run(config(run, engine="auto"), workers=1) == begun


def test_an_untrained_run_is_refused(run: Run) -> None:
    run.weights_file.unlink()
    with pytest.raises(RunError, match="not trained to the end"):
        certify_run(config(run), workers=1)


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"it has no recipe.toml"):
        certify_run(config(Run(tmp_path)))


@pytest.mark.parametrize("field", ["every", "max_images", "batch_size"])
def test_counts_below_one_are_refused(run: Run, field: str) -> None:
    with pytest.raises(ValueError, match=f"{field} = 0, expected"):
        config(run, **{field: 0})


def test_a_seed_that_no_header_can_hold_is_refused_before_it_is_written(run: Run) -> None:
    with pytest.raises(ValueError, match="expected a whole number >= 0, of 128 bits at most"):
        config(run, seed=1 << 128)
    assert len(content(certify_run(config(run, seed=(1 << 128) - 1, max_images=1), workers=1))) == 1


def test_environment_names_the_bfloat16_units_of_an_engine_that_uses_them(monkeypatch: pytest.MonkeyPatch) -> None:
    units = {"avx512_bf16": True, "amx_bf16": False, "avx2": True}
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: units)
    assert rounding_environment("openvino_bf16", CPU, 128)["bfloat16"] == ["avx512_bf16"]
    assert "bfloat16" not in rounding_environment("openvino", CPU, 128)
