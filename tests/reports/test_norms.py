"""Reports of certificates whose radii are not in l2: every place that names the norm names theirs."""

import json
from pathlib import Path
from typing import Any

import pytest

from radii.reports import accuracies, protocol
from radii.reports.details import details
from radii.reports.inputs import Entry, read
from radii.reports.metrics import in_words
from radii.reports.model_card import describe
from radii.reports.page.notes import claim, notes
from radii.reports.report import report
from radii.runs.certificate_writer import CertificateFile
from radii.runs.certificates import Row

LAPLACE: dict[str, Any] = {"noise": {"name": "laplace:Laplace", "scale": 0.2}, "norm": "l1"}


def certified(path: Path, **changes: Any) -> Entry:
    header = {"procedure": "fixed", "parameters": {"failure": 0.001}, "sigma": 0.25, "seed": 0, **changes}
    file = CertificateFile(path, {key: value for key, value in header.items() if value is not None})
    for index in range(3):
        file.append(Row(index, 1, 1, 0.5, 0.1, 1000, {1: 990}, f"digest {index}"))
    (entry,) = read([path])
    return entry


def test_a_report_of_l1_radii_says_l1(tmp_path: Path) -> None:
    entry = certified(tmp_path / "a.tsv", **LAPLACE)
    report([tmp_path / "a.tsv"], tmp_path / "out")
    page, curves = ((tmp_path / "out" / name).read_text() for name in ("report.html", "curves.svg"))
    assert "Radius (l1, pixels in [0, 1])" in page
    assert "Radius (l1, pixels in [0, 1])" in curves
    assert "shorter, in l1, than" in claim([entry])
    assert "average certified radius in l1 0.500" in in_words(entry.summary)
    assert "certified at each radius (l1, pixels in [0, 1])" in page
    for name in ("report.html", "report.md", "report.csv", "curves.svg"):
        assert "l2" not in (tmp_path / "out" / name).read_text().replace("dataset.l2", ""), name
    assert describe(entry.certificates)["norm"] == "l1"
    (stated,) = json.loads((tmp_path / "out" / "report.json").read_text())
    assert (stated["norm"], stated["noise"], stated["label_known"]) == ("l1", LAPLACE["noise"], False)
    assert "norm l1" in (tmp_path / "out" / "report.tex").read_text()


def test_a_table_says_which_rows_are_of_which_norm(tmp_path: Path) -> None:
    entries = [certified(tmp_path / "a.tsv", **LAPLACE), certified(tmp_path / "b.tsv")]
    text = accuracies.latex(entries)
    assert "norm l1" in text.splitlines()[0]
    assert "norm: not the same in all rows" in text


def test_the_sigma_column_shows_the_noise_and_not_the_recipe(tmp_path: Path) -> None:
    entry = certified(tmp_path / "a.tsv", **LAPLACE)
    assert [cell.text for cell in accuracies.accuracies([entry]).rows[0]][1] == "scale 0.2"
    assert details(entry)["Noise"] == "laplace:Laplace, scale 0.2, radii in l1"
    head, row = accuracies.csv_text([entry]).splitlines()
    values = dict(zip(head.split(","), row.split(","), strict=True))
    assert (values["noise"], values["norm"], values["sigma"]) == ("laplace:Laplace", "l1", "")


def test_radii_of_different_norms_are_not_compared(tmp_path: Path) -> None:
    entries = [certified(tmp_path / "a.tsv", **LAPLACE), certified(tmp_path / "b.tsv")]
    assert not protocol.comparable([entry.certificates for entry in entries])
    assert any("different norms" in note for note in notes(entries))
    assert "shorter, in l1 or l2, than" in claim(entries)


def test_missing_norm_is_reported_as_not_recorded(tmp_path: Path) -> None:
    entry = certified(tmp_path / "a.tsv", **{**LAPLACE, "norm": None})
    assert entry.certificates.norm is None
    assert "a norm that is not recorded" in claim([entry])


def test_gaussian_noise_is_of_l2_whatever_a_header_states(tmp_path: Path) -> None:
    entry = certified(tmp_path / "a.tsv", norm="linf", noise={"name": "gaussian", "sigma": 0.5})
    assert protocol.norm_name(entry.certificates) == "l2"


def test_unknown_norms_in_a_header_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="norm = .*, expected one of l1, l2, linf"):
        certified(tmp_path / "a.tsv", **{**LAPLACE, "norm": "l0"})
