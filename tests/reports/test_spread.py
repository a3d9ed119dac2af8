"""What the average hides: votes from hard to easy images, the cap, the easiest fifth, the worst class, reweighting."""

import json
from pathlib import Path
from typing import Any

import pytest

from radii import objectives, report
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


def trained(path: Path, objective: str, **sources: Path) -> Entry:
    """Write a run of an objective that started from other runs or files."""
    text = f'dataset = "digits"\nmodel = "digits_cnn"\nsigma = 0.25\n\n[objective]\nname = "{objective}"\n'
    path.mkdir()
    (path / "recipe.toml").write_text(text)
    if sources:
        origin = {key: {"path": str(source), "hash": "0"} for key, source in sources.items()}
        (path / "origin.json").write_text(json.dumps(origin))
    return Entry(path.name, summary(), ReportedRun(path))


def test_every_method_is_tagged(tmp_path: Path) -> None:
    tags = {name: reweighting(trained(tmp_path / name, name)) for name in objectives.names()}
    assert all(tags.values())
    assert {name for name, tag in tags.items() if tag != "no"} == {"macer", "smoothmix", "catrs"}
    assert reweighting(Entry("a file", summary())) == ""
    assert reweighting(trained(tmp_path / "own", "own.methods:mine")) == ""


@pytest.mark.parametrize("key", ["teacher", "initial"])
def test_reweighting_of_a_run_behind_it_is_tagged(tmp_path: Path, key: str) -> None:
    trained(tmp_path / "first", "smoothmix")
    trained(tmp_path / "second", "transfer", teacher=tmp_path / "first")
    third = trained(tmp_path / "third", "transfer", **{key: tmp_path / "second"})
    assert reweighting(third) == "through a smoothmix run: right images only, in a term"
    plain = trained(tmp_path / "plain", "gaussian")
    assert reweighting(trained(tmp_path / "taught", "transfer", teacher=plain.run.path)) == "no"  # type: ignore[union-attr]
    assert reweighting(trained(tmp_path / "orphan", "transfer", teacher=tmp_path / "gone")) == ""


def test_ensemble_is_tagged_like_its_members(tmp_path: Path) -> None:
    for name in ("gaussian", "consistency", "macer"):
        trained(tmp_path / name, name)
    members = {"members.0": tmp_path / "gaussian", "members.1": tmp_path / "consistency"}
    assert reweighting(trained(tmp_path / "equal", "imported", **members)) == "no"
    members["members.1"] = tmp_path / "macer"
    assert reweighting(trained(tmp_path / "mixed", "imported", **members)).startswith("through a macer run")
    assert reweighting(trained(tmp_path / "brought", "imported")) == ""
    (tmp_path / "weights.pt").touch()
    assert reweighting(trained(tmp_path / "file", "imported", checkpoint=tmp_path / "weights.pt")) == ""


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
