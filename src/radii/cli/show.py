"""radii show: describe a run, how it was trained and what is certified. It imports no code that the run names."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from radii.cli.app import say, say_json, say_lines, suggest
from radii.cli.arguments import Json, command
from radii.cli.train import accuracy_text
from radii.reports import population
from radii.reports.costs import answer_cost, check_in_words, milliseconds, noisy_in_words
from radii.reports.inputs import is_present
from radii.reports.metrics import Summary, epoch_time, in_words, without_noise
from radii.reports.model_card import certified
from radii.reports.protocol import describe_certifier, describe_images, describe_noise, evaluated_on, norm_name
from radii.reports.tables import Cell, Table, terminal
from radii.reports.text import UNKNOWN, down, duration, radius_text
from radii.runs import certificates, readers, trust
from radii.runs import recipe as recipes
from radii.runs.certificates import Certificates
from radii.runs.recipe import Recipe
from radii.runs.run import Run
from radii.smoothing.norms import L2

MOST_CLASSES = 12
"""The most class names to show."""


def show(run: Path, /, *, json: Json = False) -> None:
    """Show what a run is, how it was made and what is certified.

    Args:
        run: A run directory, or a folder of runs, which are listed.
    """
    shown = Run(run)
    if runs := [] if shown.recipe_file.exists() else _runs_in(run):
        _list_runs(runs, json)
        return
    if json:
        say_json(_as_data(shown))
        return
    certified_files = _certificates(shown)
    lines = list(_lines(shown, certified_files))
    say(str(run))
    for title, text in lines:
        say(f"  {title:<10} {text}")
    if shown.finished:
        suggest(f"next: {command('report', run) if certified_files else command('audit', run, minutes=3)}")
    elif shown.stated_recipe().training is None:
        suggest("next: the `radii import` that began it, to continue")
    else:
        suggest(f"next: {command('train', 'RECIPE', run=run)} as before, to continue")


def _runs_in(folder: Path) -> list[Run]:
    return [Run(file.parent) for depth in ("*", "*/*") for file in sorted(folder.glob(f"{depth}/recipe.toml"))]


def _list_runs(runs: Sequence[Run], json: bool) -> None:
    """Print a line for every run: its model, data, noise and state, and what is certified."""
    if json:
        say_json([_as_data(run) for run in runs])
        return
    head = ("run", "model", "dataset", "sigma", "made", "no noise", "certified")
    rows = [[Cell(text) for text in _row(run)] for run in runs]
    say_lines(terminal(Table(head, rows)))
    suggest(f"next: {command('show', runs[0].path)}")


def _row(run: Run) -> tuple[str, ...]:
    recipe = run.stated_recipe()
    share = without_noise(run)
    objective = recipe.objective["name"]
    training = objective if run.finished else f"{objective}, in training"
    plain = UNKNOWN if share is None else down(share.value, 1, 2)
    files = "; ".join(_brief(Summary(file)) for file in _certificates(run) if _is_own(run, file)) or UNKNOWN
    return str(run.path), recipe.model["name"], recipe.dataset["name"], f"{recipe.sigma:g}", training, plain, files


def _is_own(run: Run, file: Certificates) -> bool:
    """Return whether certificates can be of the run's present function and test images."""
    return not evaluated_on(file) and (not run.finished or "weights" not in file.header or is_present(run, file.header))


def _brief(summary: Summary) -> str:
    """Return the certified accuracy at the tested radii, or at 0 and sigma."""
    radii = summary.tested_radii or sorted({0.0, summary.certificates.sigma or 0.0})
    shares = ", ".join(f"{down(summary.at(radius).value, 1, 2)} % at {radius_text(radius)}" for radius in radii)
    norm = norm_name(summary.certificates)
    return shares if norm == L2.name else f"{shares} in {norm}"


def _certificates(run: Run) -> list[Certificates]:
    """Read the certificate files that have a row."""
    paths = sorted(run.certificates.glob("*.tsv"))
    return [certificates.read(path) for path in paths if certificates.has_rows(path)]


def _lines(run: Run, certified_files: list[Certificates]) -> Iterator[tuple[str, str]]:
    recipe = run.stated_recipe()
    yield "model", _component(recipe.model)
    yield "dataset", _component(recipe.dataset)
    yield "noise", f"sigma {recipe.sigma:g}"
    yield "normalised", _normalisation(run, recipe)
    if names := run.class_names():
        more = ", ..." if len(names) > MOST_CLASSES else ""
        yield "classes", f"{len(names)}: {', '.join(names[:MOST_CLASSES])}{more}"
    yield "made", _training(run, recipe)
    for key, source in run.origin().items():
        yield key, f"{source['path']} ({source['hash'][:8]})"
    if check := run.check():
        yield "right", check_in_words(check)
        if text := noisy_in_words(check):
            yield "", text
    if recipe.training is not None:
        yield "training", _component({"name": recipe.training.optimizer, **asdict(recipe.training)}, ("optimizer",))
    if run.environment_file.is_file():
        yield "with", _environment(run.environment())
    modules = {name: trust.module_of(name) for name in recipe.names()}
    if code := [name for name, module in modules.items() if module and not trust.is_known(module)]:
        yield "code", f"{', '.join(code)}: not run by this user before; commands that use it ask for --trust"
    for file in certified_files:
        yield "certified", _certified(run, file, recipe.sigma)
    for name, proof in population.of_runs([("", run)]):
        yield "one pass", " ".join([*filter(None, [name.strip()]), "; ".join(population.in_words(proof))])


def _normalisation(run: Run, recipe: Recipe) -> str:
    """Return how the first layer normalises pixels, with its constants."""
    constants = readers.normalisation(run.weights_file) if run.finished else None
    if not constants or not constants[0]:
        return recipe.normalisation
    mean, std = (", ".join(f"{value:g}" for value in values) for values in constants)
    return f"{recipe.normalisation}: mean {mean}; std {std}"


def _component(table: Mapping[str, Any], without: tuple[str, ...] = ()) -> str:
    fields = [
        f"{key} = {recipes.as_toml(value)}"
        for key, value in table.items()
        if key not in ("name", *without) and value is not None
    ]
    return f"{table['name']}: {', '.join(fields)}" if fields else str(table["name"])


def _training(run: Run, recipe: Recipe) -> str:
    """Describe how a run was made: imported or trained, for how long and how well."""
    if recipe.training is None:
        return "imported"
    time = epoch_time(run)
    state = "trained" if run.finished else "in training"
    length = f"{recipe.training.epochs:g}"
    epochs = f"{length if run.finished else len(run.history())} of {length} epochs"
    took = f", {duration(time.total)}" if time else ""
    return f"{state}: {epochs}{took}{accuracy_text(run)}; {_component(recipe.objective)}"


def _environment(environment: Mapping[str, Any]) -> str:
    versions = environment.get("versions", {})
    packages = [f"{name} {versions[name]}" for name in ("radii", "torch") if name in versions]
    return ", ".join([*packages, f"device {environment.get('device', '?')}", str(environment.get("system", "?"))])


def _certified(run: Run, file: Certificates, sigma: float) -> str:
    """Return a certificate file as one line, which says if it is about another function than the run is now."""
    is_old = run.finished and "weights" in file.header and not is_present(run, file.header)
    other = " (of other weights or another model than the present ones)" if is_old else ""
    engine = file.header.get("engine", "?")
    usual = file.noise.get("name") == "gaussian" and file.sigma in (None, sigma)
    noise = "" if usual else f"; noise {describe_noise(file)}"
    how = f"{describe_images(file)}; {describe_certifier(file)}{noise}; engine {engine}{other}"
    cost = answer_cost(Summary(file))
    answer = f"; an answer: {cost}, {milliseconds(cost.milliseconds / cost.copies)} each" if cost else ""
    return f"{in_words(Summary(file))}; {how}{answer}"


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
        "proven": population.proven(run) if run.finished else [],
    }
