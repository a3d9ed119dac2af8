"""Write a report: tables, curves and an HTML page."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from radii import disk
from radii.reports import corruptions, curves, formats, page
from radii.reports.entries import Entry, read
from radii.reports.facts import epoch_time
from radii.reports.page import TITLE, Options

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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
    """Write the report of runs and certificate files to a folder; returns the page, report.html.

    `radii` are those of the tables, by default ones that fit the data; `labels` are names to show, by path; `command`
    is what the page says that it was made by.

    >>> import os, radii, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> cells = [["idx", "label", "predict", "radius", "correct", "time"], ["0", "7", "7", "0.4", "1", "1.0"]]
    >>> _ = Path(f"{folder}/a.tsv").write_text(os.linesep.join(chr(9).join(line) for line in cells) + os.linesep)
    >>> radii.report([f"{folder}/a.tsv"], f"{folder}/report").name
    'report.html'
    """
    inputs = [inputs] if isinstance(inputs, str | Path) else inputs
    if any(not 0 <= radius <= 1000 for radius in radii):
        raise ValueError(f"radii = {tuple(radii)}, expected numbers from 0 to 1000, such as 0, 0.25, 0.5")
    everything = read([Path(path) for path in inputs], trust, labels)
    # Certificates of another dataset are not mixed with those of the run's own.
    entries = [entry for entry in everything if "evaluated_on" not in entry.certificates.header] or everything
    corrupted = corruptions.groups(everything)
    further = tuple((f"Corruptions: {name}", corruptions.table(kinds)) for name, kinds in corrupted.items())
    options = Options(title, tuple(sorted(set(radii))), command, further)
    figures = {"curves": curves.curves(entries), **_times(entries)}
    svgs = {name: curves.image(figure, "svg") for name, figure in figures.items()}
    written: dict[str, str | bytes] = {
        "report.md": page.markdown(entries, [f"{name}.svg" for name in svgs], options),
        "report.csv": formats.csv_text(everything, options.radii),
        "report.tex": formats.latex(entries, options.radii),
        "curves.png": curves.image(figures["curves"], "png"),
        **{f"{name}.pdf": curves.image(figure, "pdf") for name, figure in figures.items()},
        **{f"{name}.svg": svg for name, svg in svgs.items()},
        **({"corruptions.csv": corruptions.csv_text(corrupted)} if corrupted else {}),
        "report.html": page.html(entries, options),
    }
    folder = Path(out)
    disk.make_folder(folder)
    for name, content in written.items():
        disk.write(folder / name, content)
    return folder / "report.html"


def _times(entries: Sequence[Entry]) -> "dict[str, Figure]":
    """The figure of the training times of several runs."""
    times = {entry.source: measured for entry in entries if entry.run and (measured := epoch_time(entry.run))}
    seconds = [each.seconds for each in times.values()]
    return {"times": curves.bars(list(times), seconds, "Training, seconds per epoch")} if len(times) > 1 else {}
