"""The manual is true: its pages build, its commands parse, and its blocks run in order from an empty directory."""

import contextlib
import io
import re
import shlex
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import radii as radii_package
from radii import cli, plugins
from radii.cli import demo
from radii.runs import recipe as recipes
from tools.manual import drawing
from tools.manual.__main__ import FIGURES, MEASURED, OF_LOGS, measured
from tools.manual.blocks import Block, blocks, commands, every_command
from tools.manual.components import SHELVES, meanings
from tools.manual.reference import MADE, MARK, TOPICS, fill

pytestmark = pytest.mark.docs

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(path for path in DOCS.rglob("*.md") if not path.name.endswith(".template.md"))
ELSEWHERE = {"results.md", "off_the_shelf.md"}
"""Pages whose commands and code have tests of their own: test_results.py, test_off_the_shelf.py."""
WITH_COMMANDS = [page for page in PAGES if page.name not in ELSEWHERE]
RUN = [page for page in WITH_COMMANDS if any(block.reason is None for block in blocks(page))]
TINY = {
    "train": ["--set", "training.epochs=1"],
    "transfer": ["--set", "training.epochs=1"],
    "certify": ["--max", "3", "--workers", "1", "--engine", "torch"],
    "verify": ["--rows", "1"],
    "soft-labels": ["--samples", "10", "--engine", "torch"],
}
"""What a test adds to a command of a page, to make it quick."""
FEW_SAMPLES = 1_000
SHORT = "0.02"
"""The minutes of a plan."""
ONE_EPOCH = ["training.epochs=1"]


def name(page: Path) -> str:
    return page.relative_to(DOCS).with_suffix("").as_posix()


def tiny(words: list[str]) -> list[str]:
    """A command with fewer epochs, images and samples."""
    if "--minutes" in words:
        at = words.index("--minutes") + 1
        words = [*words[:at], SHORT, *words[at + 1 :]]
    fewer = [re.sub(r"^(estimation|most_samples)=\d+$", rf"\1={FEW_SAMPLES}", word) for word in words]
    of_images = words[0] == "certify" and not {"one_pass", "--from"} & set(words)
    if of_images and not any(word.startswith(("estimation=", "most_samples=")) for word in words):
        fewer += [
            "--set",
            f"{'most_samples' if {'sequential', 'planned'} & set(words) else 'estimation'}={FEW_SAMPLES}",
        ]
    added = [] if "--from" in words and words[0] == "certify" else TINY.get(words[0], [])
    for flag, value in zip(added[::2], added[1::2], strict=True):
        fewer += [flag, value] if flag == "--set" or flag not in words else []
    return fewer


def radii(words: list[str]) -> str:
    """What the command line prints, run in this process: importing torch every time would take most of the time."""
    out = io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["radii", *tiny(words)])
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out), pytest.raises(SystemExit) as exit_:
            cli.main()
    assert exit_.value.code == 0, f"radii {shlex.join(words)}: {out.getvalue()}"
    return out.getvalue()


def run(block: Block, names: dict[str, Any]) -> None:
    """Run a block as a reader would, or write it to its file."""
    if block.file:
        Path(block.file).write_text(block.text)
    elif block.language == "python":
        exec(compile(block.text, f"line {block.line}", "exec"), names)
    elif block.language == "toml":
        recipes.parse(block.text, f"line {block.line}")
    elif block.language == "sh":
        for words in commands(block.text):
            assert words[0] == "radii", f"line {block.line}: {words[0]} is not run, say why above the block"
            radii(words[1:])


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty directory to work in, whose modules are forgotten afterwards, and a demonstration of one epoch."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(demo, "_recipe", lambda method: recipes.read(recipes.find(f"digits/{method}-0.25"), ONE_EPOCH))
    monkeypatch.setattr(demo, "_certify", certify_one)
    yield tmp_path
    for path in tmp_path.glob("*.py"):
        sys.modules.pop(path.stem, None)


def certify_one(run: Any) -> None:
    radii(["certify", str(run.path)])


@pytest.mark.slow
@pytest.mark.usefixtures("empty")
@pytest.mark.parametrize("page", RUN, ids=name)
def test_blocks_run_in_order_from_an_empty_directory(page: Path) -> None:
    names: dict[str, Any] = {}
    torch.manual_seed(0)
    for block in blocks(page):
        if block.reason is None:
            run(block, names)


@pytest.mark.parametrize("page", WITH_COMMANDS, ids=name)
def test_every_command_parses(page: Path) -> None:
    for words in every_command(page):
        function, _, _ = cli.app.parse_args(words[1:], exit_on_error=False, print_error=False)
        assert callable(function)


@pytest.mark.parametrize("page", WITH_COMMANDS, ids=name)
def test_every_recipe_that_a_command_names_exists(page: Path) -> None:
    for words in every_command(page):
        for word in words[2:]:
            if re.fullmatch(r"\w+/\w+-\d\.\d\d(\.toml)?", word):
                assert recipes.find(word).is_file()


def test_first_hour_is_ten_commands_or_more() -> None:
    verbs = [words[1] for words in every_command(DOCS / "first-hour.md")]
    assert len(verbs) >= 10
    assert {"demo", "list", "train", "certify", "report", "predict", "import", "transfer", "verify"} <= set(verbs)
    assert {"audit", "harden", "compare"} <= set(verbs)


def test_blocks_that_are_not_run_say_why() -> None:
    reasons = [block.reason for page in PAGES for block in blocks(page) if block.reason is not None]
    assert all(len(reason.split()) > 1 for reason in reasons)


def test_every_reference_is_on_a_page() -> None:
    assert {found for page in PAGES for found in MARK.findall(page.read_text())} == set(MADE)


def test_every_key_of_the_reference_has_a_meaning() -> None:
    """A field is explained by the text below it in the source, or by its name in tools/manual/meanings.py."""
    kinds: dict[str, Callable[..., Any]] = {
        f"{folder}/{each}": plugins.find(folder, each, base)
        for folder, base in SHELVES
        for each in plugins.names(folder)
    }
    kinds |= {"recipe": recipes.Recipe, "training": recipes.Training}
    silent = [f"{kind}: {key}" for kind, found in kinds.items() for key, said in meanings(found).items() if not said]
    assert silent == []


def test_every_command_is_in_the_reference() -> None:
    made = fill("<!-- made: commands -->")
    known = [command for command in cli.app if command[0] != "-"]
    assert [each for each in known if f"## `radii {each}`\n\n```console\nradii {each}" not in made] == []
    assert " -m " not in made


def test_every_public_name_is_in_the_reference() -> None:
    made = fill("<!-- made: python -->")
    listed = [name for names in TOPICS.values() for name in names]
    assert sorted(listed) == sorted(radii_package.__all__), "add the name to TOPICS in tools/manual/reference.py"
    assert [name for name in radii_package.__all__ if f"\n### `{name}`" not in made] == []
    assert "radii.Run.claim" not in made, "only what is promised is on the page"
    assert "<function" not in made
    assert " object at 0x" not in made


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_measured_tables_are_up_to_date(page: Path) -> None:
    text = page.read_text()
    assert measured(text, set(MEASURED) - OF_LOGS) == text, "run scripts/figures"


@pytest.mark.slow
@pytest.mark.usefixtures("logs")
def test_tables_of_the_published_logs_are_up_to_date() -> None:
    text = (DOCS / "choosing.md").read_text()
    assert measured(text, OF_LOGS) == text, "run scripts/figures"


def test_a_changed_table_is_noticed() -> None:
    text = (DOCS / "choosing.md").read_text()
    for name in ("rule", "sigma", "methods", "engines"):
        start = text.index(f"<!-- measured: {name} -->\n")
        digit = re.compile(r"\d").search(text, start)
        assert digit
        edited = text[: digit.start()] + str((int(digit[0]) + 1) % 10) + text[digit.end() :]
        assert measured(edited, set(MEASURED) - OF_LOGS) == text


@pytest.mark.parametrize("figure", FIGURES)
def test_figures_are_up_to_date_and_shown(figure: str) -> None:
    """By the digest of their data: the drawing itself may differ with the version of matplotlib."""
    _, data = FIGURES[figure]()
    assert f"data {drawing.digest(data)}" in (drawing.FOLDER / f"{figure}.svg").read_text(), "run scripts/figures"
    assert any(f"figures/{figure}.svg" in page.read_text() for page in PAGES)


@pytest.mark.slow
def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    done = subprocess.run([ROOT / "scripts" / "docs", tmp_path / "site"], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    made = {
        path.relative_to(tmp_path / "site").with_suffix("").as_posix() for path in (tmp_path / "site").rglob("*.html")
    }
    assert {name(page) for page in PAGES} <= made
    assert "made: " not in (tmp_path / "site" / "reference" / "recipes.html").read_text()
    listed = objects(tmp_path / "site" / "objects.inv")
    public = [f"radii.{name}" for name in radii_package.__all__]
    assert [name for name in (*public, "radii.Results.to_pandas", "radii.bounds.radius") if name not in listed] == []


def objects(inventory: Path) -> set[str]:
    """The names of Python's objects in objects.inv, which other manuals link to."""
    *_, packed = inventory.read_bytes().split(b"\n", 4)
    lines = [line.split(" ") for line in zlib.decompress(packed).decode().splitlines()]
    return {name for name, kind, *_ in lines if kind.startswith("py:")}


def test_messages_of_the_troubleshooting_page_are_those_of_the_code() -> None:
    """A message on the page has … in place of values; the code may write it in several pieces."""
    source = "\n".join(path.read_text() for path in (ROOT / "src" / "radii").rglob("*.py"))
    joined = re.sub(r"\"\s*\n?\s*f?\"", "", source)
    plain = re.sub(r"\{[^{}]*\}", "…", re.sub(r"\{[^{}]*\}", "…", joined))
    quoted = re.findall(r"(?<!\*)\*([^*|]+)\*(?!\*)", (DOCS / "troubleshooting.md").read_text())
    assert len(quoted) > 20
    pieces = {piece.strip(" :;,.") for words in quoted for piece in words.split("…")}
    assert [piece for piece in sorted(pieces) if piece not in plain] == []
