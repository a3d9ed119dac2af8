"""radii audit: certify and attack a run within some minutes."""

from dataclasses import replace
from pathlib import Path

from radii.cli.app import say_lines, suggest
from radii.cli.arguments import Data, Strings, Trust, check_minutes, command
from radii.cli.plan import PlannedCommand, planned, run_plan, show_plan
from radii.reports.compare import Comparison, compare
from radii.reports.costs import LOST, WITHOUT_NOISE, never_saw_noise
from radii.reports.tables import terminal
from radii.runs.recipe import Recipe
from radii.runs.run import Run

MOST_SAMPLES = "most_samples=10000"
"""A tenth of the usual: radii up to 3.2 sigma can be certified, and hard images cost less."""
CERTIFYING, ATTACKING = 0.55, 0.25
"""The shares of the minutes; starting and the page take the rest."""
LOW_SIGMA = 0.12
"""The sigma for a model that was not trained with noise."""


def audit(run: Path, /, *, minutes: float = 3.0, sigma: Strings = None, data: Data = None, trust: Trust = None) -> None:
    """Certify and attack test images of a run within some minutes, and write its page. The same command continues.

    A plan over `radii certify`, `radii attack` and `radii report`, which it prints first: type them yourself to change
    them.

    Args:
        run: A run directory, trained or imported.
        minutes: About how long it may take.
        sigma: The sigma of the noise, once for each to try; by default the run's, and a smaller one.
    """
    check_minutes(minutes, ())
    trained = Run(run, trust or ())
    sigmas = [float(text) for text in sigma or ()] or sensible_sigmas(trained.recipe)
    commands = [*_commands(trained, sigmas, minutes, data, trust)]
    show_plan(f"To audit {run}", commands)
    run_plan(commands)
    compared = _compare_sigmas(trained, sigmas)
    say_lines(terminal(compared.table()))
    if never_saw_noise(trained, sigmas[-1]) or _loses_most(compared):
        given = {"minutes": 60, "data": data, "trust": trust}
        suggest(f"next, in 1 h: {command('harden', run, sigma=f'{sigmas[-1]:g}', **given)}")
    else:
        suggest(f"next: {command('certify', run, with_='sequential', every=20, data=data, trust=trust)}")


def sensible_sigmas(recipe: Recipe) -> list[float]:
    """Return the sigmas to audit, rising: the recipe's, and a smaller one."""
    low = LOW_SIGMA if recipe.objective["name"] in WITHOUT_NOISE else recipe.sigma / 2
    return sorted({min(low, recipe.sigma), recipe.sigma})


def certify_command(
    run: Path, sigma: float, minutes: float, purpose: str, every: int | None, data: Path | None, trust: Strings
) -> PlannedCommand:
    """Return the command that certifies a run for a plan: every nth image, or those that fit the minutes."""
    return planned(
        purpose,
        minutes,
        "certify",
        run,
        sigma=sigma,
        with_="sequential",
        set=MOST_SAMPLES,
        every=every,
        minutes=None if every else round(minutes, 2),
        data=data,
        trust=trust,
    )


def attack_command(
    run: Path, sigma: float, minutes: float, purpose: str, data: Path | None, trust: Strings
) -> PlannedCommand:
    """Return the command that attacks a run for a plan: weaker than usual, on as many images as fit the minutes."""
    budget = {"steps": 10, "copies": 8, "samples": 500}
    radii = f"{sigma:g},{2 * sigma:g}"
    limit = round(minutes, 2)
    return planned(
        purpose, minutes, "attack", run, sigma=sigma, radii=radii, **budget, minutes=limit, data=data, trust=trust
    )


def has_gradients(recipe: Recipe) -> bool:
    """Return whether a model can be attacked and fine-tuned: an ONNX graph cannot."""
    return "onnx" not in recipe.names()


def _commands(
    run: Run, sigmas: list[float], minutes: float, data: Path | None, trust: Strings
) -> "list[PlannedCommand]":
    share = CERTIFYING * minutes / len(sigmas)
    commands = [
        certify_command(run.path, sigma, share, f"what is certified at sigma {sigma:g}", None, data, trust)
        for sigma in sigmas
    ]
    if has_gradients(run.recipe):
        budget = ATTACKING * minutes
        purpose = "what an attack leaves: above it no certificate can be"
        commands.append(attack_command(run.path, sigmas[-1], budget, purpose, data, trust))
    return [*commands, planned("the page", 0.1, "report", run.path, trust=trust)]


def _loses_most(compared: Comparison) -> bool:
    """Return whether few of the answers that are right without noise are certified at the largest sigma, as a radius.

    Only for a run that was made elsewhere or trained without noise: another has been hardened already.
    """
    run = compared.runs[-1]
    sigma, plain = run.summary.certificates.sigma, run.without_noise
    if run.run.stated_recipe().objective["name"] not in WITHOUT_NOISE or sigma is None or plain is None:
        return False
    return run.certified(sigma).value < LOST * plain.value


def _compare_sigmas(run: Run, sigmas: list[float]) -> Comparison:
    comparisons = [compare(run, sigma=sigma) for sigma in sigmas]
    radii = sorted({radius for comparison in comparisons for radius in comparison.radii})
    return replace(comparisons[0], runs=[comparison.runs[0] for comparison in comparisons], radii=radii)
