"""Warnings about runs, one line each, without the location in the code."""

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from radii.errors import RunWarning


@contextmanager
def warnings_in_words() -> Iterator[None]:
    """Print warnings about a run to stderr, one line each."""
    with warnings.catch_warnings():
        shown = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
            if issubclass(category, RunWarning):
                print(f"radii: {message}", file=sys.stderr)
            else:
                shown(message, category, *place, **more)

        warnings.simplefilter("always", RunWarning)
        warnings.showwarning = show
        yield
