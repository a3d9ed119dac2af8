"""scripts/bench NAME [--data DIR] [--json FILE]: measure, print, and write the numbers."""

import argparse
import json
from pathlib import Path

from benchmarks import certification, training
from benchmarks.performance import write_section

MEASURES = {"training": training.measure, "certification": certification.measure}


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/bench", description=__doc__)
    parser.add_argument("what", choices=MEASURES)
    parser.add_argument("--data", type=Path, help="folder with the datasets' files; RADII_DATA otherwise")
    parser.add_argument("--json", type=Path, help="file to write the numbers to")
    arguments = parser.parse_args()
    numbers = MEASURES[arguments.what](arguments.data)
    if arguments.json:
        arguments.json.write_text(json.dumps(numbers, indent=2) + "\n")
    print(write_section(arguments.what, numbers))


main()
