"""A trained run to attack, and its files with new checksums.

As in commands.py, nothing but the command line and the public names of radii is used: the attacks in claims.py and
intrusions.py can be tried on earlier versions.
"""

import atexit
import hashlib
import json
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import radii as package
from tools.stress.commands import radii

ROOT = Path(package.__file__).parents[2]
"""The checkout of the radii that is attacked."""
QUICK = ("--engine", "torch", "--workers", "1")


@cache
def trained() -> Path:
    """Train a run once, and return the folder that holds it as `run`."""
    folder = Path(tempfile.mkdtemp(prefix="radii-stress-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    result = radii(
        "train", "digits/gaussian-0.25", "--run", "run", "--set", "training.epochs=3", cwd=folder, seconds=300
    )
    assert result.code == 0, result
    return folder


@cache
def certified() -> Path:
    """Certify a copy of the run, and return the folder that holds it."""
    folder = Path(tempfile.mkdtemp(prefix="radii-stress-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    shutil.copytree(trained(), folder, dirs_exist_ok=True)
    result = radii("certify", "run", "--max", 8, *QUICK, "--set", "estimation=500", cwd=folder, seconds=300)
    assert result.code == 0, result
    return folder


def copied(source: Path, to: Path) -> Path:
    """Copy a folder, in place of what is there, and return it."""
    shutil.rmtree(to, ignore_errors=True)
    return Path(shutil.copytree(source, to))


def the_file(folder: Path) -> Path:
    """Return the one certificate file of the run in a folder."""
    (path,) = (folder / "run" / "certificates").glob("*.tsv")
    return path


def rewrite(path: Path, header: dict[str, Any] | None = None, rows: list[list[str]] | None = None) -> None:
    """Write another header or other cells to a certificate file, and compute every checksum again."""
    beside = path.with_suffix(".json")
    header = json.loads(beside.read_text()) if header is None else header
    first, *lines = path.read_text().splitlines()
    rows = [line.split("\t")[:-1] for line in lines] if rows is None else rows
    constant = {key: value for key, value in header.items() if key != "environments"}
    marks = [hashlib.sha256(json.dumps(constant, sort_keys=True).encode()).hexdigest()[:16]]
    text = [first]
    for cells in rows:
        marks.append(_checksum("\t".join(cells), marks[-1]))
        text.append("\t".join([*cells, marks[-1]]))
    previous = ""
    environments = header.get("environments")
    for entry in environments if isinstance(environments, list) else []:
        if isinstance(entry, dict) and "checksum" in entry and entry.get("first_row") in range(len(marks)):
            content = {key: value for key, value in entry.items() if key != "checksum"}
            entry["checksum"] = _checksum(
                json.dumps(content, sort_keys=True), f"{marks[entry['first_row']]} {previous}"
            )
            previous = entry["checksum"]
    beside.write_text(json.dumps(header))
    path.write_text("\n".join(text) + "\n")


def _checksum(line: str, previous: str) -> str:
    return hashlib.sha256(f"{previous}\t{line}".encode()).hexdigest()[:16]
