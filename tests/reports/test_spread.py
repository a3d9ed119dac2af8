"""What the average hides: votes from hard to easy images, the cap, the easiest fifth, the worst class, reweighting."""

import json
from pathlib import Path
from typing import Any

import pytest

from radii import report
from radii.reports.inputs import Entry, ReportedRun
from radii.reports.metrics import Share, Summary
from radii.reports.spread import (
    as_json,
    at_the_cap,
    easiest_share,
    quantile,
    reweighting,
    spread,
    top_probabilities,
    worst_class,
)
from radii.reports.text import UNKNOWN
from radii.runs.certificates import Certificates, Row
from radii.smoothing.certificate import ABSTAIN
from tests.reports.samples import write_log


def row(index: int, radius: float, counts: dict[int, int], label: int = 0, prediction: int | None = None) -> Row:
    return Row(index, label, label if prediction is None else prediction, radius, 1.0, 100, counts)


ROWS = [
    row(0, 0.9, {0: 100}),
    row(1, 0.5, {0: 90, 1: 10}),
    row(2, 0.4, {1: 85, 0: 15}, label=1),
    row(3, 0.0, {0: 60, 1: 40}, prediction=ABSTAIN),
    row(4, 0.9, {1: 100}, label=0, prediction=1),
]


def summary(rows: list[Row] = ROWS, **header: Any) -> Summary:
    return Summary(Certificates("a", rows, header))


def test_votes_are_sorted_from_hard_to_easy() -> None:
    shares = top_probabilities(summary())
    assert shares == [0.6, 0.85, 0.9, 1.0, 1.0]
    assert [quantile(shares, share) for share in (0.1, 0.2, 0.21, 0.5, 0.9, 1.0)] == [0.6, 0.6, 0.85, 0.9, 1.0, 1.0]


def test_only_correct_images_with_votes_for_one_class_are_at_the_cap() -> None:
    assert at_the_cap(summary()) == Share(1, 5)


def test_largest_tested_radius_is_the_cap() -> None:
    tested = summary(procedure="sequential", parameters={"radii": [0.25, 0.5]})
    assert at_the_cap(tested) == Share(2, 5)


def test_cap_is_unknown_without_votes() -> None:
    assert at_the_cap(summary([Row(0, 1, 1, 0.5, 1.0)])) is None


def test_easiest_fifth_adds_its_share_of_the_acr() -> None:
    assert easiest_share(summary()) == pytest.approx(0.9 / 1.8)
    assert easiest_share(summary([row(0, 0.0, {1: 9}, prediction=1)])) is None


def test_worst_class_is_the_least_certified() -> None:
    worst = worst_class(summary(), 0.45)
    assert worst is not None
    assert (worst.label, worst.share) == (1, Share(0, 1))
    worst = worst_class(summary(), 0.4)
    assert worst is not None
    assert (worst.label, worst.share) == (0, Share(2, 4))
    assert worst_class(summary(ROWS[:2]), 0.4) is None


def test_reweighting_methods_are_tagged(tmp_path: Path) -> None:
    tags = {}
    for name in ("gaussian", "macer", "smoothmix", "catrs"):
        text = f'dataset = "digits"\nmodel = "digits_cnn"\nsigma = 0.25\n\n[objective]\nname = "{name}"\n'
        (tmp_path / name).mkdir()
        (tmp_path / name / "recipe.toml").write_text(text)
        tags[name] = reweighting(Entry(name, summary(), ReportedRun(tmp_path / name)))
    assert tags["gaussian"] == ""
    assert all(tags[name] for name in ("macer", "smoothmix", "catrs"))
    assert reweighting(Entry("a file", summary())) == ""


def test_spread_of_untested_radii_is_unknown() -> None:
    tested = Entry("a", summary(procedure="sequential", parameters={"radii": [0.25, 0.5]}))
    (cells,) = spread([tested], 0.3).rows
    assert [cell.text for cell in cells[-3:]] == [UNKNOWN, UNKNOWN, UNKNOWN]
    assert as_json(tested, 0.3)["acr_from_easiest_fifth"] is None
    (cells,) = spread([tested], 0.5).rows
    assert cells[-2].text == "class 1: 0.0 % of 1"


def test_numbers_are_in_every_form_of_the_report(tmp_path: Path) -> None:
    path = write_log(tmp_path / "a.tsv", (0, 1, 1, 0.5), (1, 2, 2, 0.25))
    page = report(path, tmp_path / "report")
    (numbers,) = json.loads(page.with_name("report.json").read_text())
    assert numbers["acr_from_easiest_fifth"] == pytest.approx(2 / 3)
    assert numbers["certified"]["0.25"] == 1.0
    assert (numbers["at_the_cap"], numbers["top_probability"]) == (None, {})
    assert "What the average hides" in page.read_text()
    assert "66.6" in page.with_name("report.md").read_text()
