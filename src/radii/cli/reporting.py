"""Commands that show what there is: report, list, demo."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from radii import plugins
from radii.cli.app import app, console
from radii.cli.arguments import Trust
from radii.cli.notices import warnings_in_words
from radii.experiment import recipe as recipes
from radii.experiment.run import Run
from radii.report.text import plain


@app.command
def report(*inputs: Annotated[Path, Parameter(json_list=False)], out: Path | None = None, trust: Trust = None) -> None:
    """Write tables and curves of runs or certificate files: Markdown, CSV, LaTeX, SVG, PNG and one HTML page.

    Args:
        inputs: Run directories, certificate files in Cohen's format, from any tool, or folders of such files, one for each
            kind of corruption.
        out: The folder to write to; by default RUN/report for one run, ./report otherwise.
    """
    from radii.report import report as write_report

    if not inputs:
        raise ValueError("nothing to report: name runs or certificate files")
    if out is None:
        own = len(inputs) == 1 and Run(inputs[0]).recipe_file.is_file()
        out = inputs[0] / "report" if own else Path("report")
    with warnings_in_words():
        page = write_report(inputs, out, trust or ())
    console.print(plain(str(page)), soft_wrap=True, markup=False, emoji=False)


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
