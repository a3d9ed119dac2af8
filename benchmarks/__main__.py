"""Measure speed as ratios in one run, print the numbers and write them to docs/performance.md."""

import argparse
import importlib
import json
from pathlib import Path

from benchmarks import names
from benchmarks.performance import write_section


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/bench", description=__doc__)
    parser.add_argument("what", choices=names())
    parser.add_argument("--data", type=Path, help="folder with the datasets' files; RADII_DATA otherwise")
    parser.add_argument("--json", type=Path, help="file to write the numbers to")
    arguments = parser.parse_args()
    numbers = importlib.import_module(f"benchmarks.{arguments.what}").measure(arguments.data)
    if arguments.json:
        arguments.json.write_text(json.dumps(numbers, indent=2) + "\n")
    print(write_section(arguments.what, numbers))


if __name__ == "__main__":
    main()
