"""`radii certify --with one_pass`: its sentences, its JSON, and options that it does not take."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from radii.runs.run import Run
from tests.cli.running import radii

ONE_PASS = ("certify", "run", "--with", "one_pass", "--engine", "torch", "--workers", "1", "--every", "9")


def test_certify_says_what_is_proven_and_what_is_not(digits_run: Callable[..., Run], tmp_path: Path) -> None:
    digits_run()
    found = radii(*ONE_PASS, "--radii", "0.1,0.25", "--set", "votes=10", cwd=tmp_path)
    assert found.code == 0, found.error
    first, second, how, *_ = found.out.splitlines()
    for radius, line in (("0.10", first), ("0.25", second)):
        assert "of pictures like these, one noisy pass a request answers at least" in line
        assert f"rightly under any change of l2 length up to {radius} that does not know the noise" in line
    assert how.startswith("failure 0.05 for all radii together; every 9th of 450 test images (50), 10 votes each; ")
    assert "nothing is promised about one picture, nor to somebody who may ask again and again" in how
    answer = json.loads(radii(*ONE_PASS, "--radii", "0.1,0.25", "--set", "votes=10", "--json", cwd=tmp_path).out)
    assert f"at least {100 * answer['proven_one_pass_accuracy']['0.1']:.3f}"[:13] in first
    again = radii(*ONE_PASS, "--radii", "0.1", cwd=tmp_path)
    assert "its images were also certified 1 time with other settings of the same weights" in again.out
    assert "the failure probability of the best of them is up to 0.1" in again.out


@pytest.mark.parametrize("option", [("--shard", "1/2"), ("--linf",), ("--without-labels",), ("--tensorboard",)])
def test_options_of_certificates_are_refused(
    option: tuple[str, ...], digits_run: Callable[..., Run], tmp_path: Path
) -> None:
    digits_run()
    found = radii(*ONE_PASS, *option, cwd=tmp_path)
    assert found.code == 2
    assert option[0] in found.error


def test_reports_refuse_a_file_of_a_population(digits_run: Callable[..., Run], tmp_path: Path) -> None:
    run = digits_run()
    assert radii(*ONE_PASS, "--set", "votes=2", cwd=tmp_path).code == 0
    (file,) = run.population.glob("*.tsv")
    found = radii("report", str(file), cwd=tmp_path)
    assert found.code == 2
    assert "is a proof about a population, without certificates of images. Name its run." in found.error
