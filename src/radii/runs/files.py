"""Atomic writes and file digests."""

import hashlib
import json
from pathlib import Path
from typing import Any

from radii.disk import append, make_folder, remove, sweep, truncate, write

__all__ = ["append", "digest", "make_folder", "remove", "sweep", "truncate", "write", "write_json"]


def write_json(path: Path, value: Any) -> None:
    write(path, json.dumps(value, indent=2, sort_keys=True) + "\n")


def digest(path: Path) -> str:
    """The SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()
