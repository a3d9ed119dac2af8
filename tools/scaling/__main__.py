"""scripts/simulate: measure what a sample costs here, or write docs/scaling.md from what was measured."""

import argparse
import json

from tools.scaling import costs, page


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/simulate", description=__doc__)
    parser.add_argument("--measure", action="store_true", help="measure the costs of a sample first")
    if parser.parse_args().measure:
        costs.FILE.write_text(json.dumps(costs.measure(), indent=2) + "\n")
    page.PAGE.write_text(page.text())


if __name__ == "__main__":
    main()
