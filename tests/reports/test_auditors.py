"""The page for auditors: its numbers are those of the files, and it claims nothing that is not there."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from radii.certification.certify import CertificationConfig, certify_run
from radii.certifiers.fixed import Fixed
from radii.datasets import create
from radii.reports.auditors import POINTERS, write_page
from radii.reports.model_card import certified
from radii.reports.text import down
from radii.runs import attacks
from radii.runs.run import Run
from radii.serving.evidence import EvidenceLog, log_file
from radii.serving.model import ModelConfig, load_model
from radii.serving.service import Service
from tests.cli.running import radii
from tools import browser as browsers
from tools.browser import browser, look, violations


@pytest.fixture(scope="module")
def folder(trained_digits: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certified run, and the evidence of two answers of it."""
    place = tmp_path_factory.mktemp("audited")
    run = Path(shutil.copytree(trained_digits, place / "run"))
    certifier = Fixed(estimation=1_000)
    certify_run(CertificationConfig(run=run, certifier=certifier, max_images=20, engine="torch"), workers=1)
    log = EvidenceLog(place / "evidence")
    service = Service(replace(load_model(ModelConfig(run=run, mode="vote", engine="torch"))), evidence=log, workers=1)
    for future in service.submit(list(create("digits").split("test").batch(torch.arange(2)))):
        future.result(120)
    service.close()
    log.close()
    return place


def test_page_has_the_numbers_of_the_files(folder: Path, tmp_path: Path) -> None:
    outcome = radii("report", str(folder / "run"), str(folder / "evidence"), "--evidence", "--out", "out", cwd=tmp_path)
    assert outcome.code == 0, outcome.error
    assert outcome.out.split() == ["out/report.html", "out/auditors.html"]
    page, run = (tmp_path / "out" / "auditors.html").read_text(), Run(folder / "run")
    (card,) = certified(run)
    for value in card["certified_accuracy"].values():
        assert f"{down(value, 2, 2)} %" in page
    for text in (run.weights_digest(), "failure 0.001", "digits", "<td>2</td>"):
        assert text in page
    assert all(pointer.place in page for pointer in POINTERS)
    assert "not legal advice" in page
    assert "The log is not in order" not in page
    assert "src=" not in page
    assert "http" not in page


def test_edited_evidence_is_named(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder / "evidence", tmp_path / "evidence")
    log = log_file(tmp_path / "evidence")
    log.write_bytes(log.read_bytes().replace(b'"stopped":false', b'"stopped":true', 1))
    radii("report", str(folder / "run"), "evidence", "--evidence", "--out", "out", cwd=tmp_path)
    assert "The log is not in order" in (tmp_path / "out" / "auditors.html").read_text()


def test_evidence_needs_its_flag_and_a_run(folder: Path, tmp_path: Path) -> None:
    assert "Add --evidence" in radii("report", str(folder / "run"), str(folder / "evidence"), cwd=tmp_path).error
    with pytest.raises(ValueError, match="Name at least one"):
        write_page([], tmp_path)


def test_run_without_certificates_claims_nothing(digits_run: Callable[..., Run], tmp_path: Path) -> None:
    page = write_page([digits_run("<b>run")], tmp_path / "out").read_text()
    assert "no certificates: nothing is claimed" in page
    assert "&lt;b&gt;run" in page
    assert "<b>run" not in page


def test_attack_without_rows_is_left_out(digits_run: Callable[..., Run], tmp_path: Path) -> None:
    run = digits_run()
    header = {"weights": run.weights_digest(), "data": "d", "engine": "torch", "noise": {"name": "gaussian"}}
    budget = {"steps": 1, "copies": 1, "samples": 10, "seed": 0, "radii": [0.5], "images": [0]}
    with attacks.open_file(run, {**header, **budget}):
        pass
    assert "no attack was recorded" in write_page([run], tmp_path / "out").read_text()


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.skipif(bool(browsers.missing()), reason=browsers.missing())
def test_page_is_accessible_and_fits_a_phone(folder: Path, tmp_path: Path) -> None:
    page = write_page([Run(folder / "run")], tmp_path / "out")
    with browser() as driver:
        look(driver, page, size=browsers.PHONE)
        assert driver.execute_script("return document.documentElement.scrollWidth <= window.innerWidth")
        if browsers.AXE.is_file():
            assert violations(driver) == []
