"""Benchmarks of speed, as ratios measured in one run: a file that defines `measure` is a benchmark."""

from pathlib import Path


def names() -> list[str]:
    """Return the benchmarks: the files here that define `measure`."""
    return sorted(path.stem for path in Path(__file__).parent.glob("*.py") if "\ndef measure(" in path.read_text())
