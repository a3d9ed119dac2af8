"""Runs are matched to rows by what they train; the budget is stated, and never taken for the paper's."""

import json
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save

from radii.errors import RunWarning
from radii.papers import tables
from radii.papers.external import results_from
from radii.papers.match import ScannedRun, group_results, match_runs, matches, scan_runs
from radii.papers.tables import System, TableError
from radii.runs import certificates, recipe
from radii.runs.certificate_writer import CertificateFile
from radii.runs.certificates import Row
from tests.papers.samples import LABEL, RESULTS, SIX, copy_gaussian

OTHER_WEIGHTS = save({"other": torch.zeros(1)})
CATRS_3 = tables.load("catrs-3")


def only_run(path: Path) -> ScannedRun:
    (run,) = scan_runs([path])
    return run


def test_archived_runs_are_found_with_their_budgets() -> None:
    results = match_runs(CATRS_3, scan_runs([RESULTS]))
    small = {result.source for matched in results.values() for result in matched if result.budget == "small"}
    assert {str(SIX / name) for name in ("gaussian", "stability", "smoothadv", "consistency", "smoothmix")} <= small
    assert not [result for matched in results.values() for result in matched if result.budget == "paper"]


def test_budget_is_the_papers_only_if_the_certificates_are_too() -> None:
    """Ninety epochs, but every twentieth image or a thousand samples: not the paper's budget."""
    results = match_runs(CATRS_3, scan_runs([RESULTS / "mnist" / "published-schedule"]))
    assert [result.budget for result in results[LABEL]] == ["", "", ""]


def test_files_of_a_run_are_read_once_for_all_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    reads: Counter[Path] = Counter()

    def counting(read: Callable[..., Any]) -> Callable[..., Any]:
        def call(path: Path, *more: Any) -> Any:
            reads[path] += 1
            return read(path, *more)

        return call

    monkeypatch.setattr(certificates, "read", counting(certificates.read))
    monkeypatch.setattr(recipe, "read", counting(recipe.read))
    runs = scan_runs([SIX])
    results = match_runs(CATRS_3, runs)
    own = {path: count for path, count in reads.items() if RESULTS in path.parents}
    assert len([label for label, matched in results.items() if matched]) > 3
    assert {path.suffix for path in own} == {".toml", ".tsv"}
    assert set(own.values()) == {1}


def test_failed_runs_are_ignored() -> None:
    assert not [trained for trained in scan_runs([RESULTS]) if "tried" in trained.run.path.parts]


@pytest.mark.parametrize(
    ("name", "system"),
    [
        ("gaussian", System(recipe="mnist/gaussian-0.25")),
        ("gaussian", System(recipe="mnist/gaussian-0.50", settings=("model=lenet_wide",))),
        ("gaussian", System(recipe="mnist/gaussian-0.50", settings=("training.initial=runs/other",))),
        ("gaussian", System(recipe="fashion_mnist/gaussian-0.50")),
        ("consistency", System(recipe="mnist/consistency-0.50", settings=("objective.weight=10.0",))),
        ("smoothadv", System(recipe="mnist/smoothadv-0.50", settings=("objective.attack=ddn",))),
        ("smoothmix-to-lenet", System(recipe="mnist/transfer-0.50", teacher=System(recipe="mnist/macer-0.50"))),
        (
            "smoothmix-to-lenet-softmax",
            System(recipe="mnist/transfer-0.50", teacher=System(recipe="mnist/smoothmix-0.50")),
        ),
    ],
)
def test_other_system_does_not_match(name: str, system: System) -> None:
    assert not matches(only_run(SIX / name), system)


def test_student_matches_by_its_teacher() -> None:
    taught = System(recipe="mnist/transfer-0.50", teacher=System(recipe="mnist/smoothmix-0.50"))
    assert matches(only_run(SIX / "smoothmix-to-lenet"), taught)


def test_missing_soft_labels_are_remarked() -> None:
    (result,) = match_runs(CATRS_3, scan_runs([SIX / "catrs"]))["CAT-RS, sigma 0.50"]
    assert "soft labels of an unrecorded number of votes" in result.remark
    assert not result.budget


def test_unreadable_run_is_left_out_with_a_warning(tmp_path: Path) -> None:
    shutil.copytree(SIX / "gaussian", tmp_path / "good")
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "recipe.toml").write_text("dataset = [")
    with pytest.warns(RunWarning, match="bad is left out"):
        runs = scan_runs([tmp_path])
    assert [trained.run.name for trained in runs] == ["good"]


def test_unreadable_certificates_are_left_out_with_a_warning(tmp_path: Path) -> None:
    shutil.copytree(SIX / "gaussian", tmp_path / "run")
    (file,) = (tmp_path / "run" / "certificates").glob("*.tsv")
    file.write_text("nothing\n")
    with pytest.warns(RunWarning, match="is left out"):
        assert not match_runs(CATRS_3, scan_runs([tmp_path]))[LABEL]


def test_incomplete_certificates_have_no_budget(tmp_path: Path) -> None:
    shutil.copytree(SIX / "gaussian", tmp_path / "run")
    (file,) = (tmp_path / "run" / "certificates").glob("*.tsv")
    file.write_text("".join(file.read_text().splitlines(keepends=True)[:-3]))
    (result,) = match_runs(CATRS_3, scan_runs([tmp_path]))[LABEL]
    assert not result.budget


def test_certificates_of_other_images_do_not_match(tmp_path: Path) -> None:
    shutil.copytree(SIX / "gaussian", tmp_path / "run")
    (header,) = (tmp_path / "run" / "certificates").glob("*.json")
    header.write_text(json.dumps({**json.loads(header.read_text()), "split": "train"}))
    assert not match_runs(CATRS_3, scan_runs([tmp_path]))[LABEL]


@pytest.mark.parametrize(("sigma", "weights", "count"), [(0.5, b"", 1), (0.25, b"", 0), (0.5, OTHER_WEIGHTS, 0)])
def test_certificates_of_other_weights_or_sigma_do_not_match(
    sigma: float, weights: bytes, count: int, tmp_path: Path
) -> None:
    shutil.copytree(SIX / "gaussian", tmp_path / "run")
    (ours,) = (tmp_path / "run" / "certificates").glob("*.json")
    stated = {**json.loads(ours.read_text()), "noise": {"name": "gaussian", "sigma": sigma}}
    shutil.rmtree(ours.parent)
    CertificateFile(ours.parent / "a.tsv", stated).append(Row(0, 1, 1, 0.5, 0.1, 1000, {1: 990}, "digest"))
    if weights:
        (tmp_path / "run" / "model.safetensors").write_bytes(weights)
    assert len(match_runs(CATRS_3, scan_runs([tmp_path]))[LABEL]) == count


def copied(tmp_path: Path, **stated: object) -> Path:
    """Copy the Gaussian run of six epochs, with other values in the header of its certificates."""
    shutil.copytree(SIX / "gaussian", tmp_path / "run")
    (header,) = (tmp_path / "run" / "certificates").glob("*.json")
    header.write_text(json.dumps({**json.loads(header.read_text()), **stated}))
    return tmp_path


@pytest.mark.parametrize(
    "other",
    [
        {"parameters": {"estimation": 10_000, "selection": 100, "failure": 0.5, "bound": "top", "radius": None}},
        {"parameters": {"estimation": 10_000, "selection": 100, "failure": 0.001, "bound": "top_two", "radius": None}},
        {"parameters": {"estimation": 10_000, "selection": 1, "failure": 0.001, "bound": "top", "radius": None}},
        {"noise": {"name": "grid", "sigma": 0.5}},
        {"engine": "openvino_int8"},
    ],
)
def test_other_certification_has_no_budget(other: dict[str, object], tmp_path: Path) -> None:
    """A larger failure or another bound proves larger radii from as many samples; an int8 model is another one."""
    (result,) = match_runs(CATRS_3, scan_runs([copied(tmp_path, **other)]))[LABEL]
    assert not result.budget


def test_certificates_of_a_user_defined_noise_do_not_match(tmp_path: Path) -> None:
    """They may be in another norm."""
    runs = scan_runs([copied(tmp_path, noise={"name": "mine:laplace", "sigma": 0.5})])
    assert not match_runs(CATRS_3, runs)[LABEL]
    (file,) = (tmp_path / "run" / "certificates").glob("*.tsv")
    with pytest.raises(TableError, match="noise 'mine:laplace'"):
        results_from(CATRS_3, CATRS_3.row(LABEL), file)


def test_result_is_complete_with_its_last_image(tmp_path: Path) -> None:
    copied(tmp_path)
    (result,) = match_runs(CATRS_3, scan_runs([tmp_path]))[LABEL]
    assert result.complete
    (file,) = (tmp_path / "run" / "certificates").glob("*.tsv")
    file.write_text("".join(file.read_text().splitlines(keepends=True)[:-3]))
    (result,) = match_runs(CATRS_3, scan_runs([tmp_path]))[LABEL]
    assert not result.complete


@pytest.mark.parametrize("history", ["half", "broken"])
def test_unfinished_training_has_no_time(history: str, tmp_path: Path) -> None:
    timed = replace(CATRS_3, kind="time")
    copied(tmp_path)
    assert len(match_runs(timed, scan_runs([tmp_path]))[LABEL]) == 1
    file = tmp_path / "run" / "training.csv"
    rows = file.read_text().splitlines(keepends=True)
    file.write_text("".join(rows[:4]) if history == "half" else "epoch,seconds\n0,long\n")
    with pytest.warns(RunWarning, match=f"{tmp_path / 'run'} is left out"):
        assert not match_runs(timed, scan_runs([tmp_path]))[LABEL]


@pytest.mark.parametrize("other", [{"split": "validation"}, {"evaluated_on": {"name": "mnist", "severity": 3}}])
def test_file_of_other_images_is_refused(other: dict[str, object], tmp_path: Path) -> None:
    (ours,) = (SIX / "gaussian" / "certificates").glob("*.json")
    stated = {**json.loads(ours.read_text()), **other}
    file = CertificateFile(tmp_path / "a.tsv", stated)
    file.append(Row(0, 1, 1, 0.5, 0.1, 1000, {1: 990}, "digest"))
    with pytest.raises(TableError, match="was not made on the test images"):
        results_from(CATRS_3, CATRS_3.row(LABEL), file.path)


def test_published_file_becomes_a_row(logs: Path) -> None:
    table = tables.load("consistency-7")
    (result,) = results_from(table, table.row("Gaussian, sigma 0.50"), logs / "cifar10-sigma0.50-cohen.tsv")
    assert (result.run, result.budget, result.seed) == (None, "", None)


def test_file_of_another_sigma_dataset_or_kind_is_refused(logs: Path) -> None:
    published = logs / "cifar10-sigma0.50-cohen.tsv"
    crt_2, crt_4 = tables.load("crt-2"), tables.load("crt-4")
    with pytest.raises(TableError, match="was made with sigma 0.5; the row"):
        results_from(crt_2, crt_2.rows[0], published)
    with pytest.raises(TableError, match="is a table of time"):
        results_from(crt_4, crt_4.rows[0], published)
    (ours,) = (SIX / "gaussian" / "certificates").glob("*.tsv")
    other = tables.load("consistency-7")
    with pytest.raises(
        TableError, match="made on mnist; the row 'Gaussian, sigma 0.50' of consistency-7 needs cifar10"
    ):
        results_from(other, other.row("Gaussian, sigma 0.50"), ours)
    with pytest.raises(TableError, match="was made on cifar10; the row 'Gaussian, sigma 0.50' of catrs-3 needs mnist"):
        results_from(CATRS_3, CATRS_3.row(LABEL), published)
    with pytest.raises(TableError, match="holds no certificate files"):
        results_from(crt_2, crt_2.rows[0], logs.parent / "papers")


def test_unfinished_certificates_are_not_averaged_with_finished_ones(tmp_path: Path) -> None:
    for seed in range(2):
        copy_gaussian(tmp_path, seed)
    (file,) = (tmp_path / "seed1" / "certificates").glob("*.tsv")
    file.write_text("".join(file.read_text().splitlines(keepends=True)[:100]))
    assert len(group_results(CATRS_3, match_runs(CATRS_3, scan_runs([tmp_path]))[LABEL])) == 2


def test_same_training_in_two_folders_counts_once(tmp_path: Path) -> None:
    for name in ("a", "b"):
        shutil.copytree(SIX / "gaussian", tmp_path / name)
    (group,) = group_results(CATRS_3, match_runs(CATRS_3, scan_runs([tmp_path]))[LABEL])
    assert len(group) == 1
