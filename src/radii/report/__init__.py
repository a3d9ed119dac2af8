"""Tables, curves and an HTML page of certified accuracy. Nothing here needs torch."""

import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from types import ModuleType

from radii.experiment import files
from radii.report import curves, formats, page
from radii.report.entries import read
from radii.report.facts import epoch_time

__all__ = ["report"]


def report(inputs: Sequence[Path | str] | Path | str, out: Path | str, trust: Collection[str] = ()) -> Path:
    """Write the report of runs and certificate files to a folder; returns the page, report.html.

    >>> import os, radii, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> cells = [["idx", "label", "predict", "radius", "correct", "time"], ["0", "7", "7", "0.4", "1", "1.0"]]
    >>> _ = Path(f"{folder}/a.tsv").write_text(os.linesep.join(chr(9).join(line) for line in cells) + os.linesep)
    >>> radii.report([f"{folder}/a.tsv"], f"{folder}/report").name
    'report.html'
    """
    inputs = [inputs] if isinstance(inputs, str | Path) else inputs
    entries = read([Path(path) for path in inputs], trust)
    figures = {"curves": curves.curves(entries)}
    times = {entry.source: measured for entry in entries if entry.run and (measured := epoch_time(entry.run))}
    if len(times) > 1:
        seconds = [each.seconds for each in times.values()]
        figures["times"] = curves.bars(list(times), seconds, "Training, seconds per epoch")
    svgs = {name: curves.image(figure, "svg") for name, figure in figures.items()}
    written: dict[str, str | bytes] = {
        "report.md": page.markdown(entries, [f"{name}.svg" for name in svgs]),
        "report.csv": formats.csv_text(entries),
        "report.tex": formats.latex(entries),
        "curves.png": curves.image(figures["curves"], "png"),
        **{f"{name}.svg": svg for name, svg in svgs.items()},
        "report.html": page.html(entries, svgs),
    }
    folder = Path(out)
    files.make_folder(folder)
    for name, content in written.items():
        files.write(folder / name, content)
    return folder / "report.html"


class _Callable(ModuleType):
    """This package, which `radii.report(...)` calls as the function of the same name."""

    def __call__(self, inputs: Sequence[Path | str] | Path | str, out: Path | str, trust: Collection[str] = ()) -> Path:
        return report(inputs, out, trust)


sys.modules[__name__].__class__ = _Callable
