"""Tables as Markdown, LaTeX and CSV."""

import csv
import io
from collections.abc import Sequence

from radii.reports import protocol
from radii.reports.entries import Entry
from radii.reports.summary import UNKNOWN, Summary, down, radii_of, radius_text, shown, up
from radii.reports.tables import Table, accuracies
from radii.reports.text import csv_cell, latex_text, markdown_text, plain

COLUMNS = (
    *("name", "sigma", "certifier", "failure", "label_known", "engine", "seed", "weights", "images", "images_chosen"),
    *("acr", "acr_at_least", "clean", "abstained"),
)
"""The columns of report.csv before those of the radii."""


def markdown(table: Table) -> str:
    """The table as Markdown, the best of a column in bold."""

    def line(texts: Sequence[str]) -> str:
        return "| " + " | ".join(texts) + " |"

    def cell(text: str, best: bool) -> str:
        return f"**{markdown_text(text)}**" if best else markdown_text(text)

    rows = [line([cell(each.text, each.best) for each in row]) for row in table.rows]
    rule = "|" + "|".join([" --- ", *(" ---: " for _ in table.head[1:])]) + "|"
    return "\n".join([line([*map(markdown_text, table.head)]), rule, *rows]) + "\n"


def latex(entries: Sequence[Entry], radii: Sequence[float] = ()) -> str:
    r"""The accuracies as a LaTeX tabular for \usepackage{booktabs}, with a line on how they were computed."""
    settings = [_settings(entry) for entry in entries]
    remarks = [f"% {plain(entry.name)}: {_line(each)}" for entry, each in zip(entries, settings, strict=True)]
    differing = [key for key in settings[0] if len({each[key] for each in settings}) > 1]
    shared = _line({key: value for key, value in settings[0].items() if key not in differing})
    caption = "; ".join(
        filter(None, [shared, f"{', '.join(differing)}: not the same in all rows" if differing else ""])
    )
    return "\n".join([*remarks, latex_table(accuracies(entries, radii), caption)])


def latex_table(table: Table, remark: str = "") -> str:
    """The table as a LaTeX tabular, the best of a column in bold, the remark in its last row."""

    def line(texts: Sequence[str]) -> str:
        return " & ".join(texts) + r" \\"

    def cell(text: str, best: bool) -> str:
        return rf"\textbf{{{latex_text(text)}}}" if best else latex_text(text)

    rows = [line([cell(each.text, each.best) for each in row]) for row in table.rows]
    head = [rf"\begin{{tabular}}{{l{'r' * (len(table.head) - 1)}}}", r"\toprule", line([*map(latex_text, table.head)])]
    last = [rf"\multicolumn{{{len(table.head)}}}{{l}}{{\footnotesize {latex_text(remark)}}} \\"] if remark else []
    return "\n".join([*head, r"\midrule", *rows, r"\bottomrule", *last, r"\end{tabular}"]) + "\n"


def csv_text(entries: Sequence[Entry], radii: Sequence[float] = ()) -> str:
    """One row per input, shares and radii as fractions with six digits, rounded down; unknown values are empty."""
    radii = radii or radii_of([entry.summary for entry in entries])
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*COLUMNS, *(f"r{radius_text(radius)}" for radius in radii)])
    for entry in entries:
        known = [*_made(entry).values(), *_figures(entry.summary)]
        shares = [_exact(entry.summary, radius) for radius in radii]
        writer.writerow([csv_cell("" if each == UNKNOWN else each) for each in (entry.name, *known, *shares)])
    return text.getvalue()


def _made(entry: Entry) -> dict[str, str]:
    """How the certificates were made, in the order of the columns of report.csv."""
    made = entry.certificates
    found = {
        "sigma": made.sigma,
        "certifier": made.certifier,
        "failure": made.failure,
        "label_known": None if made.certifier is None else "yes" if protocol.label_known(made) else "no",
        "engine": made.header.get("engine"),
        "seed": made.header.get("seed"),
        "weights": entry.weights or None,
        "images": len(made.rows),
        "images_chosen": protocol.chosen(made),
    }
    return {key: UNKNOWN if value is None else str(value) for key, value in found.items()}


def _settings(entry: Entry) -> dict[str, str]:
    """How the certificates were made, for the remarks of report.tex."""
    made, label = _made(entry), "known" if protocol.label_known(entry.certificates) else UNKNOWN
    images = made["images"] if made["images_chosen"] == UNKNOWN else f"{made['images']} of {made['images_chosen']}"
    return {**{key: made[key] for key in ("certifier", "failure", "engine", "seed")}, "images": images, "label": label}


def _line(settings: dict[str, str]) -> str:
    return ", ".join(f"{key} {value}" for key, value in settings.items() if value != UNKNOWN)


def _figures(each: Summary) -> list[str]:
    acr, abstained = each.known_acr, each.known_abstentions
    return [
        shown(acr, 6) if acr and acr.exact else "",
        down(acr.value, 6) if acr else "",
        _exact(each, 0.0),
        up(abstained.value, 6) if abstained else "",
    ]


def _exact(each: Summary, radius: float) -> str:
    return down(each.at(radius).value, 6) if each.decided(radius) else ""
