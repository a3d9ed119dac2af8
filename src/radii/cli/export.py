"""radii export: write a run's base classifier for other tools."""

from pathlib import Path

from radii.cli.app import app, say
from radii.cli.arguments import Trust
from radii.runs.run import Run


@app.command
def export(run: Path, file: Path, /, *, trust: Trust = None) -> None:
    """Write a run's base classifier as ONNX, checked against torch, and a card of its certificates as JSON.

    Args:
        run: A trained run directory.
        file: The file to write, such as tuned.onnx; its card is then tuned.onnx.json.
    """
    from radii.interop.export import card_file
    from radii.interop.export import export as export_run

    written = export_run(Run(run, trust or ()), file)
    say(f"{written}: checked against torch; its card is {card_file(written)}")
