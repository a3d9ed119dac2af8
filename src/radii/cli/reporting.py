"""Commands that show what there is: report, list, demo."""

import webbrowser
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from radii import plugins
from radii.cli.app import app, console, hint, say
from radii.cli.arguments import Trust
from radii.cli.notices import warnings_in_words
from radii.experiment import recipe as recipes


@app.command
def report(
    *inputs: Annotated[Path, Parameter(json_list=False)],
    out: Path | None = None,
    open: Annotated[bool, Parameter(negative="")] = False,
    trust: Trust = None,
) -> None:
    """Write tables and curves of runs or certificate files: Markdown, CSV, LaTeX, SVG, PNG and one HTML page.

    Args:
        inputs: Run directories or certificate files in Cohen's format, from any tool.
        out: The folder to write to; by default RUN/report for one run, ./report otherwise.
        open: Open the page in a browser.
    """
    from radii.report import report as write_report

    if not inputs:
        raise ValueError("nothing to report: name runs or certificate files")
    if out is None:
        out = inputs[0] / "report" if len(inputs) == 1 and inputs[0].is_dir() else Path("report")
    with warnings_in_words():
        page = write_report(inputs, out, trust or ())
    say(str(page))
    if open and not webbrowser.open(page.resolve().as_uri()):
        hint("no browser could be opened: open that file yourself")


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
