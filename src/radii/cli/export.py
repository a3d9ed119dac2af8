"""radii export: write a run's base classifier for other tools."""

from pathlib import Path

from radii.cli.app import say
from radii.cli.arguments import Switch, Trust
from radii.runs.run import Run


def export(run: Path, file: Path, /, *, one_pass: Switch = False, trust: Trust = None) -> None:
    """Write a run's base classifier as ONNX, checked against torch, and a card of its certificates as JSON.

    Args:
        run: A trained run directory.
        file: The file to write, such as tuned.onnx; its card is then tuned.onnx.json.
        one_pass: Put the noise into the graph, fresh in every call: a call answers a request by one noisy pass.
    """
    from radii.interop.export import export as export_run
    from radii.onnx_graph import description_file

    written = export_run(Run(run, trust or ()), file, one_pass=one_pass)
    say(f"{written}: checked against torch; its card is {description_file(written)}")
