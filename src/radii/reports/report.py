"""Write a report: tables, figures and an HTML page."""

import json
import warnings
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from radii import disk
from radii.errors import ParameterError, RunWarning, install
from radii.reports import accuracies, corruptions, figures
from radii.reports.inputs import Entry, read
from radii.reports.page.page import TITLE, Content, html, markdown
from radii.reports.spread import as_json as spread_as_json
from radii.runs import readers

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAGE = "report.html"
MOST_PAGE = 1 << 30
"""Bytes of the largest page that is read to see whether radii wrote it."""


def report(
    inputs: Sequence[Path | str] | Path | str,
    out: Path | str,
    trust: Collection[str] = (),
    *,
    radii: Sequence[float] = (),
    title: str = TITLE,
    labels: Mapping[str, str] | None = None,
    command: str = "",
) -> Path:
    """Write the report of runs and certificate files to a folder, and return the page, report.html.

    `radii` are the radii of the tables, by default chosen to fit the data; `labels` are names to show, by path; the
    page names `command` as the command that made it.

    >>> import os, radii, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> cells = [["idx", "label", "predict", "radius", "correct", "time"], ["0", "7", "7", "0.4", "1", "1.0"]]
    >>> _ = Path(f"{folder}/a.tsv").write_text(os.linesep.join(chr(9).join(line) for line in cells) + os.linesep)
    >>> radii.report([f"{folder}/a.tsv"], f"{folder}/report").name
    'report.html'
    """
    paths = [inputs] if isinstance(inputs, str | Path) else inputs
    if any(not 0 <= radius <= 1000 for radius in radii):
        raise ValueError(f"radii = {tuple(radii)}, expected numbers from 0 to 1000, such as 0, 0.25, 0.5")
    all_entries = read([Path(path) for path in paths], trust, labels)
    # Certificates of another dataset are not mixed with those of the run's own dataset.
    entries = [entry for entry in all_entries if "evaluated_on" not in entry.certificates.header] or all_entries
    corrupted = corruptions.groups(all_entries)
    corruption_tables = {f"Corruptions: {name}": corruptions.table(kinds) for name, kinds in corrupted.items()}
    content = Content(entries, title, tuple(sorted(set(radii))), command, corruption_tables)
    figure_files = _figure_files(entries)
    files: dict[str, str | bytes] = {
        **figure_files,
        "report.md": markdown(content, [name for name in figure_files if name.endswith(".svg")]),
        "report.csv": accuracies.csv_text(all_entries, content.radii),
        "report.tex": accuracies.latex(entries, content.radii),
        "report.json": _json_text(content),
        **({"corruptions.csv": corruptions.csv_text(corrupted)} if corrupted else {}),
        PAGE: html(content),
    }
    return write_files(Path(out), files, PAGE)


def write_files(folder: Path, files: Mapping[str, str | bytes], page: str) -> Path:
    """Write files to a folder, the page first, and return the path of the page.

    Existing files are replaced only beside a page that radii wrote.
    """
    path = folder / page
    is_ours = path.is_file() and b"radii" in readers.content(path, MOST_PAGE)
    if not is_ours and (existing := [name for name in files if (folder / name).exists()]):
        raise ParameterError(
            f"{folder / existing[0]} exists, and no {page} beside it says that radii wrote it. Name another folder.",
            "out",
        )
    disk.make_folder(folder)
    for name in sorted(files, key=page.__ne__):  # a kill must not leave files without their page
        disk.write(folder / name, files[name])
    return path


def _json_text(content: Content) -> str:
    """Write the numbers of the tables as JSON, one object for each input; unknown numbers are null."""
    rows = [
        accuracies.as_json(entry, content.radii) | spread_as_json(entry, content.radius) for entry in content.entries
    ]
    return json.dumps(rows, indent=2, allow_nan=False) + "\n"


def _figure_files(entries: Sequence[Entry]) -> dict[str, bytes]:
    """Draw the figures, as files by name; warn and draw none if matplotlib is not installed."""
    if not figures.can_draw():
        message = "The page draws its own curves; curves.svg, .pdf and .png need matplotlib, which is not installed."
        warnings.warn(f"{message} Install it by: {install('plot')}", RunWarning, stacklevel=3)
        return {}
    drawn = {"curves": figures.draw_curves(entries), **_draw_times(entries)}
    # SVG comes first, because drawing a figure as PDF changes the ids in its SVG.
    files = {f"{name}.{kind}": figures.to_bytes(drawn[name], kind) for kind in ("svg", "pdf") for name in drawn}
    return {**files, "curves.png": figures.to_bytes(drawn["curves"], "png")}


def _draw_times(entries: Sequence[Entry]) -> "dict[str, Figure]":
    """Draw the training times of the runs; nothing for fewer than two."""
    times = {entry.source: entry.run.epoch_time.seconds for entry in entries if entry.run and entry.run.epoch_time}
    if len(times) < 2:
        return {}
    return {"times": figures.draw_bars(list(times), list(times.values()), "Training, seconds per epoch")}
