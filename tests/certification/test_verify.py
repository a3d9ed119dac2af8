"""Verification of certificates: every difference of a file, its data or its weights is found."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from radii import certifiers, disk
from radii.certification import checks, replay
from radii.certification.certify import CertificationConfig, certify_run
from radii.certification.verify import VerificationResult, verify_run
from radii.errors import ParameterError
from radii.estimate import Estimate
from radii.reports.protocol import label_known
from radii.runs import certificates, trust
from radii.runs.run import Run
from radii.smoothing.noise import Gaussian
from tools.stress.edits import (
    FIELDS,
    a_vote_more,
    a_vote_moved,
    an_abstention,
    another_class,
    another_digest,
    another_image,
    another_label,
    both,
    certified_line,
    certified_run,
    certify,
    no_class,
    radius_up,
    recompute,
    reseal,
    samples_fewer,
)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on images of the user's own, certified, in a folder with its data."""
    return certified_run(tmp_path_factory.mktemp("made"))


@pytest.fixture
def run(made: Path, tmp_path: Path) -> Run:
    shutil.copytree(made, tmp_path / "made")
    trust.record_data(tmp_path / "made" / "digits.npz")
    return Run(tmp_path / "made" / "run")


def the_file(run: Run) -> Path:
    (path,) = run.certificates.glob("*.tsv")
    return path


def verified(run: Run, **fields: Any) -> VerificationResult:
    return verify_run(run, **{"rows": None, **fields})


def test_an_untouched_run_is_equal(run: Run) -> None:
    result = verified(run)
    assert (result.exit_code, result.differences, result.unchecked) == (0, (), ())
    assert (result.files, result.rows, result.replayed, result.moved) == (1, 6, 6, 0)
    assert result.in_words() == "equal: 6 certificates in 1 file, 6 replayed, all votes equal"


def test_some_rows_are_replayed_at_random(run: Run) -> None:
    seen: list[tuple[int, int]] = []
    result = verified(run, rows=2, on_row=lambda done, total: seen.append((done, total)))
    assert (result.replayed, result.rows, seen) == (2, 6, [(1, 2), (2, 2)])
    assert verified(run, rows=0).replayed == 0


def test_a_long_replay_is_estimated_first(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Estimate | int] = []
    fields = {"rows": 2, "on_row": lambda done, _: told.append(done), "on_estimate": told.append}
    verified(run, **fields)
    assert told == [1, 2], "few copies take no longer than their estimate"
    monkeypatch.setattr(replay, "WORTH_TIMING", 100)
    verified(run, **fields)
    estimate = told[2]
    assert isinstance(estimate, Estimate)
    assert 0 < estimate.low <= estimate.seconds <= estimate.high
    assert told[3:] == [1, 2]


@pytest.mark.parametrize("procedure", [name for name in certifiers.names() if name != "fixed"])
def test_every_certifier_can_be_verified(run: Run, procedure: str) -> None:
    certify(run, procedure)
    result = verified(run)
    assert (result.exit_code, result.files, result.replayed) == (0, 2, 12), result.in_words()


def test_every_certifier_has_a_test() -> None:
    assert set(FIELDS) == set(certifiers.names())


EDITS = [
    (radius_up, "the counts prove radius .*, not radius"),
    (a_vote_moved, "the counts prove|a replay gives"),
    (a_vote_more, "votes"),
    (another_label, "its label is"),
    (another_class, "the counts prove|a replay gives"),
    (no_class, "not a result for 10 classes|a replay gives"),
    (an_abstention, "a replay gives"),
    (another_digest, "the image differs"),
    (another_image, "there are only 40 images"),
    (samples_fewer, "are not the 219 samples|a replay gives"),
]


@pytest.mark.parametrize(("edit", "message"), EDITS, ids=[edit.__name__ for edit, _ in EDITS])
def test_an_edit_is_found_by_checksum_and_without(run: Run, edit: Callable[[list[str]], None], message: str) -> None:
    path = the_file(run)
    before = path.read_text()
    reseal(path, edit, line=certified_line(path))
    found = verified(run)
    assert found.exit_code == 1
    assert any(re.search(message, each) for each in found.differences), found.differences
    resealed = path.read_text().splitlines()
    old = before.splitlines()
    edited = ["\t".join([*new.split("\t")[:-1], was.split("\t")[-1]]) for new, was in zip(resealed, old, strict=True)]
    path.write_text("\n".join([old[0], *edited[1:]]) + "\n")
    result = verified(run)
    assert (result.exit_code, len(result.differences), result.replayed) == (1, 1, 0)
    assert "checksum" in result.in_words() or "correct" in result.in_words()


@pytest.mark.parametrize("procedure", ["planned", "prediction", "sequential"])
def test_an_edited_radius_is_found_without_a_replay(run: Run, procedure: str) -> None:
    the_file(run).unlink()
    path = certify(run, procedure)
    reseal(path, radius_up, line=1 + next(n for n, row in enumerate(certificates.read(path).rows) if row.correct))
    result = verified(run, rows=0)
    assert result.exit_code == 1
    assert "the counts prove" in result.in_words()


def test_an_edited_soft_radius_is_found_by_a_replay(run: Run) -> None:
    the_file(run).unlink()
    path = certify(run, "soft")
    reseal(path, radius_up, line=certified_line(path))
    assert "a replay gives class" in verified(run).in_words()


def test_a_removed_row_is_found(run: Run) -> None:
    path = the_file(run)
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:2] + lines[3:]))
    assert "line 3 does not match its checksum" in verified(run).in_words()


def test_swapped_image_is_found(run: Run) -> None:
    data = run.path.parent / "digits.npz"
    content = dict(np.load(data))
    content["test_images"] = np.concatenate([content["test_images"][1::-1], content["test_images"][2:]])
    np.savez(data, **content)
    result = verified(run, rows=0)
    assert result.exit_code == 1
    assert [each.partition(", image ")[2] for each in result.differences if "the image differs" in each] == [
        "0: the image differs",
        "1: the image differs",
    ]


def test_a_label_changed_in_the_data_is_found(run: Run) -> None:
    data = run.path.parent / "digits.npz"
    content = dict(np.load(data))
    content["test_labels"] = (content["test_labels"] + 1) % 10
    np.savez(data, **content)
    assert "its label is" in verified(run, rows=0).in_words()


def test_other_weights_are_found(run: Run) -> None:
    state = {name: tensor + 0.01 for name, tensor in load_file(run.weights_file).items()}
    with safe_open(run.weights_file, "pt") as file:
        metadata = file.metadata()
    save_file(state, run.weights_file, metadata)
    result = verified(run)
    assert (result.exit_code, result.replayed) == (1, 0)
    assert "it was made with the weights" in result.in_words()


def test_other_weights_under_the_old_name_are_found_by_a_replay(run: Run) -> None:
    test_other_weights_are_found(run)
    path = the_file(run)
    reseal(path, lambda _: None, header={"weights": disk.digest(run.weights())})
    assert "another function" in verified(run).in_words()
    header = json.loads(certificates.header_file(path).read_text())
    del header["function"]
    certificates.header_file(path).write_text(json.dumps(header))
    reseal(path, lambda _: None)
    assert "a replay gives" in verified(run).in_words()


def test_rows_under_two_seeds_are_found(run: Run, tmp_path: Path) -> None:
    aside = tmp_path / "aside"
    run.certificates.rename(aside)
    certify(run, "fixed", seed=1)
    for path in aside.iterdir():
        path.rename(run.certificates / path.name)
    result = verified(run)
    assert result.exit_code == 1
    assert "hold 6 images under two seeds" in result.in_words()
    one = sorted(run.certificates.glob("*.tsv"))[0]
    assert "hold 6 images under two seeds" in verified(run, file=one).in_words()


def test_other_settings_for_the_same_images_are_counted(run: Run) -> None:
    first = the_file(run)
    assert verified(run, rows=0).notes == ()
    for estimation in (300, 400):
        fixed = certifiers.create("fixed", selection=20, estimation=estimation)
        certify(run, "fixed", certifier=fixed)
    certify(run, "fixed", batch_size=32)  # the same draws
    words = (
        "were also certified 2 times with other settings of the same weights: the failure probability of the best of "
        "them is up to 0.003"
    )
    assert len([note for note in verified(run, rows=0).notes if words in note]) == 3
    result = verified(run, file=first, rows=0)
    assert (result.exit_code, len(result.notes)) == (0, 1)
    assert words in result.in_words()


def test_other_noise_and_seeds_are_counted_and_other_images_are_not(run: Run) -> None:
    certify(run, "fixed", max_images=3)
    certify(run, "fixed", every=2)
    assert verified(run, rows=0).notes == ()
    certify(run, "fixed", noise=Gaussian(0.26))
    assert all("were also certified 1 time with" in note for note in verified(run, rows=0).notes)


def test_another_seed_in_the_header_is_found_by_a_replay(run: Run) -> None:
    reseal(the_file(run), lambda _: None, header={"seed": 5})
    assert "a replay gives" in verified(run).in_words()


def test_another_norm_in_the_header_is_found(run: Run) -> None:
    reseal(the_file(run), lambda _: None, header={"norm": "linf"})
    result = verified(run, rows=0)
    assert result.exit_code == 1
    assert "its header states radii in linf, the noise 'gaussian' has them in l2" in result.in_words()


def test_file_elsewhere_is_checked_with_its_run(run: Run, tmp_path: Path) -> None:
    path = the_file(run)
    for each in (path, certificates.header_file(path)):
        each.rename(tmp_path / each.name)
    assert verify_run(run, tmp_path / path.name, rows=1).exit_code == 0


def test_changed_code_is_found(run: Run) -> None:
    reseal(the_file(run), lambda _: None, header={"code": {"torch:nn": "0" * 64}})
    assert "the code of torch:nn has changed" in verified(run).in_words()


def test_another_model_table_is_found(run: Run) -> None:
    text = run.recipe_file.read_text()
    run.recipe_file.write_text(text.replace('normalisation = "full"', 'normalisation = "centre"'))
    assert text != run.recipe_file.read_text()
    result = verified(Run(run.path))
    assert (result.exit_code, result.replayed) == (1, 0)
    assert "another model table in its recipe: restore recipe.toml" in result.in_words()


def test_another_function_is_found(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.nn.functional, "relu", torch.nn.functional.gelu)
    monkeypatch.setattr(torch.nn.ReLU, "forward", lambda _, images: torch.nn.functional.gelu(images))
    result = verified(run)
    assert (result.exit_code, result.replayed) == (1, 0)
    assert "it was made with another function: logits of random images differ by" in result.in_words()


def test_missing_artefact_is_found(run: Run) -> None:
    reseal(the_file(run), lambda _: None, header={"artefact": "0" * 64})
    assert "the artefact of the engine 'torch' has changed, or is missing" in verified(run).in_words()


def test_missing_data_cannot_be_checked(run: Run) -> None:
    (run.path.parent / "digits.npz").unlink()
    result = verified(run)
    assert result.exit_code == 2
    assert "the data were not found" in result.in_words()


def test_run_without_certificates_is_an_error(run: Run) -> None:
    shutil.rmtree(run.certificates)
    with pytest.raises(ValueError, match="holds no certificates to verify"):
        verified(run)


def test_a_replay_in_passes_of_another_size(run: Run) -> None:
    result = verified(run, batch_size=50)
    assert result.equal, result.in_words()
    assert result.replayed == result.rows
    with pytest.raises(ParameterError, match="batch_size = 0, expected a whole number >= 1"):
        verified(run, batch_size=0)
    header_file = certificates.header_file(the_file(run))
    header = json.loads(header_file.read_text())
    del header["stream"]
    header_file.write_text(json.dumps(header))
    reseal(the_file(run), lambda _: None, header={"batch_size": 128, "device": "cpu"})
    result = verified(run, batch_size=50)
    assert "its draws depend on passes of 128 copies: leave out the batch size 50" in result.in_words()
    assert (result.exit_code, result.replayed) == (2, 0)


def as_version_0_1(path: Path) -> Path:
    header = json.loads(certificates.header_file(path).read_text())
    old = {key: value for key, value in header.items() if key not in ("data", "code", "artefact", "format", "noise")}
    del old["environments"]
    certificates.header_file(path).write_text(json.dumps(old))
    path.write_text("".join("\t".join(line.split("\t")[:8]) + "\n" for line in path.read_text().splitlines()))
    return path


def test_a_file_of_version_0_1_is_replayed(run: Run) -> None:
    as_version_0_1(the_file(run))
    result = verified(run)
    assert (result.exit_code, result.replayed) == (0, 6), result.in_words()


def elsewhere(run: Run) -> None:
    """The environment of the certificates as that of another machine, with its checksum."""
    elsewhere_of(the_file(run))


def elsewhere_of(path: Path) -> None:
    beside = certificates.header_file(path)
    header = json.loads(beside.read_text())
    header["environments"][0]["instruction_set"] = "another"
    reseal(path, lambda _: None, header=header)


def test_on_another_machine_rounding_may_explain_votes(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    reseal(the_file(run), both(a_vote_moved, recompute), line=certified_line(the_file(run)))
    assert "1 votes differ" in verified(run).in_words()
    elsewhere(run)
    monkeypatch.setattr(replay, "ROUNDING", 0.0)
    assert "1 votes differ, rounding explains at most 0" in verified(run).in_words()
    monkeypatch.setattr(replay, "ROUNDING", 0.5)
    result = verified(run)
    assert (result.exit_code, result.moved) == (0, 1)
    assert result.in_words().endswith("1 votes differ, which rounding explains")


def all_votes_for_the_class(cells: list[str]) -> None:
    if cells[2] != "-1":
        cells[7] = f"{cells[2]}:200"
        recompute(cells)


def test_radii_raised_to_the_maximum_are_not_excused_as_rounding(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    path = the_file(run)
    for line in range(1, 7):
        reseal(path, all_votes_for_the_class, line=line)
    elsewhere(run)
    monkeypatch.setattr(replay, "ROUNDING", 0.5)
    result = verified(run)
    assert (result.exit_code, result.differences) == (2, ())
    assert "not confirmed here" in result.in_words()


def test_claim_that_near_ties_cannot_prove_is_not_confirmed(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    path = the_file(run)
    rows = certificates.read(path).rows
    line = 1 + next(number for number, row in enumerate(rows) if row.radius > 0 and len(row.counts) > 1)
    reseal(path, all_votes_for_the_class, line=line)
    elsewhere(run)
    monkeypatch.setattr(replay, "ROUNDING", 1e-6)
    monkeypatch.setattr(replay, "_near_ties", lambda *_: 200)  # of other classes
    result = verified(run)
    assert (result.exit_code, result.differences) == (2, ())
    assert f"image {rows[line - 1].index}: class {rows[line - 1].prediction} with radius" in result.in_words()
    assert "is not confirmed here" in result.in_words()


@pytest.mark.parametrize("wrong", [0, -50])
def test_lower_claims_about_wrong_answers_do_not_make_up_for_higher_ones(run: Run, wrong: int) -> None:
    verification = checks.Verification(run, None, None)
    verification.shifts = [checks.Shift(30, 40, True), checks.Shift(20, 60, True), checks.Shift(wrong, 100, False)]
    replay._check_shifts(verification)
    assert "50 more votes are for the stated classes" in verification.unchecked[0]
    verification.unchecked.clear()
    verification.shifts = [checks.Shift(30, 40, True), checks.Shift(-20, 60, True)]
    replay._check_shifts(verification)
    assert verification.unchecked == []


def test_rows_after_a_worker_of_another_kind_may_be_of_either(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the second worker's machine, a vote of the first one's rows may differ by rounding."""
    path = the_file(run)
    line = certified_line(path)
    header = json.loads(certificates.header_file(path).read_text())
    (entry,) = header["environments"]
    reseal(path, both(a_vote_moved, recompute), line, {"environments": [{**entry, "instruction_set": "other"}, entry]})
    monkeypatch.setattr(replay, "ROUNDING", 0.5)
    assert (verified(run).exit_code, verified(run).moved) == (0, 1)


def test_another_machine_named_in_the_header_is_found(run: Run) -> None:
    beside = certificates.header_file(the_file(run))
    beside.write_text(beside.read_text().replace('"instruction_set": "', '"instruction_set": "not '))
    result = verified(run)
    assert result.exit_code == 1
    assert "environment from row 0 on does not match its checksum" in result.in_words()


def test_environments_without_a_checksum_are_said_to_be(run: Run) -> None:
    beside = certificates.header_file(the_file(run))
    header = json.loads(beside.read_text())
    for entry in header["environments"]:
        del entry["checksum"]
    beside.write_text(json.dumps(header))
    result = verified(run)
    assert (result.exit_code, result.replayed) == (0, 6)
    assert result.in_words().endswith("is without a checksum of its environments")


@pytest.mark.slow
def test_another_engine_agrees_up_to_rounding(run: Run) -> None:
    pytest.importorskip("openvino")
    result = verified(run, engine="openvino")
    assert (result.exit_code, result.replayed) == (0, 6), result.in_words()


def test_no_edit_of_a_soft_radius_passes_as_rounding(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    the_file(run).unlink()
    certificates.header_file(next(run.certificates.glob("*.json")).with_suffix(".tsv")).unlink()
    path = certify(run, "soft")
    monkeypatch.setattr(replay, "ROUNDING", 0.5)
    elsewhere(run)
    reseal(path, lambda cells: cells.__setitem__(3, repr(float(cells[3]) * 1.0001)), line=certified_line(path))
    assert verified(run).exit_code == 0
    reseal(path, radius_up, line=certified_line(path))
    assert "a replay gives class" in verified(run).in_words()


def test_soft_radii_are_not_all_raised_by_as_much_as_rounding_explains(run: Run) -> None:
    path = the_file(run)
    path.unlink()
    certificates.header_file(path).unlink()
    path = certify(run, "soft", max_images=40)
    lines = [number for number, row in enumerate(certificates.read(path).rows, start=1) if row.radius > 0]
    assert len(lines) > 16  # fewer rows may all be above by chance
    for line in lines:
        reseal(path, lambda cells: cells.__setitem__(3, repr(float(cells[3]) * 1.00009)), line=line)
    elsewhere(run)
    result = verified(run)
    assert (result.exit_code, result.differences) == (2, ())
    told = f"of {len(lines)} that differ from the replay, {len(lines)} more are above it than below"
    assert told in result.in_words()
    reseal(path, lambda cells: cells.__setitem__(3, repr(float(cells[3]) * 1.0005)), line=lines[0])
    assert verified(run).exit_code == 1  # engines of 32 bits do not round so far


def test_counts_of_another_length_are_never_called_equal(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row with another number of samples may come from rounding or from an edit: it is reported, never as equal."""
    the_file(run).unlink()
    path = certify(run, "sequential")

    def more(cells: list[str]) -> None:
        cells[2], cells[3], cells[6], cells[7] = cells[1], "0.25", "448", f"{cells[1]}:448"
        cells[4] = "1"

    reseal(path, more)
    elsewhere_of(path)
    monkeypatch.setattr(replay, "ROUNDING", 0.5)
    result = verified(run, file=path)
    assert (result.exit_code, result.differences) == (2, ()), result.in_words()
    assert "rounding may explain that" in result.in_words()
    monkeypatch.setattr(replay, "ROUNDING", 0.0)
    assert verified(run, file=path).exit_code == 1


def test_missing_rows_are_counted(run: Run) -> None:
    path = the_file(run)
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-2]))
    result = verified(run)
    assert (result.exit_code, result.missing) == (0, 2)
    assert result.in_words().endswith("4 replayed, all votes equal, 2 images still missing")


@pytest.mark.parametrize("version", ["present", "0.1"])
def test_rows_left_out_for_their_results_are_noticed(run: Run, version: str) -> None:
    """With all checksums computed again; rows of version 0.1 have none."""
    path = the_file(run)
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([lines[0], *lines[2:]]))
    reseal(path, lambda _: None)
    if version == "0.1":
        as_version_0_1(path)
    result = verified(run)
    assert result.exit_code == 2
    assert "rows are missing before others" in result.in_words()


@pytest.mark.parametrize("key", ["images", "every", "most"])
def test_a_file_of_version_0_1_says_which_images_were_chosen(run: Run, key: str) -> None:
    path = as_version_0_1(the_file(run))
    header = json.loads(certificates.header_file(path).read_text())
    del header[key]
    certificates.header_file(path).write_text(json.dumps(header))
    result = verified(run)
    assert result.exit_code == 2
    assert f"its header has no '{key}'" in result.in_words()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"images": 6, "most": None}, "its header states 6 images, the split has 40"),
        ({"dataset": "cifar10"}, "its header states the dataset 'cifar10', the run has 'arrays'"),
    ],
)
def test_header_about_other_images_differs(run: Run, change: dict[str, Any], words: str) -> None:
    reseal(the_file(run), lambda _: None, header=change)
    result = verified(run)
    assert (result.exit_code, len(result.differences)) == (1, 1)
    assert words in result.in_words()


@pytest.mark.parametrize("key", ["procedure", "parameters", "engine", "seed"])
def test_missing_header_field_is_reported(run: Run, key: str) -> None:
    beside = certificates.header_file(the_file(run))
    header = json.loads(beside.read_text())
    del header[key]
    beside.write_text(json.dumps(header))
    reseal(the_file(run), lambda _: None)
    result = verified(run)
    assert result.exit_code == 2
    assert f"its header has no '{key}'" in result.in_words()


def test_a_header_without_its_stream_needs_a_batch_size(run: Run) -> None:
    beside = certificates.header_file(the_file(run))
    header = json.loads(beside.read_text())
    del header["stream"]
    beside.write_text(json.dumps(header))
    reseal(the_file(run), lambda _: None)
    result = verified(run)
    assert result.exit_code != 0
    assert "its header has no 'batch_size'" in " ".join(result.unchecked)


def test_older_draws_of_a_gpu_cannot_be_told_on_a_cpu(run: Run) -> None:
    """A CPU draws other numbers: nothing is wrong with the file."""
    beside = certificates.header_file(the_file(run))
    header = json.loads(beside.read_text())
    del header["stream"]
    beside.write_text(json.dumps({**header, "batch_size": 128, "device": "cuda"}))
    reseal(the_file(run), lambda _: None)
    result = verified(run)
    assert (result.exit_code, result.differences) == (2, ())
    assert "its noise was drawn on a 'cuda' device, and 'cpu' draws other numbers: replay it on" in result.in_words()


@pytest.mark.parametrize(
    ("engine", "tf32", "expected"),
    [
        ("torch", None, replay.ROUNDING),
        ("torch", {"matmul": False, "conv": False}, replay.ROUNDING),
        ("torch", {"matmul": False, "conv": True}, replay.COARSE_ROUNDING),
        ("torch_fp16", None, replay.COARSE_ROUNDING),
        ("torch_bf16", None, replay.COARSE_ROUNDING),
        ("openvino_int8", None, replay.COARSE_ROUNDING),
    ],
)
def test_rounding_depends_on_the_precision(engine: str, tf32: dict[str, bool] | None, expected: float) -> None:
    header = {"environments": [{"first_row": 0, **({} if tf32 is None else {"tf32": tf32})}]}
    assert replay.rounding_of(header, engine, [{}]) == expected
    assert replay.rounding_of({}, engine, [{}, *header["environments"]]) == expected


def test_an_engine_of_your_own_that_does_not_only_round_is_replayed_as_one_of_few_bits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for least, expected in ((1.0, replay.ROUNDING), (0.9, replay.COARSE_ROUNDING)):
        monkeypatch.setattr("radii.engines.base.create", lambda _, least=least: SimpleNamespace(least_agreement=least))
        assert replay.rounding_of({}, "mine:Engine", []) == expected


def test_streams_of_another_version_cannot_be_replayed(run: Run) -> None:
    beside = certificates.header_file(the_file(run))
    header = json.loads(beside.read_text())
    beside.write_text(json.dumps({**header, "stream": "threefry"}))
    reseal(the_file(run), lambda _: None)
    result = verified(run)
    assert result.exit_code == 2
    assert "cannot be replayed: stream = 'threefry', expected 'philox4x64': install" in result.in_words()


@pytest.mark.parametrize("key", ["data", "code", "artefact", "images", "every", "most"])
def test_a_header_without_what_tells_chosen_rows_or_other_data_is_not_equal(run: Run, key: str) -> None:
    beside = certificates.header_file(the_file(run))
    header = json.loads(beside.read_text())
    del header[key]
    beside.write_text(json.dumps(header))
    reseal(the_file(run), lambda _: None)
    result = verified(run, rows=0)
    assert result.exit_code == 2
    assert f"its header has no '{key}'" in result.in_words()


def test_a_row_without_a_digest_is_not_equal(run: Run) -> None:
    def no_digest(cells: list[str]) -> None:
        cells[8] = ""

    reseal(the_file(run), no_digest)
    result = verified(run, rows=0)
    assert (result.exit_code, "image 0 has no digest" in result.in_words()) == (2, True)


def test_without_a_replay_no_votes_are_called_equal(run: Run) -> None:
    result = verified(run, rows=0)
    assert result.exit_code == 0
    assert result.in_words() == "equal: 6 certificates in 1 file, 0 replayed, so no votes compared"


@pytest.mark.parametrize("workers", [0, -1])
def test_no_workers_are_refused_instead_of_waited_for(run: Run, workers: int) -> None:
    with pytest.raises(ValueError, match=f"workers = {workers}, expected a whole number >= 1"):
        verified(run, workers=workers)


def test_certificates_without_labels_are_those_of_deployment_and_can_be_verified(run: Run) -> None:
    for path in run.certificates.iterdir():
        path.unlink()
    sequential = certifiers.create("sequential", radii=(0.0, 0.1), most_samples=500)
    config = CertificationConfig(
        run=run.path, certifier=sequential, max_images=6, engine="torch", label_known=False, batch_size=32
    )
    made = certificates.read(certify_run(config, workers=1))
    assert made.header["label_known"] is False
    assert all((row.samples or 0) == sequential.pilot + sum(row.counts.values()) for row in made.rows)  # type: ignore[attr-defined]
    assert not label_known(made)
    found = verified(run)
    assert (found.differences, found.unchecked, found.replayed) == ((), (), 6)
