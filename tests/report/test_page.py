"""The whole report: every file, self-contained, escaped, the same each time."""

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest

from radii.report import report

FILES = {"report.md", "report.csv", "report.tex", "report.html", "curves.svg", "curves.png"}
SIGMA_HALF = """idx\tlabel\tpredict\tradius\tcorrect\ttime
0\t3\t3\t1.15\t1\t0:00:08.593859
20\t8\t8\t0.26\t1\t0:00:08.090858
40\t6\t-1\t0.0\t0\t0:00:08.097753
60\t6\t5\t0.953\t0\t0:00:08.1
"""


class Tags(HTMLParser):
    """The tags of a page, and whether each is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[str] = set()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.seen.add(tag)
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def log(path: Path) -> Path:
    path.write_text(SIGMA_HALF)
    return path


@pytest.mark.slow
def test_every_file_is_written_and_stays_the_same(tmp_path: Path) -> None:
    path = log(tmp_path / "cifar10-sigma0.50-x.tsv")
    page = report([path], tmp_path / "out" / "deep")
    assert page == tmp_path / "out" / "deep" / "report.html"
    first = {file.name: file.read_bytes() for file in page.parent.iterdir()}
    assert first.keys() == FILES
    report([str(path)], tmp_path / "out" / "deep")
    assert {file.name: file.read_bytes() for file in page.parent.iterdir()} == first
    assert b"cifar10-sigma0.50-x,0.5,4,0.352500,0.500000,0.250000,0.500000,0.500000,0.250000," in first["report.csv"]
    assert first["curves.png"].startswith(b"\x89PNG")
    assert ElementTree.fromstring(first["curves.svg"]).tag.endswith("svg")


def test_the_page_is_whole_and_asks_for_nothing(tmp_path: Path) -> None:
    text = report([log(tmp_path / "a.tsv"), log(tmp_path / "b.tsv")], tmp_path / "out").read_text()
    tags = Tags()
    tags.feed(text)
    assert tags.open == []
    assert {"svg", "table", "style"} <= tags.seen
    assert not tags.seen & {"script", "link", "img", "iframe", "image", "object"}
    assert not re.search(r"https?:|//|@import|url\((?!#)", text)
    assert "prefers-color-scheme: dark" in text
    assert "$" not in text, "a placeholder was left"


def test_figures_on_the_page_take_its_colours(tmp_path: Path) -> None:
    text = report([log(tmp_path / "a.tsv")], tmp_path / "out").read_text()
    drawing = text[text.index("<svg") : text.index("</svg>")]
    assert "var(--c0)" in drawing
    assert "var(--ink)" in drawing
    assert set(re.findall(r"#[0-9a-f]{6}\b", drawing)) <= {"#000000"}


@pytest.mark.parametrize("name", ["<i>&amp;<x y=1>", "a$b$c", "_hidden", "x'\"y"])
def test_names_are_escaped(tmp_path: Path, name: str) -> None:
    page = report([log(tmp_path / f"{name}.tsv"), log(tmp_path / "b.tsv")], tmp_path / "out")
    tags = Tags()
    tags.feed(page.read_text())
    assert tags.open == []
    assert tags.seen.isdisjoint({"x", "i"})
    labels = [node.text for node in ElementTree.parse(page.with_name("curves.svg")).iter() if node.text]
    assert any(name.lstrip("_") in (label or "") for label in labels), "the legend names it"


def test_nothing_is_written_when_an_input_is_bad(tmp_path: Path) -> None:
    good, bad = log(tmp_path / "a.tsv"), tmp_path / "b.tsv"
    bad.write_text("idx\tlabel\n")
    with pytest.raises(ValueError, match=r"b\.tsv has no column"):
        report([good, bad], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_nothing_certified_is_still_a_report(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text("idx\tlabel\tpredict\tradius\tcorrect\ttime\n0\t3\t-1\t0.0\t0\t1.0\n")
    assert "0.000000" in report([path], tmp_path / "out").with_name("report.csv").read_text()


def test_many_inputs_fit(tmp_path: Path) -> None:
    paths = [log(tmp_path / f"input-{number}.tsv") for number in range(16)]
    assert "input-15" in report(paths, tmp_path / "out").with_name("curves.svg").read_text()


def test_the_report_starts_without_heavy_imports() -> None:
    code = "import sys, radii.report; sys.exit(bool({'torch', 'matplotlib', 'scipy', 'numpy'} & sys.modules.keys()))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
