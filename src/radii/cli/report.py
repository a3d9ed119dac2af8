"""radii report: write tables, figures and a page about runs or certificate files."""

import shlex
import sys
import webbrowser
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from radii.cli.app import app, hint, printed_warnings, say
from radii.cli.arguments import Strings, Switch, Trust, parse_numbers
from radii.runs.run import Run


@app.command
def report(
    *inputs: Annotated[Path, Parameter(json_list=False)],
    out: Path | None = None,
    radii: str | None = None,
    title: str | None = None,
    label: Strings = None,
    open: Switch = False,
    trust: Trust = None,
) -> None:
    """Write tables and curves of runs or certificate files: Markdown, CSV, LaTeX, SVG, PDF, PNG and one HTML page.

    Args:
        inputs: Run directories, certificate files in Cohen's format from any tool, or folders of such files, one file
            for each kind of corruption.
        out: The folder to write to; by default RUN/report for one run, ./report otherwise.
        radii: The radii in the tables, such as 0,0.25,0.5; by default radii that fit the data.
        title: The title of the page.
        label: RUN=NAME: show this name for a run or file.
        open: Open the page in a browser.
    """
    from radii.reports.page.page import TITLE
    from radii.reports.report import report as write_report

    if out is None:
        is_one_run = len(inputs) == 1 and Run(inputs[0]).recipe_file.is_file()
        out = inputs[0] / "report" if is_one_run else Path("report")
    with printed_warnings():
        page = write_report(
            inputs,
            out,
            trust or (),
            radii=() if radii is None else parse_numbers("--radii", radii),
            title=(title or "").strip() or TITLE,
            labels=dict(_parse_label(text) for text in label or ()),
            command=shlex.join(["radii", *sys.argv[1:]]),
        )
    say(str(page))
    if open and not webbrowser.open(page.resolve().as_uri()):
        hint("no browser could be opened: open that file yourself")


def _parse_label(text: str) -> tuple[str, str]:
    """Split RUN=NAME. Both may contain an equals sign, so take the shortest path that exists."""
    parts = text.split("=")
    splits = [("=".join(parts[:end]), "=".join(parts[end:]).strip()) for end in range(1, len(parts))]
    complete = [(path, name) for path, name in splits if path and name]
    if not complete:
        raise ValueError(f"--label {text!r}: expected RUN=NAME, such as runs/g=Gaussian")
    return next((split for split in complete if Path(split[0]).exists()), complete[0])
