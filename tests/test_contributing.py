"""The worked example of CONTRIBUTING.md passes the contract tests of objectives as it is printed."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tools import reading

pytestmark = pytest.mark.docs

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "CONTRIBUTING.md").read_text()
METHOD, LINE = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
(FILE,) = re.findall(r"Write `(\S+)`", TEXT)
(CONTRACT,) = re.findall(r"`TABLE` of `(\S+)`", TEXT)
((FOLDER, CHOICE),) = re.findall(r"`scripts/test (\S+) -k \"(.*)\"`", TEXT)


def run(*arguments: object, folder: Path) -> None:
    """Run a Python module with the package of `folder`."""
    command = [sys.executable, "-m", *map(str, arguments)]
    environment = os.environ | {"PYTHONPATH": str(folder / "src")}
    done = subprocess.run(command, cwd=folder, env=environment, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def followed(folder: Path) -> Path:
    """A copy of the package and of the contract tests, with the example added."""
    for name in ("src", FOLDER):
        shutil.copytree(ROOT / name, folder / name)
    for name in ("pyproject.toml", "tests/conftest.py"):
        shutil.copy(ROOT / name, folder / name)
    (folder / FILE).write_text(METHOD)
    contract = (folder / CONTRACT).read_text()
    (folder / CONTRACT).write_text(re.sub(r"(?m)^(TABLE.*\n)", lambda found: found[0] + LINE, contract, count=1))
    return folder


def test_every_package_is_in_the_table() -> None:
    packages = {path.parent.name for path in (ROOT / "src" / "radii").glob("*/__init__.py")}
    assert set(re.findall(r"^\| `src/radii/(\w+)`", TEXT, re.MULTILINE)) == packages


@pytest.mark.parametrize("name", re.findall(r"\]\(([^)]+)\)", TEXT))
def test_every_linked_file_exists(name: str) -> None:
    assert (ROOT / name).is_file()


def test_way_to_a_first_hardened_model_is_short_and_stated() -> None:
    read = reading.count()
    assert read.commands <= reading.MOST_COMMANDS
    assert read.words <= reading.MOST_WORDS
    assert f"types {read.commands} commands and reads {read.words} words" in TEXT


def test_files_of_the_index_exist() -> None:
    _, _, after = TEXT.partition("### Where is …?")
    index = after[: after.index("###")]
    rows = [line for line in index.splitlines() if line.startswith("| ") and "`" in line]
    files = [file for row in rows for file in re.findall(r"`([\w/]+(?:\.py|/))`", row)]
    assert len(rows) >= 20
    assert [file for file in files if not (ROOT / "src" / "radii" / file).exists()] == []


def test_example_is_about_twenty_lines() -> None:
    assert len([line for line in METHOD.splitlines() if line]) <= 20


def test_example_passes_ruff(tmp_path: Path) -> None:
    folder = followed(tmp_path)
    run("ruff", "format", "--no-cache", "--check", FILE, CONTRACT, folder=folder)
    run("ruff", "check", "--no-cache", FILE, CONTRACT, folder=folder)


@pytest.mark.slow
def test_example_passes_the_contract_tests(tmp_path: Path) -> None:
    run("pytest", "-q", "-p", "no:cacheprovider", FOLDER, "-k", CHOICE, folder=followed(tmp_path))
