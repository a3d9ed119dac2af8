"""Tables, curves and an HTML page of certified accuracy. Nothing here needs torch."""

from collections.abc import Collection, Sequence
from pathlib import Path

from radii.experiment import files
from radii.report import corruptions, curves, formats, page
from radii.report.entries import read
from radii.report.facts import epoch_time

__all__ = ["report"]


def report(inputs: Sequence[Path | str], out: Path | str, trust: Collection[str] = ()) -> Path:
    """Write the report of runs and certificate files to a folder; returns the page, report.html."""
    everything = read([Path(path) for path in inputs], trust)
    # Certificates of another dataset are not mixed with those of the run's own.
    entries = [entry for entry in everything if "evaluated_on" not in entry.certificates.header] or everything
    corrupted = corruptions.groups(everything)
    figures = {"curves": curves.curves(entries)}
    times = {entry.source: measured for entry in entries if entry.run and (measured := epoch_time(entry.run))}
    if len(times) > 1:
        seconds = [each.seconds for each in times.values()]
        figures["times"] = curves.bars(list(times), seconds, "Training, seconds per epoch")
    sections = [(f"Corruptions: {name}", corruptions.table(kinds)) for name, kinds in corrupted.items()]
    svgs = {name: curves.image(figure, "svg") for name, figure in figures.items()}
    written: dict[str, str | bytes] = {
        "report.md": page.markdown(entries, [f"{name}.svg" for name in svgs], sections),
        "report.csv": formats.csv_text(everything),
        "report.tex": formats.latex(entries),
        "curves.png": curves.image(figures["curves"], "png"),
        **{f"{name}.svg": svg for name, svg in svgs.items()},
        **({"corruptions.csv": corruptions.csv_text(corrupted)} if corrupted else {}),
        "report.html": page.html(entries, svgs, sections),
    }
    folder = Path(out)
    files.make_folder(folder)
    for name, content in written.items():
        files.write(folder / name, content)
    return folder / "report.html"
