"""Proofs about a population: one number for each length of a change, from votes that are kept, resumed and verified."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import ndtr
from torch import Tensor, nn

import radii
from radii.certification.certify import CertificationConfig
from radii.certification.population import certify_run_population
from radii.certification.verify import verify_run
from radii.certifiers.population import OnePass
from radii.errors import ParameterError
from radii.reports.population import describe, in_words
from radii.runs import certificates, population
from radii.runs.run import Run, RunError
from radii.smoothing import noise as noises
from tools.one_pass_attack import measure
from tools.stress.edits import reseal

SIGMA = 0.25
CERTIFIER = OnePass(radii=(0.1, 0.25), votes=8)


class Sides(nn.Module):
    """Two classes, by the first pixel: the label's probability and its least one under attack are known exactly."""

    def forward(self, images: Tensor) -> Tensor:
        above = images.flatten(1)[:, :1] - 0.5
        return torch.cat([above, -above], 1)


SMOOTHED = radii.SmoothedClassifier(Sides(), sigma=SIGMA, classes=2, batch_size=64)


def sample(images: int, seed: int) -> tuple[Tensor, Tensor]:
    """Draw pictures whose first pixel is one of three, all of class 0."""
    shades = torch.tensor([0.45, 0.7, 1.0])[torch.randint(3, (images,), generator=torch.Generator().manual_seed(seed))]
    return shades[:, None, None, None].expand(images, 1, 2, 2).contiguous(), torch.zeros(images, dtype=torch.int64)


def truth(radius: float) -> float:
    """Return the accuracy under the worst change: the first pixel moves by `radius`."""
    return float(np.mean([ndtr((shade - 0.5 - radius) / SIGMA) for shade in (0.45, 0.7, 1.0)]))


def certify(run: Run, **options: Any) -> Path:
    fields = {"run": run.path, "certifier": CERTIFIER, "engine": "torch", "every": 5, **options}
    return certify_run_population(CertificationConfig(**fields), workers=1)


def nothing(cells: list[str]) -> None:
    """Edit no line."""


@pytest.mark.stress
def test_proven_accuracy_is_below_the_truth_and_near_it() -> None:
    proofs = [
        radii.certify_population(SMOOTHED, sample(200, seed), radii=(0.1, 0.25), votes=20, seed=seed, workers=1).proven
        for seed in range(6)
    ]
    for radius in (0.1, 0.25):
        wrong = sum(proof[radius] > truth(radius) for proof in proofs)
        assert wrong <= 6 * 0.05 + 3 * math.sqrt(6 * 0.05)
        assert np.mean([proof[radius] for proof in proofs]) > truth(radius) - 0.15


def test_a_file_is_continued_with_its_polynomials(tmp_path: Path) -> None:
    images, labels = sample(30, 0)
    whole = radii.certify_population(SMOOTHED, (images, labels), seed=0, workers=1, out=tmp_path / "whole.tsv")
    part = tmp_path / "part.tsv"
    lines = (tmp_path / "whole.tsv").read_text().splitlines(keepends=True)
    part.write_text("".join(lines[:11]) + lines[11][:9])  # killed in the middle of a line
    part.with_suffix(".json").write_text((tmp_path / "whole.json").read_text())
    assert population.read(part).proven == {}
    assert in_words(population.read(part)) == ["nothing is proven yet: 20 images have no votes"]
    again = radii.certify_population(SMOOTHED, (images, labels), seed=0, workers=1, out=part)
    assert again.proven == whole.proven == population.read(part).proven
    assert [row.counts for row in again.certificates.rows] == [row.counts for row in whole.certificates.rows]


def test_memory_and_file_agree(tmp_path: Path) -> None:
    options: dict[str, Any] = {"radii": (0.1,), "votes": 5, "seed": 3, "workers": 1}
    in_memory = radii.certify_population(SMOOTHED, sample(40, 1), **options)
    assert (
        in_memory.proven == radii.certify_population(SMOOTHED, sample(40, 1), **options, out=tmp_path / "a.tsv").proven
    )
    assert (in_memory.votes, in_memory.images, in_memory.missing, in_memory.failure) == (5, 40, 0, 0.05)


def test_another_seed_or_other_votes_do_not_continue_a_file(tmp_path: Path) -> None:
    out = tmp_path / "a.tsv"
    radii.certify_population(SMOOTHED, sample(10, 0), seed=0, workers=1, out=out)
    with pytest.raises(ValueError, match="seed"):
        radii.certify_population(SMOOTHED, sample(10, 0), seed=1, workers=1, out=out)
    with pytest.raises(ValueError, match="votes"):
        radii.certify_population(SMOOTHED, sample(10, 0), seed=0, votes=30, workers=1, out=out)


def test_noise_without_a_bound_is_refused() -> None:
    class Unbounded(type(noises.create("gaussian", sigma=0.25))):  # type: ignore[misc]
        probability_after = noises.Noise.probability_after

    classifier = radii.SmoothedClassifier(Sides(), noise=Unbounded(sigma=0.25), classes=2)
    with pytest.raises(ParameterError, match="no bound for one noisy pass"):
        radii.certify_population(classifier, sample(10, 0), seed=0)


def test_the_first_images_of_a_sorted_dataset_are_refused() -> None:
    classifier = radii.SmoothedClassifier(nn.Sequential(nn.Flatten(), nn.Linear(4, 10)), sigma=0.25, classes=10)
    images = torch.rand(100, 1, 2, 2)
    with pytest.raises(ValueError, match="no random sample"):
        radii.certify_population(classifier, (images, torch.arange(100) // 10), seed=0, max_images=20)


def test_certifiers_of_images_do_not_know_it() -> None:
    with pytest.raises(ValueError, match="about a population, nothing about one image"):
        radii.certify(SMOOTHED, torch.ones(1, 2, 2), "one_pass")


@pytest.mark.parametrize("fields", [{"radii": ()}, {"radii": (-1.0,)}, {"votes": 0}, {"votes": 201}, {"guess": (2.0,)}])
def test_wrong_fields_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="radii|votes|guess"):
        OnePass(**fields)


def test_a_run_keeps_its_proof_beside_its_certificates(digits_run: Callable[..., Run]) -> None:
    run = digits_run()
    path = certify(run)
    assert path.parent == run.population
    assert not run.certificates.exists()
    proof = population.read(path)
    assert set(proof.proven) == {0.1, 0.25}
    assert 0 < proof.proven[0.25] < proof.proven[0.1] < proof.accuracy
    header = proof.header
    assert {"weights", "noise", "data", "seed", "engine", "polynomials", "function"} <= header.keys()
    assert all(row.prediction == radii.ABSTAIN and row.radius == 0 for row in proof.certificates.rows)
    assert describe(proof)["proven_one_pass_accuracy"].keys() == {"0.1", "0.25"}
    with pytest.raises(ValueError, match="about a population"):
        certificates.read(path)


def test_a_run_is_resumed_and_a_second_seed_is_refused(digits_run: Callable[..., Run]) -> None:
    run = digits_run()
    path = certify(run)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    assert certify(run) == path
    times = [
        [cell for n, cell in enumerate(line.split("\t")) if n not in (5, 9)] for line in path.read_text().splitlines()
    ]
    before = [
        [cell for n, cell in enumerate(line.split("\t")) if n not in (5, 9)] for line in content.decode().splitlines()
    ]
    assert times == before
    with pytest.raises(RunError, match="Choosing a seed after seeing results"):
        certify(run, seed=1)


def test_verify_replays_the_votes_and_proves_the_polynomials(digits_run: Callable[..., Run]) -> None:
    run = digits_run()
    path = certify(run)
    result = verify_run(run, rows=5)
    assert (result.exit_code, result.replayed, result.votes) == (0, 5, 90)
    assert result.in_words() == "equal: votes on 90 images about a population in 1 file, 5 replayed, all votes equal"

    header = json.loads(certificates.header_file(path).read_text())
    raised = {radius: [value + 0.01 for value in values] for radius, values in header["polynomials"].items()}
    reseal(path, nothing, header={"polynomials": raised})
    result = verify_run(run, rows=0)
    assert result.exit_code == 1
    assert "its polynomial for radius 0.1 is not proven" in result.differences[0]


def test_verify_finds_an_edited_vote_and_an_edited_line(digits_run: Callable[..., Run]) -> None:
    run = digits_run()
    path = certify(run)
    content = path.read_text()
    number = next(n for n, line in enumerate(content.splitlines()[1:], 1) if ":8" not in line)

    def all_for_the_label(cells: list[str]) -> None:
        cells[7] = f"{cells[1]}:8"

    reseal(path, all_for_the_label, line=number)
    assert verify_run(run, rows=None).exit_code == 1
    path.write_text(content.replace(":8", ":7", 1))
    assert verify_run(run, rows=0).exit_code == 1


def test_verify_finds_a_claim_about_one_image(digits_run: Callable[..., Run]) -> None:
    run = digits_run()
    path = certify(run)

    def claim(cells: list[str]) -> None:
        cells[2], cells[3], cells[4] = cells[1], "0.5", "1"

    reseal(path, claim)
    result = verify_run(run, rows=0)
    assert "a row about a population abstains" in result.differences[0]


@pytest.mark.parametrize(
    "change",
    [{"polynomials": {}}, {"polynomials": {"0.1": ["a"]}}, {"parameters": {}}, {"kind": "other"}, {"most": 1.5}],
)
def test_damaged_headers_are_refused(change: dict[str, Any], digits_run: Callable[..., Run]) -> None:
    path = certify(digits_run())
    header = certificates.header_file(path)
    header.write_text(json.dumps({**json.loads(header.read_text()), **change}))
    with pytest.raises(ValueError, match="polynomial|parameters|kind|most|population"):
        population.read(path)


FIXED = {"failure": 0.05, "votes": 8, "guess": [], "training_images": 0}


@pytest.mark.parametrize(
    "change",
    [
        {"parameters": {**FIXED, "radii": []}},
        {"parameters": {**FIXED, "radii": [-1.0]}, "polynomials": {"-1.0": [0.0] * 9}},
        {"parameters": {**FIXED, "radii": [0.1]}, "polynomials": {"0.1": [0.0] * 8 + [1e14]}},
    ],
    ids=["no radius", "negative radius", "huge coefficient"],
)
def test_headers_that_no_proof_has_are_refused(change: dict[str, Any], digits_run: Callable[..., Run]) -> None:
    path = certify(digits_run())
    reseal(path, nothing, header=change)
    with pytest.raises(ValueError, match="Restore it|restore the file"):
        population.read(path)


def test_no_accuracy_is_above_1(digits_run: Callable[..., Run]) -> None:
    path = certify(digits_run())
    change = {"parameters": {**FIXED, "radii": [0.1]}, "polynomials": {"0.1": [5.0] * 9}}
    reseal(path, nothing, header=change)  # that this is no bound, `verify` finds
    assert population.read(path).proven == {0.1: 1.0}


def test_a_real_attack_leaves_more_right_than_is_proven(digits_run: Callable[..., Run]) -> None:
    """A gradient attack through the noise, which knows the weights but not the noise of the request."""
    run = digits_run()
    proven = population.read(certify(run)).proven
    for radius in (0.1, 0.25):
        measured = measure(run, radius, images=90, steps=8)
        assert proven[radius] < measured["attacked"] < measured["still"]


def test_votes_on_training_images_make_the_guess(digits_run: Callable[..., Run]) -> None:
    own = OnePass(radii=(0.1, 0.25), votes=8, training_images=60)
    run, other = digits_run(), digits_run("other")
    guessed, published = population.read(certify(run, certifier=own)), population.read(certify(other))
    assert guessed.header["polynomials"] != published.header["polynomials"]
    assert [row.counts for row in guessed.certificates.rows] == [row.counts for row in published.certificates.rows]
    assert verify_run(run, rows=2).exit_code == 0
    with pytest.raises(ValueError, match="two guesses"):
        OnePass(guess=(0.5,), training_images=10)
