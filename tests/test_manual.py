"""The manual is true: its pages build, its commands parse, and its blocks run in order from an empty directory."""

import contextlib
import io
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from radii import cli
from radii.cli import demo
from radii.experiment import recipe as recipes
from tools.manual.blocks import Block, blocks, commands, every_command
from tools.manual.components import meanings
from tools.manual.reference import MADE, MARK, fill

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(path for path in DOCS.rglob("*.md") if not path.name.endswith(".template.md"))
RUN = [page for page in PAGES if any(block.reason is None for block in blocks(page))]
TINY = {
    "train": ["--set", "training.epochs=1"],
    "transfer": ["--set", "training.epochs=1"],
    "certify": ["--max", "3", "--workers", "1", "--engine", "torch"],
    "verify": ["--rows", "1"],
    "soft-labels": ["--samples", "10", "--engine", "torch"],
}
"""What a test adds to a command of a page, to make it quick."""
FEW_SAMPLES = 200
ONE_EPOCH = ["training.epochs=1"]


def name(page: Path) -> str:
    return page.relative_to(DOCS).with_suffix("").as_posix()


def tiny(words: list[str]) -> list[str]:
    """A command with fewer epochs, images and samples."""
    added = TINY.get(words[0], [])
    pairs = [(flag, value) for flag, value in zip(added[::2], added[1::2], strict=True)]
    fewer = [re.sub(r"^estimation=\d+$", f"estimation={FEW_SAMPLES}", word) for word in words]
    return [*fewer, *(each for flag, value in pairs if flag == "--set" or flag not in words for each in (flag, value))]


def radii(words: list[str]) -> str:
    """What the command line prints, run in this process: importing torch for every command would take most of the time."""
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


def certify_one(run: Any, console: Any) -> None:
    radii(["certify", str(run.path), "--set", f"estimation={FEW_SAMPLES}"])


@pytest.mark.slow
@pytest.mark.parametrize("page", RUN, ids=name)
def test_blocks_run_in_order_from_an_empty_directory(page: Path, empty: Path) -> None:
    names: dict[str, Any] = {}
    torch.manual_seed(0)
    for block in blocks(page):
        if block.reason is None:
            run(block, names)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_command_parses(page: Path) -> None:
    for words in every_command(page):
        function, _, _ = cli.app.parse_args(words[1:], exit_on_error=False, print_error=False)
        assert callable(function)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_recipe_that_a_command_names_exists(page: Path) -> None:
    for words in every_command(page):
        for word in words[2:]:
            if re.fullmatch(r"\w+/\w+-\d\.\d\d(\.toml)?", word):
                assert recipes.find(word).is_file()


def test_first_hour_is_ten_commands_or_more() -> None:
    verbs = [words[1] for words in every_command(DOCS / "first-hour.md")]
    assert len(verbs) >= 10
    assert {"demo", "list", "train", "certify", "report", "predict", "import", "transfer", "verify"} <= set(verbs)


def test_blocks_that_are_not_run_say_why() -> None:
    reasons = [block.reason for page in PAGES for block in blocks(page) if block.reason is not None]
    assert all(len(reason.split()) > 1 for reason in reasons)


def test_every_reference_is_on_a_page() -> None:
    assert {found for page in PAGES for found in MARK.findall(page.read_text())} == set(MADE)
