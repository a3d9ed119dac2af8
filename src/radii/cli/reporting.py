"""Commands that show what there is: report, list, demo."""

import shlex
import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from radii import plugins
from radii.cli.app import app, console
from radii.cli.arguments import Trust, parse_numbers
from radii.cli.notices import warnings_in_words
from radii.experiment import recipe as recipes
from radii.report.text import plain


@app.command
def report(
    *inputs: Annotated[Path, Parameter(json_list=False)],
    out: Path | None = None,
    radii: str | None = None,
    title: str | None = None,
    label: Annotated[list[str] | None, Parameter(negative="", json_list=False)] = None,
    trust: Trust = None,
) -> None:
    """Write tables and curves of runs or certificate files: Markdown, CSV, LaTeX, SVG, PDF, PNG and one HTML page.

    Args:
        inputs: Run directories or certificate files in Cohen's format, from any tool.
        out: The folder to write to; by default RUN/report for one run, ./report otherwise.
        radii: The radii of the tables, such as 0,0.25,0.5; by default ones that fit the data.
        title: The title of the page.
        label: RUN=NAME, the name to show for a run or file.
    """
    from radii.report import report as write_report
    from radii.report.page import TITLE

    if not inputs:
        raise ValueError("nothing to report: name runs or certificate files")
    if out is None:
        out = inputs[0] / "report" if len(inputs) == 1 and inputs[0].is_dir() else Path("report")
    with warnings_in_words():
        page = write_report(
            inputs,
            out,
            trust or (),
            radii=() if radii is None else parse_numbers("--radii", radii),
            title=TITLE if title is None else title,
            labels=dict(parse_label(each) for each in label or ()),
            command=shlex.join(["radii", *sys.argv[1:]]),
        )
    console.print(plain(str(page)), soft_wrap=True, markup=False, emoji=False)


def parse_label(given: str) -> tuple[str, str]:
    """The path and the name of RUN=NAME."""
    path, equals, name = given.rpartition("=")
    if not equals or not path or not name.strip():
        raise ValueError(f"--label {given!r}: expected RUN=NAME, such as runs/g=Gaussian")
    return path, name.strip()


@app.command(name="list")
def list_() -> None:
    """List the objectives, certifiers, models, denoisers, datasets, engines, noises and recipes."""
    for title, entries in registries().items():
        console.print(f"[bold]{title}[/bold]")
        for name, text in sorted(entries.items()):
            console.print(f"  {name:<18} {text}", soft_wrap=True, markup=False)
    console.print("[bold]recipes[/bold]")
    for shelf in sorted({name.partition("/")[0] for name in recipes.shipped()}):
        named = " ".join(name.partition("/")[2] for name in recipes.shipped() if name.startswith(f"{shelf}/"))
        console.print(f"  {shelf + '/':<18} {named}", soft_wrap=True, markup=False)


def registries() -> dict[str, dict[str, str]]:
    """The entries of every registry with one sentence each."""
    return {
        "objectives": plugins.describe("objectives"),
        "certifiers": plugins.describe("certifiers"),
        "models": {name: text for name, (_, text) in plugins.functions("models").items()},
        "denoisers": {name: text for name, (_, text) in plugins.functions("models/denoisers").items()},
        "datasets": plugins.describe("datasets"),
        "engines": plugins.describe("engines"),
        "noises": plugins.describe("smoothing/noise"),
    }


@app.command
def demo(*, run: Path = Path("runs/demo")) -> None:
    """Train on the embedded digits, certify and write a report, in a few minutes on two cores.

    Args:
        run: The folder for the demonstration's runs and report.
    """
    from radii.cli.demo import run_demo

    run_demo(run, console)
