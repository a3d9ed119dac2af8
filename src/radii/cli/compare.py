"""radii compare: runs side by side, with an exit code."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from radii.cli.app import print_error, printed_warnings, say_json, say_lines
from radii.cli.arguments import Json, Strings, Trust, parse_numbers
from radii.runs.run import Run
from radii.smoothing.norms import L2, NORMS


def compare(
    *runs: Annotated[Path, Parameter(json_list=False)],
    at_least: Strings = None,
    radii: str | None = None,
    sigma: float | None = None,
    json: Json = False,
    trust: Trust = None,
) -> None:
    """Compare certified runs: accuracy without noise, certified, attacked, and the cost of an answer.

    Exit code 0: the last run has what --at-least asks for. 1: it has not. 2: that is not known.

    Args:
        runs: Run directories with certificates; the last one is judged.
        at_least: SHARE@RADIUS, such as 0.5@0.25: half of the images have to be certified and right at radius 0.25.
            The radius is in l2; for another norm write it too, such as 0.5@0.25:l1.
        radii: The radii to show, such as 0,0.25,0.5; by default those that were tested.
        sigma: Compare certificates of this noise; by default of a noise that all runs have certificates for.
    """
    from radii.reports.compare import compare as compare_runs

    demands = [parse_at_least(text) for text in at_least or ()]
    shown = (*(() if radii is None else parse_numbers("--radii", radii)),)
    with printed_warnings():
        compared = compare_runs(*(Run(run, trust or ()) for run in runs), radii=shown, sigma=sigma)
        if json:
            say_json(compared.to_dict())
        else:
            say_lines(repr(compared))
    missed = 0
    for share, radius, norm in demands:
        judged = compared.runs[-1]
        if judged.norm != norm:
            raise ValueError(f"The radii of {judged.name} are in {judged.norm}, not in {norm}. Ask for that norm.")
        if not compared.reaches(share, radius):
            missed += 1
            value = compared.accuracy(radius)
            print_error(f"{judged.name}: {value:.4g} certified at radius {radius:g}, less than {share:g}")
    if demands:
        raise SystemExit(1 if missed else 0)


def parse_at_least(text: str) -> tuple[float, float, str]:
    """Parse SHARE@RADIUS or SHARE@RADIUS:NORM; the norm is l2 if it is not stated."""
    share, _, rest = text.partition("@")
    radius, colon, norm = rest.partition(":")
    try:
        demand = float(share), float(radius), norm if colon else L2.name
    except ValueError:
        demand = (-1.0, -1.0, "")
    if not (0 <= demand[0] <= 1 and 0 <= demand[1] < float("inf") and demand[2] in NORMS):
        raise ValueError(f"--at-least {text!r}: expected a share from 0 to 1 and a radius, such as 0.5@0.25.")
    return demand
