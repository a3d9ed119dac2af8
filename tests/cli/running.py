"""Runs the command line inside a test."""

import contextlib
import gc
import io
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from radii import cli


class Outcome(NamedTuple):
    code: object
    out: str
    error: str


def radii(*arguments: str, cwd: Path) -> Outcome:
    """Run the command line in this process: importing torch for every call would take most of the time."""
    out, error = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(cwd)
        patch.setattr(sys, "argv", ["radii", *arguments])
        patch.setattr(gc, "freeze", lambda: None)  # `radii predict` freezes what it leaves: there the process ends
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error), pytest.raises(SystemExit) as exit_:
            cli.main()
    return Outcome(exit_.value.code, out.getvalue(), error.getvalue())
