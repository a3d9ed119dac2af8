"""Proofs about a population in reports, cards and `radii show`: a section of their own."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import pytest

from radii import certifiers
from radii.certification.certify import CertificationConfig, certify_run
from radii.certification.population import certify_run_population
from radii.certifiers.population import OnePass
from radii.reports import model_card, population
from radii.reports.report import report
from radii.runs.run import Run


@pytest.fixture
def proven(digits_run: Callable[..., Run]) -> Run:
    run = digits_run()
    config = {"run": run.path, "engine": "torch", "every": 15}
    certify_run_population(CertificationConfig(certifier=OnePass(radii=(0.1, 0.2), votes=4), **config), workers=1)  # type: ignore[arg-type]
    fixed = certifiers.create("fixed", estimation=30, selection=5)
    certify_run(CertificationConfig(certifier=fixed, **config), workers=1)  # type: ignore[arg-type]
    return run


def test_report_has_a_section_about_populations(proven: Run, tmp_path: Path) -> None:
    page = report([proven.path], tmp_path / "out")
    text = page.read_text()
    assert text.count(f"<h2>{population.TITLE}</h2>") == 1
    assert "nothing is promised about one picture" in text
    markdown = page.with_name("report.md").read_text()
    section = markdown.partition(f"## {population.TITLE}")[2].partition("## ")[0]
    assert "| run | 0.10 |" in section
    assert "| run | 0.20 |" in section
    assert "one_pass" not in page.with_name("report.csv").read_text()


def test_table_names_the_norm_and_other_images(proven: Run) -> None:
    ((_, file),) = population.of_runs([("run", proven)])
    other = {"noise": {"name": "laplace:Laplace", "scale": 0.2}, "norm": "l1", "evaluated_on": {"name": "mnist_c"}}
    changed = replace(file, certificates=replace(file.certificates, header={**file.header, **other}))
    lengths = [row[1].text for row in population.table([("run", changed)]).rows]
    assert lengths == ["0.10 (l1)", "0.20 (l1)"]
    with patch("radii.reports.population.read", return_value=changed):
        assert [name for name, _ in population.of_runs([("run", proven)])] == ["run (mnist_c)"]


def test_card_has_the_proof_of_the_present_weights(proven: Run) -> None:
    assert f"## {population.TITLE}" in model_card.markdown(proven, "me/run", {"name": "gaussian", "sigma": 0.25})
    assert len(population.proven(proven)) == 1
    assert population.proven(proven)[0]["votes"] == 4


def test_card_says_which_noise_to_use(proven: Run) -> None:
    card = model_card.markdown(proven, "me/run", {"name": "laplace:Laplace", "scale": 0.2})
    assert "to be used under the noise laplace:Laplace of scale 0.2" in card
    assert "Gaussian noise" not in card


def test_run_without_certificates_of_images_is_not_reported(proven: Run, tmp_path: Path) -> None:
    for file in proven.certificates.iterdir():
        if file.is_file():
            file.unlink()
    with pytest.raises(ValueError, match="holds no certificates of images, only a proof about a population"):
        report([proven.path], tmp_path / "out")
