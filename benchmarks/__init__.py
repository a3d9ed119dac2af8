"""Speed, measured as ratios in one run: a file that measures is a benchmark under its own name."""

from pathlib import Path


def names() -> list[str]:
    """The benchmarks: the files here that define `measure`."""
    return sorted(path.stem for path in Path(__file__).parent.glob("*.py") if "\ndef measure(" in path.read_text())
