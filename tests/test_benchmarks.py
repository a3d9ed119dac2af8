"""scripts/bench names what exists, and what it wrote is named."""

import re
from pathlib import Path

import pytest

import benchmarks
from benchmarks import pricing
from benchmarks.performance import SECTIONS

ROOT = Path(__file__).parents[1]


def test_every_benchmark_has_its_section() -> None:
    assert benchmarks.names() == sorted(SECTIONS)


def test_pages_and_the_script_name_benchmarks_that_exist() -> None:
    text = "".join(
        path.read_text() for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), ROOT / "scripts" / "bench"]
    )
    assert set(re.findall(r"scripts/bench ([a-z]+)", text)) == set(benchmarks.names())


def test_missing_logs_are_told_before_any_work(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RADII_LOGS", str(tmp_path))
    with pytest.raises(LookupError, match="expected a folder of published logs"):
        pricing.published_logs()
