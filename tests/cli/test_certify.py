"""`radii certify`: time before work, radii and noise by default, what robustness costs, and the l-infinity radius."""

import contextlib
import io
import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from radii.certification.certify import CertificationConfig, certify_run
from radii.certifiers.fixed import Fixed
from radii.cli import certify, estimates
from radii.cli.progress import CountingBar
from radii.estimate import Estimate
from radii.reports.metrics import Summary
from radii.runs import certificates
from radii.runs.certificate_writer import CertificateFile
from radii.runs.certificates import Row
from radii.runs.run import Run
from tests.cli.running import radii


class Quiet:
    """A bar that shows nothing."""

    def paused(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()


def test_slow_certify_is_announced_with_a_cheaper_command(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(estimates, "hint", said.append)
    config = CertificationConfig(run=Path("my run"), certifier=Fixed())
    faster = certify._cheaper(["certify", "my run", "--every", "2"], config)
    assert faster == "radii certify 'my run' --with sequential --minutes 10"
    say = estimates.announce(Quiet(), cheaper=faster)
    say(Estimate(20.0, 10.0, 30.0))
    say(Estimate(180.0, 120.0, 300.0))
    say(Estimate(36_000.0, 30_000.0, 40_000.0))
    assert said == [
        "about 3 min (2 min to 5 min)",
        f"about 10 h 0 min (8 h 20 min to 11 h 7 min); sooner: {faster}",
    ]
    assert certify._cheaper(["certify", "my run", "--set", "estimation=9"], config) == "--minutes 10"
    for words in (["--max", "9"], ["--max=9", "--every=3"], ["--every", "2", "--max", "9"]):  # --minutes refuses both
        assert certify._cheaper(["certify", "my run", *words], config) == faster
    both = ["certify", "my run", "--with", "planned", "--max", "9"]
    assert certify._cheaper(both, config) == "--minutes 10 in place of --max"
    assert certify._cheaper(["certify", "my run", "--shard", "1/2"], config) == ""


def test_long_work_is_asked_about_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def decline() -> bool:
        asked.append("asked")
        return False

    monkeypatch.setattr(estimates, "hint", lambda _: None)
    monkeypatch.setattr(estimates, "_wants_to_wait", decline)
    hours = Estimate(36_000.0, 30_000.0, 40_000.0)
    estimates.announce(Quiet())(hours)
    assert asked == []
    monkeypatch.setattr(estimates, "can_answer", lambda: True)
    with pytest.raises(estimates.Declined):
        estimates.announce(Quiet())(hours)


def test_pictures_are_announced_by_the_time_of_the_second(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    now = [100.0]
    monkeypatch.setattr(estimates, "hint", said.append)
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    with CountingBar(Console(file=io.StringIO())) as bar:
        on_image = estimates.announce_rest(bar, "--with prediction")
        for number, seconds in enumerate((50.0, 3.0, 3.0), start=1):  # the first includes the start
            now[0] += seconds
            on_image(number, 1002)
    assert said == ["about 50 min (17 min to 2 h 30 min); sooner: --with prediction"]
    assert bar.progress.tasks[0].completed == 3


def certified(folder: Path, *words: str) -> dict[str, Any]:
    """Run `radii certify run` with JSON, in one process."""
    outcome = radii("certify", "run", *words, "--engine", "torch", "--workers", "1", "--json", cwd=folder)
    assert outcome.code == 0, outcome.error
    answer: dict[str, Any] = json.loads(outcome.out)
    return answer


def test_sequential_tests_0_sigma_and_2_sigma_within_reach(digits_run: Callable[..., Run], tmp_path: Path) -> None:
    digits_run()
    few = ["--with", "sequential", "--every", "100"]
    assert list(certified(tmp_path, *few)["certified_accuracy"]) == ["0", "0.25", "0.5"]
    other = certified(tmp_path, *few, "--sigma", "0.12", "--set", "most_samples=50")
    assert list(other["certified_accuracy"]) == ["0", "0.12"]
    assert other["noise"] == {"name": "gaussian", "sigma": 0.12}
    stated = certified(tmp_path, *few, "--radii", "0.125")
    assert list(stated["certified_accuracy"]) == ["0", "0.125"]


def test_cost_stands_beside_the_certified_accuracy(digits_run: Callable[..., Run], tmp_path: Path) -> None:
    run = digits_run()
    facts = certified(tmp_path, "--every", "100", "--set", "estimation=200")
    assert facts["smoothed_accuracy"] == facts["certified_accuracy"]["0"]
    assert facts["without_noise"]["images"] == 450
    assert facts["answer"]["copies"] == 300
    assert facts["answer"]["milliseconds"] > 0
    check = run.check()
    assert [part["sigma"] for part in check["noisy"]] == [0.12, 0.25, 0.5, 1.0]
    said = radii("certify", "run", "--every", "100", "--set", "estimation=200", "--engine", "torch", cwd=tmp_path)
    assert "of 450 test images right without noise; an answer took 300 copies, " in said.out


def test_impossible_radius_leaves_nothing_behind(digits_run: Callable[..., Run], tmp_path: Path) -> None:
    run = digits_run()
    outcome = radii("certify", "run", "--with", "sequential", "--radii", "3", cwd=tmp_path)
    assert outcome.code == 2
    assert "radius 3 can never be certified at failure 0.001" in outcome.error
    assert not run.certificates.exists()
    assert not (run.path / "engine.json").exists()


def test_declined_certification_leaves_no_empty_file(digits_run: Callable[..., Run]) -> None:
    run = digits_run()

    def refuse(estimate: Estimate) -> None:
        assert 0 < estimate.low <= estimate.seconds <= estimate.high
        raise estimates.Declined

    config = CertificationConfig(run=run.path, certifier=Fixed(estimation=1000), every=100, engine="torch")
    with pytest.raises(estimates.Declined):
        certify_run(config, workers=1, on_estimate=refuse)
    assert [path for path in run.certificates.iterdir() if path.suffix in (".tsv", ".json")] == []


def test_minutes_choose_the_images_and_the_same_command_continues(
    digits_run: Callable[..., Run], tmp_path: Path
) -> None:
    run = digits_run()
    few = ["--with", "sequential", "--set", "most_samples=200"]
    words = [*few, "--minutes", "5"]
    first, second = certified(tmp_path, *words), certified(tmp_path, *words)
    assert first["file"] == second["file"]
    assert first["images"] == 450
    (tsv,) = run.certificates.glob("*.tsv")
    tsv.write_text("".join(tsv.read_text().splitlines(keepends=True)[:2]))
    assert certified(tmp_path, *few, "--minutes", "5")["images"] == first["images"]
    outcome = radii("certify", "run", "--minutes", "1", "--every", "5", cwd=tmp_path)
    assert (outcome.code, "--minutes chooses the images" in outcome.error) == (2, True)


def test_noise_beyond_pixels_is_warned_about(digits_run: Callable[..., Run], tmp_path: Path) -> None:
    digits_run()
    few = ["--every", "450", "--set", "estimation=50", "--engine", "torch", "--workers", "1"]
    outcome = radii("certify", "run", "--sigma", "12", *few, cwd=tmp_path)
    assert outcome.code == 0
    assert "sigma = 12 is far more noise than pixels in [0, 1] bear" in outcome.error
    assert "state 0.0471" in outcome.error


def test_linf_radius_of_tested_radii_is_a_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Spec:
        shape = (1, 2, 2)

    monkeypatch.setattr("radii.training.weights.model_spec", lambda _: Spec())
    for radius, words in ((0.5, "at least 0.25000:"), (0.0, "radius -:")):
        path = tmp_path / f"{radius}.tsv"
        header = {"procedure": "sequential", "parameters": {"radii": [0.5]}}
        CertificateFile(path, header).append(Row(0, 1, 1 if radius else -1, radius, 1.0))
        certify.print_linf(tmp_path, Summary(certificates.read(path)))
        assert words in capsys.readouterr().out


@pytest.mark.parametrize(
    ("norm", "words"),
    [({"norm": "l1"}, "0.12500: l1 over 4"), ({"norm": "linf"}, "0.50000: their own norm"), ({}, "radius -: the file")],
)
def test_linf_radius_depends_on_the_norm(
    norm: dict[str, str],
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    class Spec:
        shape = (1, 2, 2)

    monkeypatch.setattr("radii.training.weights.model_spec", lambda _: Spec())
    noise = {"name": "laplace:Laplace", "scale": 0.2}
    header = {"procedure": "fixed", "parameters": {}, "noise": noise, "sigma": 0.25, **norm}
    CertificateFile(tmp_path / "a.tsv", header).append(Row(0, 1, 1, 0.5, 1.0))
    certify.print_linf(tmp_path, Summary(certificates.read(tmp_path / "a.tsv")))
    assert words in capsys.readouterr().out


def test_hints_of_a_trusted_run_can_be_typed(
    digits_run: Callable[..., Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The user trusts the code for one command alone, and the folder has a space in its name."""
    run = digits_run("my own")
    recipe = run.recipe_file
    recipe.write_text(recipe.read_text().replace('model = "digits_cnn"', 'model = "hinted_nets:digits_cnn"'))
    (tmp_path / "hinted_nets.py").write_text(
        "from radii.models import digits\n\n\ndef digits_cnn(shape, classes):\n"
        "    return digits.digits_cnn(shape, classes)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    trust = ("--trust", "hinted_nets")
    quick = ("--max", "2", "--set", "estimation=100", "--engine", "torch", "--workers", "1", "--linf")
    steps = ("--images", "1", "--steps", "1", "--samples", "50")
    for words in (("certify", "my own", *quick), ("attack", "my own", *steps)):
        outcome = radii(*words, *trust, cwd=tmp_path)
        assert outcome.code == 0, outcome.error
        hint = outcome.out.splitlines()[-1]
        assert hint == "next: radii report 'my own' --trust hinted_nets"
        typed = radii(*shlex.split(hint.removeprefix("next: radii ")), cwd=tmp_path)
        assert typed.code == 0, typed.error
