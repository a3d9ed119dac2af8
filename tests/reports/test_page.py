"""The whole report: every file is self-contained, escaped and reproducible."""

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest

from radii.errors import ParameterError
from radii.reports.report import report
from radii.runs.certificate_writer import CertificateFile
from radii.runs.certificates import Row
from radii.smoothing.certificate import ABSTAIN
from tests.reports.samples import write_log

PAGES = {"report.md", "report.csv", "report.tex", "report.json", "report.html"}
FILES = PAGES | {"curves.svg", "curves.pdf", "curves.png"}
SIGMA_HALF = """idx\tlabel\tpredict\tradius\tcorrect\ttime
0\t3\t3\t1.15\t1\t0:00:08.593859
20\t8\t8\t0.26\t1\t0:00:08.090858
40\t6\t-1\t0.0\t0\t0:00:08.097753
60\t6\t5\t0.953\t0\t0:00:08.1
"""


class Tags(HTMLParser):
    """The tags of a page, and those that are still open."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[str] = set()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.seen.add(tag)
        if tag not in ("meta", "br", "img"):
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
    assert (
        b"cifar10-sigma0.50-x,,l2,0.5,,,,,,,4,,0.352500,0.352500,0.500000,0.250000,0.500000,,0.500000,0.500000,"
        in first["report.csv"]
    )
    assert first["curves.png"].startswith(b"\x89PNG")
    assert ElementTree.fromstring(first["curves.svg"]).tag.endswith("svg")


def test_page_is_self_contained(tmp_path: Path) -> None:
    text = report([log(tmp_path / "a.tsv"), log(tmp_path / "b.tsv")], tmp_path / "out").read_text()
    tags = Tags()
    tags.feed(text)
    assert tags.open == []
    assert {"svg", "table", "style", "script"} <= tags.seen
    assert not tags.seen & {"link", "iframe", "image", "object", "base"}
    assert not re.search(r"https?:|//|@import|url\((?!#)|src=(?!\"data:image/png;base64,)", text)
    assert "prefers-color-scheme: dark" in text
    assert "$" not in text, "a placeholder was left"


def test_figures_on_the_page_take_its_colours(tmp_path: Path) -> None:
    text = report([log(tmp_path / "a.tsv")], tmp_path / "out").read_text()
    drawing = text[text.index("<svg") : text.index("</svg>")]
    assert "var(--c0)" in drawing
    assert not re.findall(r"#[0-9a-f]{6}\b", drawing)


@pytest.mark.parametrize("name", ["<i>&amp;<x y=1>", "a$b$c", "_hidden", "x'\"y", "[bold]", "a\\$b$"])
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


def test_report_without_any_certificate(tmp_path: Path) -> None:
    path = write_log(tmp_path / "a.tsv", (0, 3, ABSTAIN, 0.0))
    assert "0.000000" in report([path], tmp_path / "out").with_name("report.csv").read_text()


def test_many_inputs_fit(tmp_path: Path) -> None:
    paths = [log(tmp_path / f"input-{number}.tsv") for number in range(16)]
    assert "input-15" in report(paths, tmp_path / "out").with_name("curves.svg").read_text()


def test_the_report_starts_without_heavy_imports() -> None:
    heavy = "{'torch', 'matplotlib', 'scipy', 'numpy'}"
    code = f"import sys, radii.reports.report; sys.exit(bool({heavy} & sys.modules.keys()))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def sequential(path: Path, images: int, least: float = 0.25) -> Path:
    """Write a certificate file of two tested radii."""
    header = {"procedure": "sequential", "parameters": {"radii": [0.25, 0.5], "failure": 0.01}}
    file = CertificateFile(path, header)
    for index in range(images):
        file.append(Row(index, index % 10, index % 10, max(least, 0.25 + 0.25 * (index % 2)), 1.0, 100))
    return path


def tiles(page: str) -> list[str]:
    return re.findall(r'<dd class="value">(.*?)(?:<small>.*?)?</dd>', page)


def test_tiles_show_bounds_and_leave_out_what_is_unknown(tmp_path: Path) -> None:
    text = report([sequential(tmp_path / "a.tsv", 4)], tmp_path / "out").read_text()
    assert tiles(text) == ["≥ 100.0", "100.0", "50.0", "≥ 0.3750"]
    assert "on 4 images only" in text
    (tmp_path / "b.json").write_text('{"procedure": "prediction"}')
    (tmp_path / "b.tsv").write_text(SIGMA_HALF.replace("1.15", "0.0").replace("0.26", "0.0").replace("0.953", "0.0"))
    text = report([tmp_path / "b.tsv"], tmp_path / "out").read_text()
    assert tiles(text) == ["50.0"]


def test_tiles_of_several_inputs_name_the_best(tmp_path: Path) -> None:
    weak, strong = sequential(tmp_path / "weak.tsv", 100), sequential(tmp_path / "strong.tsv", 100, 0.5)
    text = report([weak, strong], tmp_path / "out").read_text()
    assert re.findall(r'<dd class="who">(.*?)</dd>', text) == ["", "best: strong"]


def test_tiles_and_bold_only_for_comparable_inputs(tmp_path: Path) -> None:
    many, same = sequential(tmp_path / "a.tsv", 100), sequential(tmp_path / "b.tsv", 100)
    text = report([many, same], tmp_path / "out").read_text()
    assert tiles(text) == ["100.0", "50.0"], "bounds do not say which is best"
    assert "The best of a column is bold." in text
    text = report([many, sequential(tmp_path / "c.tsv", 3)], tmp_path / "out").read_text()
    assert tiles(text) == []
    assert "<b>" not in text
    assert "bold" not in text
    assert "No best is marked" in text


def test_the_claim_holds_for_all_inputs(tmp_path: Path) -> None:
    """Of different failure probabilities the largest is stated, and none where one is not recorded."""
    loose = sequential(tmp_path / "a.tsv", 3)
    strict = tmp_path / "b.tsv"
    CertificateFile(strict, {"procedure": "fixed", "parameters": {"failure": 0.001}}).append(Row(0, 1, 1, 0.5, 1.0))
    assert "at most 0.01 per image" in report([loose, strict], tmp_path / "out").read_text()
    assert "proof fails" not in report([loose, log(tmp_path / "c.tsv")], tmp_path / "out").read_text()


def test_control_characters_in_a_name_are_escaped(tmp_path: Path) -> None:
    page = report([log(tmp_path / "a\n\x1b[31m\x08.tsv")], tmp_path / "out")
    for name in ("report.html", "report.md", "report.csv", "report.tex", "curves.svg"):
        text = page.with_name(name).read_text()
        assert "x1b" in text
        assert "\x1b" not in text
        assert "\x08" not in text


def test_files_that_radii_did_not_write_are_not_replaced(tmp_path: Path) -> None:
    path = log(tmp_path / "mine.tsv")
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "report.csv").write_text("my own table")
    with pytest.raises(ParameterError, match=r"report.csv exists, and no report.html beside it says that radii wrote"):
        report([path], folder)
    assert [file.name for file in folder.iterdir()] == ["report.csv"]
    assert (folder / "report.csv").read_text() == "my own table"
    (folder / "report.html").write_text("<p>my own page</p>")
    with pytest.raises(ParameterError, match="Name another folder"):
        report([path], folder)
    assert (folder / "report.html").read_text() == "<p>my own page</p>"


def test_report_is_written_again(tmp_path: Path) -> None:
    path = log(tmp_path / "mine.tsv")
    report([path], tmp_path / "out")
    assert "second" in report([path], tmp_path / "out", title="second").read_text()
