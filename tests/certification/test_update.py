"""Certificates of new weights from those of old ones: exact failure, chains, and what cannot be built on."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from scipy.stats import binom

from radii import certifiers
from radii.certification.certify import CertificationConfig, certify_run
from radii.certification.recertify import certify_update
from radii.certification.update import FROM, Update, open_old
from radii.certification.verify import verify_run
from radii.runs import certificates
from radii.runs.run import Run, RunError
from radii.smoothing.bounds import binomial_lower
from radii.smoothing.certificate import ABSTAIN
from radii.smoothing.noise import Gaussian
from tests.cli.running import radii
from tools.stress.edits import reseal

NOISE = Gaussian(0.25)
UPDATE = Update(samples=200)


@pytest.mark.parametrize("probability", [0.6, 0.8, 0.95, 1.0])
@pytest.mark.parametrize("lost", [0.0, 0.01, 0.1, 0.3])
def test_exact_failure_of_both_bounds(probability: float, lost: float) -> None:
    """Enumerate the hits of the old votes and the copies that the class loses, at large failure probabilities."""
    old_samples, spent, update = 60, 0.1, Update(failure=0.3, samples=40)
    truth, share = probability - lost, update.share(spent)
    radius = NOISE.radius(truth) if truth > 0.5 else -1.0
    wrong = 0.0
    for hits, chance in enumerate(binom.pmf(np.arange(61), old_samples, probability)):
        before = float(NOISE.radius(binomial_lower(hits, old_samples, spent)))
        if before >= 0:
            copies = update.copies(before, share, NOISE)
            kept = binom.pmf(np.arange(copies + 1), copies, truth if copies == 80 else 1 - lost)
            claims = np.array([update.radius(before, count, share, NOISE) for count in range(copies + 1)])
            wrong += chance * float(kept[(claims >= 0) & (claims > radius)].sum())
    assert wrong <= update.failure


def test_sure_images_are_asked_about_twice_the_copies() -> None:
    update, share = Update(samples=1_000), 0.001
    assert [update.copies(radius, share, NOISE) for radius in (0.1, 0.3, 0.75, 0.9)] == [1_000, 1_000, 2_000, 2_000]
    assert update.radius(0.3, 1_000, share, NOISE) > 0.27, "pairs keep most of a small radius"
    alone = NOISE.radius(binomial_lower(2_000, 2_000, update.failure))
    assert update.radius(0.9, 2_000, share, NOISE) == alone, "starting over with as many passes"


def test_an_old_bound_that_cannot_be_split_is_refused() -> None:
    with pytest.raises(ValueError, match="leaves nothing for the disagreements"):
        Update(failure=0.001).share(0.001)


def fixed(run: Run, **fields: Any) -> Path:
    certifier = certifiers.create("fixed", **{"estimation": 2_000, "selection": 50, **fields})
    return certify_run(CertificationConfig(run=run.path, certifier=certifier, engine="torch", every=30), workers=1)


def update(new: Run, old: Path, **options: Any) -> Path:
    config = CertificationConfig(run=new.path, certifier=options.pop("certifier", UPDATE), engine="torch", **options)
    return certify_update(config, open_old(old), run=new, workers=1)


def change_weights(run: Run, scale: float) -> None:
    """Move the weights at random, by a share of their size."""
    rng = torch.Generator().manual_seed(0)
    with safe_open(run.weights_file, "pt") as file:
        metadata = file.metadata()
    tensors = load_file(run.weights_file)
    moved = {
        name: value + scale * value.std().nan_to_num() * torch.randn(value.shape, generator=rng)
        if value.is_floating_point() and value.numel() > 1
        else value
        for name, value in tensors.items()
    }
    save_file(moved, run.weights_file, metadata)


@pytest.fixture
def old(digits_run: Callable[..., Run]) -> Run:
    run = digits_run("old")
    fixed(run)
    return run


def test_nearly_equal_weights_keep_most_of_their_radii(old: Run, digits_run: Callable[..., Run]) -> None:
    new = digits_run("new")
    change_weights(new, 0.01)
    before, after = certificates.read(open_old(old.path).path), certificates.read(update(new, old.path))
    kept = [(a, b) for a, b in zip(before.rows, after.rows, strict=True) if a.prediction != ABSTAIN]
    assert all(b.prediction in (a.prediction, ABSTAIN) for a, b in kept)
    paired = [(a, b) for a, b in kept if UPDATE.copies(a.radius, 0.001, NOISE) == 200]
    assert len(paired) < len(kept), "some images are asked about alone"
    assert all(b.radius < a.radius for a, b in paired)
    certified = [(a, b) for a, b in kept if b.prediction != ABSTAIN]
    assert len(certified) > 0.8 * len(kept)
    assert {row.samples for row in after.rows} <= {0, 400}
    assert after.failure == 0.002
    result = verify_run(new, rows=None)
    assert (result.exit_code, result.differences, result.unchecked) == (0, (), ())


def test_equal_weights_lose_no_copy(old: Run) -> None:
    before, path = open_old(old.path).rows, update(old, old.path)
    rows = [row for row in certificates.read(path).rows if row.prediction != ABSTAIN]
    paired = [row for row in rows if UPDATE.copies(before[row.index].radius, 0.001, NOISE) == 200]
    assert paired
    assert all(row.counts == {row.prediction: 200} for row in paired)
    assert update(old, old.path) == path, "the same command continues"


def test_another_function_abstains(old: Run, digits_run: Callable[..., Run]) -> None:
    new = digits_run("new")
    change_weights(new, 30.0)
    assert all(row.prediction == ABSTAIN for row in certificates.read(update(new, old.path)).rows)


def test_an_update_is_updated_with_draws_of_its_own(old: Run, digits_run: Callable[..., Run]) -> None:
    second, third = digits_run("second"), digits_run("third")
    change_weights(second, 0.01)
    update(second, old.path)
    with pytest.raises(ValueError, match="leaves nothing"):
        update(third, second.path)
    path = update(third, second.path, certifier=Update(samples=200, failure=0.003))
    header = certificates.read(path).header
    assert (header[FROM]["links"], header[FROM]["failure"]) == (2, 0.002)
    assert verify_run(third, rows=3).exit_code == 0
    edited = next(old.certificates.glob("fixed*.tsv"))
    edited.write_text(edited.read_text().replace("\t1\t", "\t0\t", 1))
    assert verify_run(third, rows=0).exit_code == 1, "verification follows the chain to its first file"


def test_a_moved_or_changed_old_file_is_found(old: Run, digits_run: Callable[..., Run], tmp_path: Path) -> None:
    new = digits_run("new")
    path = update(new, old.path)
    shutil.move(old.path, tmp_path / "elsewhere")
    result = verify_run(new, rows=0)
    assert (result.exit_code, "put them there" in result.unchecked[0]) == (2, True)
    shutil.move(tmp_path / "elsewhere", old.path)

    def larger(cells: list[str]) -> None:
        cells[3] = repr(float(cells[3]) + 0.1)

    line = next(n for n, row in enumerate(certificates.read(path).rows, 1) if row.prediction != ABSTAIN)
    reseal(path, larger, line=line)
    assert "the old certificate and the counts prove radius" in verify_run(new, rows=0).differences[0]


def test_files_that_prove_no_probability_are_refused(digits_run: Callable[..., Run]) -> None:
    run = digits_run()
    with pytest.raises(RunError, match="no finished certificates of votes"):
        open_old(run.path)
    path = fixed(run, bound="top_two")
    with pytest.raises(RunError, match="bounds two classes"):
        open_old(path)
    fixed(run)
    assert open_old(run.path).file.parameters["bound"] == "top"
    fixed(run, estimation=1_000)
    with pytest.raises(RunError, match="2 certificate files that an update can build on"):
        open_old(run.path)
    header = json.loads(certificates.header_file(path).read_text())
    assert FROM not in header


@pytest.mark.usefixtures("old")
def test_command_line(digits_run: Callable[..., Run], tmp_path: Path) -> None:
    digits_run("new")
    arguments = ("certify", "new", "--from", "old", "--engine", "torch", "--workers", "1")
    found = radii(*arguments, "--set", "samples=100", cwd=tmp_path)
    assert found.code == 0, found.error
    assert "samples of both models; the old certificates took 30,750" in found.out
    refused = radii(*arguments, "--seed", "3", cwd=tmp_path)
    assert "--seed cannot be combined with --from. Leave it out." in refused.error
    assert radii("verify", "new", cwd=tmp_path).code == 0
