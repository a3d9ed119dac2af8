"""The long run in its short form, and the page that the full form writes."""

import re
from pathlib import Path

import pytest

from tools.stress import page
from tools.stress.__main__ import ITEMS
from tools.stress.outcome import Effort, Outcome, refused

pytestmark = pytest.mark.stress

IN_TESTS_OF_THEIR_OWN = {
    10: "tests/certification/test_verify.py",
    16: "tests/cli/test_signals.py",
    17: "tests/certification/test_crash_points.py",
    18: "tests/test_fuzz.py",
    22: "tests/workers/test_cluster.py",
    46: "tests/serving/test_server.py",
}
"""Minutes even in the short form, or the same on fewer files."""


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("number", sorted(set(ITEMS) - set(IN_TESTS_OF_THEIR_OWN)))
def test_nothing_false_nothing_lost(number: int, tmp_path: Path) -> None:
    outcome = ITEMS[number](Effort(tmp_path, short=True))
    assert outcome.cases == []
    assert max(outcome.tried.values()) > 0


def test_items_left_out_have_tests() -> None:
    assert all((page.PAGE.parents[1] / file).is_file() for file in IN_TESTS_OF_THEIR_OWN.values())


def test_the_page_has_a_row_for_every_item() -> None:
    rows = re.findall(r"^\| (\d+) \| (.*?) \|", page.PAGE.read_text(), re.MULTILINE)
    assert {int(number): what for number, what in rows} == {
        number: " ".join((item.__doc__ or "").split()) for number, item in ITEMS.items()
    }


def test_the_page_reports_nothing_bad() -> None:
    assert [line for line in page.PAGE.read_text().splitlines() if re.match(r"\| \d", line) and "**" in line] == []


def item(_: Effort) -> Outcome:
    """Something | was
    tried."""
    return Outcome({"tries": 1_200}, {"lost": [], "doubled": ["row 3", "row 4"]}, "all told", seconds=2.4)


def test_a_row_is_the_docstring_and_the_counts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(page, "PAGE", tmp_path / "page.md")
    page.write({7: page.row(7, item, Outcome({"tries": 1}, {}))}, 0)
    page.write({3: page.row(3, item, item(Effort(tmp_path)))}, 0)
    lines = [line for line in page.PAGE.read_text().splitlines() if line.startswith("| ")]
    assert lines[2].startswith(
        r"| 3 | Something \| was tried. | 1,200 tries | 0 lost, **2 doubled**: row 3; all told | 2 |"
    )
    assert lines[3].startswith("| 7 |")


def test_another_error_is_no_refusal() -> None:
    def act() -> None:
        raise ValueError("the seed is another")

    assert refused(act, "seed is")
    assert not refused(act, "data")
    assert not refused(lambda: None, "")
