"""`radii certify`: the suggestion of a faster certifier, and the l-infinity radius."""

from pathlib import Path
from typing import Any

import pytest

from radii.cli import certify
from radii.cli.certify import Advisor
from radii.reports.metrics import Summary
from radii.runs import certificates
from radii.runs.certificates import CertificateFile, Row


def row(index: int) -> Row:
    return Row(index, 0, 0, 0.5, 30.0, 100, {0: 100}, "")


@pytest.mark.parametrize(
    ("typed", "total", "advised"),
    [
        (["certify", "my run", "--every", "2"], 100, True),
        (["certify", "my run"], 3, False),
        (["certify", "my run", "--with", "fixed"], 100, False),
        (["certify", "my run", "--set", "estimation=9"], 100, False),
    ],
)
def test_slow_certify_suggests_sequential(
    typed: list[str], total: int, advised: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    clock: dict[str, Any] = {"now": 0.0}
    monkeypatch.setattr(certify, "hint", said.append)
    monkeypatch.setattr("time.monotonic", lambda: clock["now"])
    progress = Advisor(lambda *_: None, typed, 0.25, 1)
    progress(total, None)
    progress(total, row(0))
    assert said == []  # a row of an earlier call
    clock["now"] = 30.0
    for number in (1, 2):
        progress(total, row(number))
    expected = "radii certify 'my run' --every 2 --with sequential --radii 0,0.25,0.5"
    assert said == ([f"about 49 min left; far fewer samples, for given radii: {expected}"] if advised else [])


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
