"""The trade-off over a hyper-parameter: clean against certified accuracy, or ACR (CAT-RS, Figures 4 and 5)."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from radii.papers.table import PaperTable
from radii.papers.table_lines import Results, head, numbered
from radii.papers.table_values import radius_of, shift_of, value
from radii.reports import colours
from radii.reports.curves import MUTED, axes_of, legend, plain_name

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Point = tuple[float, float]


def figures(table: PaperTable, results: Results) -> "dict[str, Figure]":
    """A figure for ACR and for two certified accuracies over the clean accuracy; none for tables without a sweep."""
    if not table.varies or "r0.00" not in table.columns():
        return {}
    radii = [column for column in table.columns() if (radius_of(column) or 0) in (1.0, 2.0)]
    return {f"trade-off-{head(column)}": trade_off(table, results, column) for column in ("acr", *radii)}


def reported(table: PaperTable, column: str) -> dict[str, list[Point]]:
    """The reported points of every series, in the order of the rows."""
    found: dict[str, list[Point]] = {}
    for row in table.rows:
        x, y = row.reported.get("r0.00"), row.reported.get(column)
        if row.series and x is not None and y is not None:
            found.setdefault(row.series, []).append((float(x), float(y)))
    return found


def here(table: PaperTable, results: Results, column: str) -> dict[str, list[Point]]:
    """The points measured here: one line for each series and budget."""
    found: dict[str, list[Point]] = {}
    for group in numbered(table, results):
        ends = [value(table, each, group.results) for each in ("r0.00", column)]
        scales = [10.0 ** shift_of(table, each) for each in ("r0.00", column)]
        if group.row.series and all(ends):
            x, y = (scale * each.value for scale, each in zip(scales, ends, strict=True) if each)
            name = f"{group.row.series}, here ({group.results[0].budget or 'own budget'})"
            found.setdefault(name, []).append((x, y))
    return found


def trade_off(table: PaperTable, results: Results, column: str) -> "Figure":
    """Clean accuracy against a column: reported lines dashed, those measured here solid."""
    figure, axes = axes_of(7.2, 4.5)
    series = reported(table, column)
    colour_of = {name: colours.light(number) for number, name in enumerate(series)}
    for name, points in series.items():
        axes.plot(*_split(points), "o--", markersize=4, linewidth=1.2, color=colour_of[name], label=plain_name(name))
    for name, points in here(table, results, column).items():
        colour = next((colour_of[each] for each in colour_of if name.startswith(f"{each}, here")), MUTED)
        axes.plot(*_split(points), "s-", markersize=6, linewidth=1.8, color=colour, label=plain_name(name))
    axes.set(xlabel="Clean accuracy, %" if table.percent else "Clean accuracy")
    what = head(column) if radius_of(column) is None else f"Certified accuracy at radius {head(column)}"
    axes.set_title(f"{what} over the clean accuracy", loc="left", fontsize=11, color=MUTED, pad=12)
    legend(figure, axes)
    return figure


def _split(points: Sequence[Point]) -> tuple[list[float], list[float]]:
    ordered = sorted(points)
    return [x for x, _ in ordered], [y for _, y in ordered]
