"""Comparison of runs: files of the same protocol, certified accuracy that is asked for, and the table."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest

import radii
from radii.certification.certify import CertificationConfig, certify_run
from radii.certifiers.sequential import Sequential
from radii.cli import main
from radii.runs.run import Run
from radii.smoothing.noise import Gaussian
from radii.smoothing.norms import L1


@dataclass(frozen=True)
class Diamond(Gaussian):
    """A noise with radii in l1: an l1 ball lies in the l2 ball of its radius."""

    norm = L1


def certify(run: Run, sigma: float, *radii: float, kind: type[Gaussian] = Gaussian) -> None:
    certifier = Sequential(radii=radii, most_samples=300)
    noise = kind(sigma)
    certify_run(
        CertificationConfig(run=run.path, certifier=certifier, noise=noise, every=50, engine="torch"), workers=1
    )


def test_files_of_one_protocol_are_compared_image_by_image(digits_run: Callable[..., Run]) -> None:
    one, other = digits_run("one"), digits_run("other")
    for run, sigmas in ((one, (0.12, 0.25)), (other, (0.12,))):
        for sigma in sigmas:
            certify(run, sigma, 0.0, 0.1)
    compared = radii.compare(one, other)
    assert [run.summary.certificates.sigma for run in compared.runs] == [0.12, 0.12]
    shown = repr(compared)
    for words in ("right without noise", "smoothed accuracy (radius 0)", "certified at 0.10", "image by image: +0.0"):
        assert words in shown, words
    assert "<table" in compared._repr_html_()
    assert radii.compare(one).runs[0].summary.certificates.sigma == 0.25
    with pytest.raises(
        ValueError, match=r"other has no certificates at sigma 0.25, only at 0.12. Certify it at that too."
    ):
        radii.compare(one, other, sigma=0.25)


def test_unfinished_certificates_are_shown_but_not_judged(digits_run: Callable[..., Run]) -> None:
    run = digits_run()
    certify(run, 0.25, 0.0, 0.1)
    (file,) = run.certificates.glob("*.tsv")
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(lines[:-2]))
    compared = radii.compare(run)
    assert "are not finished: 2 images are missing" in repr(compared)
    with pytest.raises(ValueError, match="not finished: 2 images are missing"):
        compared.reaches(0.0, 0.1)
    certify(run, 0.12, 0.0, 0.1)
    finished = radii.compare(run, sigma=0.12)
    assert finished.reaches(0.0, 0.1)


def test_certified_accuracy_is_reached_missed_or_unknown(digits_run: Callable[..., Run]) -> None:
    run = digits_run()
    certify(run, 0.25, 0.0, 0.1, 0.4)
    compared = radii.compare(run)
    share = compared.accuracy(0.1)
    assert compared.reaches(share, 0.1)
    assert not compared.reaches(share + 0.01, 0.1)
    least = compared.accuracy(0.4)
    assert compared.reaches(least, 0.3), "what holds at a larger radius holds here"
    with pytest.raises(ValueError, match=r"radius 0.3 was not tested for .*, only 0, 0.1, 0.4"):
        compared.reaches(least + 0.01, 0.3)
    with pytest.raises(ValueError, match="nothing to compare"):
        radii.compare()


def test_radii_in_another_norm_do_not_meet_a_demand_in_l2(
    digits_run: Callable[..., Run], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = digits_run()
    certify(run, 0.25, 0.0, 0.1, kind=Diamond)

    def demand(*words: str) -> tuple[int | str | None, str]:
        monkeypatch.setattr("sys.argv", ["radii", "compare", str(run.path), *words])
        with pytest.raises(SystemExit) as ended:
            main()
        captured = capsys.readouterr()
        return ended.value.code, captured.out + captured.err

    for least in ("0@0.1", "1@0.1", "0@0.1:linf"):
        code, text = demand("--at-least", least)
        assert code == 2
        assert "The radii of" in text
        assert "are in l1, not in" in text
    assert demand("--at-least", "0@0.1:l1")[0] == 0
    assert demand("--at-least", "1@0.1:l1")[0] == 1
    assert demand("--at-least", "0@0.1:l7")[0] == 2
    (stated,) = radii.compare(run).to_dict()["runs"]
    assert (stated["norm"], stated["label_known"], stated["certifier"]) == ("l1", True, "sequential")
    assert "radii in" in repr(radii.compare(run))
    assert "known" in repr(radii.compare(run))


def test_bounds_at_untested_radii_are_no_accuracy(digits_run: Callable[..., Run]) -> None:
    run = digits_run()
    certify(run, 0.25, 0.0, 0.4)
    (stated,) = radii.compare(run, radii=(0.0, 0.1, 0.4)).to_dict()["runs"]
    assert set(stated["certified_accuracy"]) == {"0", "0.4"}
    assert stated["certified_accuracy_at_least"] == {"0.1": stated["certified_accuracy"]["0.4"]}


def test_repeated_certifications_are_noted(digits_run: Callable[..., Run]) -> None:
    run, other = digits_run("one"), digits_run("other")
    for compared in (run, other):
        certify(compared, 0.25, 0.0, 0.1)
    assert "also certified" not in repr(radii.compare(run))
    certify(run, 0.25, 0.0, 0.05)
    assert f"Images of {run.path} were also certified 1 time with other settings" in repr(radii.compare(run))
    both = radii.compare(run, other)
    assert "image by image" in both.notes[0]
    assert len([note for note in both.notes if "also certified" in note]) == 1
    certify(run, 0.12, 0.0, 0.1)
    assert "also certified 2 times" in radii.compare(run, sigma=0.25).notes[-1]
