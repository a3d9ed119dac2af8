"""Files that are whole or not there, and their digests."""

import hashlib
import json
import os
from pathlib import Path
from typing import Any


def write(path: Path, content: bytes | str) -> None:
    """Replace a file in one move: a reader, or a kill, sees the old content or the new, never a half."""
    data = content.encode() if isinstance(content, str) else content
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    with aside.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    aside.replace(path)


def write_json(path: Path, value: Any) -> None:
    write(path, json.dumps(value, indent=2, sort_keys=True) + "\n")


def digest(path: Path) -> str:
    """The SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()
