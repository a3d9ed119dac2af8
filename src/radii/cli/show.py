"""radii show: tell what a run is, how it was made and what is certified. It imports no code that the run names."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from radii.cli.app import app, hint, say, say_json
from radii.cli.arguments import Json, command
from radii.cli.train import accuracy_text
from radii.reports.metrics import Summary, epoch_time, in_words
from radii.reports.model_card import certified
from radii.reports.protocol import describe_certifier, describe_images, describe_noise
from radii.reports.text import duration, import_check
from radii.runs import certificates, trust
from radii.runs import recipe as recipes
from radii.runs.certificates import Certificates
from radii.runs.recipe import Recipe
from radii.runs.run import Run

MOST_CLASSES = 12
"""The most class names to show."""


@app.command
def show(run: Path, /, *, json: Json = False) -> None:
    """Show what a run is, how it was made and what is certified.

    Args:
        run: A run directory.
    """
    shown = Run(run)
    if json:
        say_json(_as_data(shown))
        return
    certified_files = _certificates(shown)
    lines = list(_lines(shown, certified_files))
    say(str(run))
    for title, text in lines:
        say(f"  {title:<10} {text}")
    if shown.finished:
        hint(f"next: {command('report' if certified_files else 'certify', run)}")
    else:
        hint(f"next: {command('train', 'RECIPE', run=run)} as before, to continue")


def _certificates(run: Run) -> list[Certificates]:
    """Read the certificate files that have a row."""
    paths = sorted(run.certificates.glob("*.tsv"))
    return [certificates.read(path) for path in paths if certificates.has_rows(path)]


def _lines(run: Run, certified_files: list[Certificates]) -> Iterator[tuple[str, str]]:
    recipe = run.stated_recipe()
    yield "model", _component(recipe.model)
    yield "dataset", _component(recipe.dataset)
    yield "noise", f"sigma {recipe.sigma:g}; normalisation {recipe.normalisation}"
    if names := run.class_names():
        more = ", ..." if len(names) > MOST_CLASSES else ""
        yield "classes", f"{len(names)}: {', '.join(names[:MOST_CLASSES])}{more}"
    yield "made", _made(run, recipe)
    for key, source in run.origin().items():
        yield key, f"{source['path']} ({source['hash'][:8]})"
    if recipe.training is not None:
        yield "training", _component({"name": recipe.training.optimizer, **asdict(recipe.training)}, ("optimizer",))
    if run.environment_file.is_file():
        yield "with", _environment(run.environment())
    if code := [name for name in recipe.names() if _is_unknown_code(name)]:
        yield "code", f"{', '.join(code)}: not run by this user before; commands that use it ask for --trust"
    weights = run.weights_digest() if run.finished and certified_files else None
    for file in certified_files:
        yield "certified", _certified(file, recipe.sigma, weights)


def _component(table: Mapping[str, Any], without: tuple[str, ...] = ()) -> str:
    """Return a component's name and fields as text."""
    fields = [
        f"{key} = {recipes.as_toml(value)}"
        for key, value in table.items()
        if key not in ("name", *without) and value is not None
    ]
    return f"{table['name']}: {', '.join(fields)}" if fields else str(table["name"])


def _made(run: Run, recipe: Recipe) -> str:
    """Return how a run was made: imported or trained, for how long and how well."""
    if recipe.training is None:
        check = run.check()
        return f"imported, {import_check(check)}" if check else "imported"
    time = epoch_time(run)
    state = "trained" if run.finished else "in training"
    epochs = f"{len(run.history())} of {recipe.training.epochs} epochs"
    took = f", {duration(time.total)}" if time else ""
    return f"{state}: {epochs}{took}{accuracy_text(run)}; {_component(recipe.objective)}"


def _environment(environment: Mapping[str, Any]) -> str:
    versions = environment.get("versions", {})
    packages = [f"{name} {versions[name]}" for name in ("radii", "torch") if name in versions]
    return ", ".join([*packages, f"device {environment.get('device', '?')}", str(environment.get("system", "?"))])


def _is_unknown_code(name: str) -> bool:
    """Whether a component's name is module:name, and the user has not run this module yet."""
    module = trust.module_of(name)
    return bool(module) and not trust.is_known(module)


def _certified(file: Certificates, sigma: float, weights: str | None) -> str:
    """Return a certificate file as one line; `weights` is the digest of the run's present weights."""
    is_old = weights is not None and file.header.get("weights") not in (None, weights)
    other = " (of other weights than the present ones)" if is_old else ""
    engine = file.header.get("engine", "?")
    usual = file.noise.get("name") == "gaussian" and file.sigma in (None, sigma)
    noise = "" if usual else f"; noise {describe_noise(file)}"
    how = f"{describe_images(file)}; {describe_certifier(file)}{noise}; engine {engine}{other}"
    return f"{in_words(Summary(file))}; {how}"


def _as_data(run: Run) -> dict[str, Any]:
    time = epoch_time(run)
    return {
        "run": str(run.path),
        "finished": run.finished,
        "recipe": asdict(run.stated_recipe()),
        "class_names": run.class_names(),
        "origin": run.origin(),
        "check": run.check(),
        "epochs": len(run.history()),
        "seconds": time.total if time else None,
        "environment": run.environment() if run.environment_file.is_file() else {},
        "certified": certified(run) if run.finished else [],
    }
