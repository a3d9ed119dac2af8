"""radii report: write tables, figures and a page about runs or certificate files."""

import shlex
import webbrowser
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from radii.cli.app import hint, printed_warnings, say, typed
from radii.cli.arguments import LOG, Strings, Switch, Trust, parse_numbers
from radii.runs.run import Run


def report(
    *inputs: Annotated[Path, Parameter(json_list=False)],
    out: Path | None = None,
    radii: str | None = None,
    title: str | None = None,
    label: Strings = None,
    open: Switch = False,
    evidence: Switch = False,
    trust: Trust = None,
) -> None:
    """Write tables and curves of runs or certificate files: Markdown, CSV, LaTeX, SVG, PDF, PNG and one HTML page.

    Args:
        inputs: Run directories, certificate files in Cohen's format from any tool, or folders of such files, one file
            for each kind of corruption. With --evidence also folders of evidence that `radii serve` wrote.
        out: The folder to write to; by default RUN/report for one run, ./report otherwise.
        radii: The radii in the tables, such as 0,0.25,0.5; by default radii that fit the data.
        title: The title of the page.
        label: RUN=NAME: show this name for a run or file.
        open: Open the page in a browser.
        evidence: Also write auditors.html, a page for auditors: what was claimed, how it was tested and on which data,
            who can check it and how, and the limits.
    """
    from radii.reports.page.page import TITLE
    from radii.reports.report import report as write_report

    served = [path for path in inputs if (path / LOG).is_file()]
    if served and not evidence:
        raise ValueError(f"{served[0]} is evidence of a server. Add --evidence for a page about it.")
    inputs = tuple(path for path in inputs if path not in served)
    out = out or _default_folder(inputs)
    with printed_warnings():
        page = write_report(
            inputs,
            out,
            trust or (),
            radii=() if radii is None else parse_numbers("--radii", radii),
            title=(title or "").strip() or TITLE,
            labels=dict(_parse_label(text) for text in label or ()),
            command=shlex.join(["radii", *typed()]),
        )
    say(str(page))
    if evidence:
        say(str(_write_auditors_page(inputs, served, out, trust)))
    if open and not webbrowser.open(page.resolve().as_uri()):
        hint("no browser could be opened; open that file yourself")


def _default_folder(inputs: Sequence[Path]) -> Path:
    """Return the folder to write to: inside the run if there is one run alone."""
    is_one_run = len(inputs) == 1 and Run(inputs[0]).recipe_file.is_file()
    return inputs[0] / "report" if is_one_run else Path("report")


def _write_auditors_page(inputs: Sequence[Path], served: Sequence[Path], out: Path, trust: list[str] | None) -> Path:
    """Write the page for auditors about the runs among the inputs, and the evidence of servers."""
    from radii.reports.auditors import ServedAnswers, write_page

    runs = [run for path in inputs if (run := Run(path, trust or ())).recipe_file.is_file()]
    answers = []
    for folder in served:
        from radii.serving.audit import verify_evidence  # it needs torch, the page alone does not

        result = verify_evidence(folder, rows=0)
        problems = (*result.differences, *result.unchecked)
        counts = result.lines, result.answers, result.unanswered
        answers.append(ServedAnswers(folder.name, *counts, result.head, result.claims, problems))
    return write_page(runs, out, answers, shlex.join(["radii", *typed()]))


def _parse_label(text: str) -> tuple[str, str]:
    """Split RUN=NAME. Both may contain an equals sign, so take the shortest path that exists."""
    parts = text.split("=")
    splits = [("=".join(parts[:end]), "=".join(parts[end:]).strip()) for end in range(1, len(parts))]
    complete = [(path, name) for path, name in splits if path and name]
    if not complete:
        raise ValueError(f"--label {text!r}: expected RUN=NAME, such as runs/g=Gaussian.")
    return next((split for split in complete if Path(split[0]).exists()), complete[0])
