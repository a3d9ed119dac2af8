"""scripts/figures: draw the figures of the manual, and write its measured tables into the pages.

A table stands between `<!-- measured: NAME -->` and `<!-- end -->`, and is written again in place.
"""

import re
from collections.abc import Callable
from pathlib import Path

from tools.manual import choices, choosing, drawing, guarantee, results

DOCS = Path(__file__).parents[2] / "docs"
FIGURES = guarantee.FIGURES | choosing.FIGURES | results.FIGURES
MEASURED: dict[str, Callable[[], str]] = {
    "sigma": choices.sigma_table,
    "rule": choices.rule,
    "methods": choices.method_table,
    "engines": choices.engine_table,
    "caps": choices.cap_table,
    "planned": choices.planned_table,
}
OF_LOGS = {"caps", "planned"}
"""Those that need the published logs."""
REGION = re.compile(r"(<!-- measured: (\w+) -->\n)(?:(?!<!-- ).*\n)*(<!-- end -->)")


def measured(page: str, names: set[str]) -> str:
    """Write the tables of these names again, and return the page."""
    return REGION.sub(lambda found: _written(found, names), page)


def _written(found: re.Match[str], names: set[str]) -> str:
    return f"{found[1]}{MEASURED[found[2]]()}\n{found[3]}" if found[2] in names else found[0]


def main() -> None:
    for page in sorted(DOCS.rglob("*.md")):
        text = page.read_text()
        if (new := measured(text, set(MEASURED))) != text:
            page.write_text(new)
            print(page.relative_to(DOCS.parent))
    for name, draw in FIGURES.items():
        print(drawing.save(name, *draw()).relative_to(DOCS.parent))


if __name__ == "__main__":
    main()
