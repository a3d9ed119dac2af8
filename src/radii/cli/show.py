"""The command that tells what a run is, how it was made and what is certified; it imports no code of the run."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from radii import disk
from radii.cli.app import app, hint, say, say_json
from radii.cli.arguments import Json, command
from radii.reports import facts
from radii.reports.card import certified
from radii.reports.summary import Summary, down, in_words
from radii.runs import certificates, trust
from radii.runs import recipe as recipes
from radii.runs.certificates import Certificates
from radii.runs.run import Run

MOST_CLASSES = 12
"""Class names of a line."""


@app.command
def show(run: Path, /, *, json: Json = False) -> None:
    """Tell what a run is, how it was made and what is certified.

    Args:
        run: A run directory.
    """
    found = Run(run)
    if json:
        say_json(_as_data(found))
        return
    lines = list(_lines(found))
    say(str(run))
    for title, text in lines:
        say(f"  {title:<10} {text}")
    hint(f"next: {_next(found)}")


def _lines(run: Run) -> Iterator[tuple[str, str]]:
    recipe = run.stated_recipe()
    yield "model", _component(recipe.model)
    yield "dataset", _component(recipe.dataset)
    yield "noise", f"sigma {recipe.sigma:g}; normalisation {recipe.normalisation}"
    if names := run.class_names():
        shown = ", ".join(names[:MOST_CLASSES]) + (", ..." if len(names) > MOST_CLASSES else "")
        yield "classes", f"{len(names)}: {shown}"
    yield "made", _made(run, recipe)
    yield from ((key, f"{of['path']} ({of['hash'][:8]})") for key, of in run.origin().items())
    if recipe.training is not None:
        yield "training", _component({"name": recipe.training.optimizer, **asdict(recipe.training)}, ("optimizer",))
    if run.environment_file.is_file():
        yield "with", _environment(run.environment())
    if code := _unknown_code(recipe):
        yield "code", f"{', '.join(code)}: not run by this user before; commands that use it ask for --trust"
    yield from (("certified", _certified(run, made)) for made in _certificates(run))


def _component(table: Mapping[str, Any], without: tuple[str, ...] = ()) -> str:
    """A component with its fields."""
    fields = [
        f"{key} = {recipes.as_toml(value)}"
        for key, value in table.items()
        if key not in ("name", *without) and value is not None
    ]
    return f"{table['name']}: {', '.join(fields)}" if fields else str(table["name"])


def _made(run: Run, recipe: recipes.Recipe) -> str:
    if recipe.training is None:
        found = run.check()
        right = (
            f", {down(found['right'] / found['images'], 1, 2)} % of {found['images']} test images right"
            if found
            else ""
        )
        return f"imported{right} without noise" if right else "imported"
    rows, measured = run.history(), facts.epoch_time(run)
    state = "trained" if run.finished else "in training"
    took = f", {facts.duration(measured.total)}" if measured else ""
    accuracy = rows[-1].get("noisy_test_accuracy") if rows else None
    reached = "" if accuracy is None else f", noisy test accuracy {down(float(accuracy), 4)}"
    done = f"{state}: {len(rows)} of {recipe.training.epochs} epochs"
    return f"{done}{took}{reached}; {_component(recipe.objective)}"


def _environment(found: Mapping[str, Any]) -> str:
    versions = found.get("versions", {})
    named = [f"{name} {versions[name]}" for name in ("radii", "torch") if name in versions]
    return ", ".join([*named, f"device {found.get('device', '?')}", str(found.get("system", "?"))])


def _unknown_code(recipe: recipes.Recipe) -> list[str]:
    return [name for name in recipe.names() if (module := trust.module_of(name)) and not trust.is_known(module)]


def _certificates(run: Run) -> list[Certificates]:
    """The certificate files that have a row."""
    found = sorted(run.certificates.glob("*.tsv"))
    return [certificates.read(file) for file in found if len(certificates.first_lines(file)) > 1]


def _certified(run: Run, made: Certificates) -> str:
    old = run.finished and made.header.get("weights") not in (None, disk.digest(run.weights_file))
    other = " (of other weights than the present ones)" if old else ""
    engine = made.header.get("engine", "?")
    noise = "" if made.sigma in (None, run.stated_recipe().sigma) else f"; sigma {made.sigma:g}"
    return f"{in_words(Summary(made))}; {facts.choice(made)}; {facts.certifier(made)}{noise}; engine {engine}{other}"


def _next(run: Run) -> str:
    if not run.finished:
        return f"{command('train', 'RECIPE', run=run.path)} as before, to continue"
    return command("report" if _certificates(run) else "certify", run.path)


def _as_data(run: Run) -> dict[str, Any]:
    recipe, measured = run.stated_recipe(), facts.epoch_time(run)
    return {
        "run": str(run.path),
        "finished": run.finished,
        "recipe": asdict(recipe),
        "class_names": run.class_names(),
        "origin": run.origin(),
        "check": run.check(),
        "epochs": len(run.history()),
        "seconds": measured.total if measured else None,
        "environment": run.environment() if run.environment_file.is_file() else {},
        "certified": certified(run) if run.finished else [],
    }
