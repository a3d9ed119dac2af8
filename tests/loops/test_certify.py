import json
import os
from pathlib import Path

import pytest

from radii import certifiers
from radii.experiment import certificates
from radii.experiment.certificates import Row
from radii.experiment.recipe import Recipe, Training
from radii.experiment.run import Run, RunError
from radii.lock import LockedError
from radii.loops.certify import CertificationConfig, certify_run
from radii.loops.train import train

FIXED = certifiers.create("fixed", selection=20, estimation=200)


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Run:
    recipe = Recipe(
        dataset="digits",
        model="digits_cnn",
        sigma=0.25,
        training=Training(epochs=4, images_per_step=128, learning_rate=0.05),
    )
    return train(recipe, tmp_path_factory.mktemp("runs") / "digits")


@pytest.fixture
def run(trained: Run, tmp_path: Path) -> Run:
    """The trained run without certificates."""
    copy = Run(tmp_path / "run")
    copy.path.mkdir()
    for path in trained.path.glob("*.*"):
        (copy.path / path.name).write_bytes(path.read_bytes())
    return copy


def content(path: Path) -> list[Row]:
    """The rows of a certificate file without their times."""
    return [
        Row(r.index, r.label, r.prediction, r.radius, 0.0, r.samples, r.counts) for r in certificates.read(path).rows
    ]


def plan(run: Run, **fields: object) -> CertificationConfig:
    return CertificationConfig(**{"run": run.path, "certifier": FIXED, "every": 45, "engine": "torch", **fields})  # type: ignore[arg-type]


def test_the_file_says_how_it_was_made(run: Run) -> None:
    path = certify_run(plan(run), workers=1)
    header = json.loads(path.with_suffix(".json").read_text())
    assert header["procedure"] == "fixed"
    assert header["parameters"] == {"failure": 0.001, "selection": 20, "estimation": 200} | {
        key: header["parameters"][key] for key in header["parameters"]
    }
    assert (header["seed"], header["every"], header["split"], header["engine"]) == (0, 45, "test", "torch")
    assert len(header["weights"]) == 64
    rows = content(path)
    assert [row.index for row in rows] == list(range(0, 450, 45))
    assert all(row.samples == 220 and sum(row.counts.values()) == 200 for row in rows)


@pytest.mark.slow
def test_workers_order_and_company_do_not_matter(run: Run, tmp_path: Path) -> None:
    alone = content(certify_run(plan(run), workers=1))
    for path in run.certificates.iterdir():
        path.rename(tmp_path / path.name)
    assert content(certify_run(plan(run), workers=2)) == alone
    denser = content(certify_run(plan(run, every=15), workers=1))
    assert [row for row in denser if row.index % 45 == 0] == alone


def test_a_stopped_certification_continues_and_repairs_its_last_line(run: Run) -> None:
    path = certify_run(plan(run), workers=1)
    whole = content(path)
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:4]) + lines[4][:9])
    seen: list[int] = []
    certify_run(plan(run), workers=1, on_image=lambda _, row: seen.append(row.index) if row else None)
    assert content(path) == whole
    assert seen == [row.index for row in whole]


def test_two_cannot_write_one_file(run: Run) -> None:
    seen: list[int] = []

    def second(_: int, row: Row | None) -> None:
        if row is None:
            with pytest.raises(LockedError, match=rf"\.tsv is being written by process {os.getpid()}: wait for it"):
                certify_run(plan(run), workers=1)
            other = certifiers.create("fixed", selection=20, estimation=100)
            seen.append(len(content(certify_run(plan(run, certifier=other), workers=1))))

    assert len(content(certify_run(plan(run), workers=1, on_image=second))) == 10
    assert seen == [10]
    assert not list(run.certificates.glob(".*"))


def test_another_seed_is_refused(run: Run) -> None:
    certify_run(plan(run), workers=1)
    with pytest.raises(RunError, match=r"under seed 0, not 1: a seed is named before looking"):
        certify_run(plan(run, seed=1), workers=1)


def test_auto_keeps_the_engine_that_a_file_was_begun_with(run: Run) -> None:
    begun = certify_run(plan(run, engine="torch"), workers=1)
    assert certify_run(plan(run, engine="auto"), workers=1) == begun


def test_an_untrained_run_is_refused(run: Run) -> None:
    run.weights_file.unlink()
    with pytest.raises(RunError, match="not trained to the end"):
        certify_run(plan(run), workers=1)


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"it has no recipe.toml"):
        certify_run(plan(Run(tmp_path)))


@pytest.mark.parametrize("field", ["every", "max_images", "batch_size"])
def test_counts_below_one_are_refused(run: Run, field: str) -> None:
    with pytest.raises(ValueError, match=f"{field} = 0, expected"):
        plan(run, **{field: 0})
