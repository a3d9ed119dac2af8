"""The command that lists what there is: the entries of the registries with their fields, and the recipes."""

from collections.abc import Iterable, Mapping
from dataclasses import MISSING
from typing import Any

from radii import plugins
from radii.cli.app import answers, app, hint, say, say_json
from radii.cli.arguments import Json
from radii.fields import did_you_mean, settings_of
from radii.runs import recipe as recipes

FOLDERS = {
    "objectives": "objectives",
    "certifiers": "certifiers",
    "models": "models",
    "denoisers": "models/denoisers",
    "datasets": "datasets",
    "engines": "engines",
    "noises": "smoothing/noise",
}
FACTORIES = ("models", "denoisers")
"""Registries whose entries are functions."""
RECIPES = "recipes"


@app.command(name="list")
def list_(kind: str | None = None, name: str | None = None, /, *, json: Json = False) -> None:
    """List the objectives, certifiers, models, denoisers, datasets, engines, noises and recipes; one kind with fields.

    Args:
        kind: One of them, such as models: each entry with its fields and their defaults.
        name: Only entries whose name begins so, such as mnist of the recipes.
    """
    if kind is not None and kind not in (*FOLDERS, RECIPES):
        raise LookupError(f"there are no {kind!r} to list{did_you_mean(kind, (*FOLDERS, RECIPES))}")
    if json:
        say_json({each: _as_data(each, name or "") for each in ([kind] if kind else (*FOLDERS, RECIPES))})
    elif kind is None:
        _print_all()
    elif kind == RECIPES:
        _print_recipes(_begun(recipes.shipped(), name or "", kind))
    else:
        _print_kind(kind, name or "")


def registries() -> dict[str, dict[str, str]]:
    """The entries of every registry with one sentence each."""
    return {kind: _entries(kind) for kind in FOLDERS}


def _entries(kind: str) -> dict[str, str]:
    if kind in FACTORIES:
        return {name: text for name, (_, text) in plugins.functions(FOLDERS[kind]).items()}
    return plugins.describe(FOLDERS[kind])


def _print_all() -> None:
    for title, entries in registries().items():
        answers.print(f"[bold]{title}[/bold]")
        for name, text in sorted(entries.items()):
            say(f"  {name:<18} {text}")
    answers.print(f"[bold]{RECIPES}[/bold]")
    for shelf in sorted({name.partition("/")[0] for name in recipes.shipped()}):
        named = " ".join(name.partition("/")[2] for name in recipes.shipped() if name.startswith(f"{shelf}/"))
        say(f"  {shelf + '/':<18} {named}")
    hint("fields and their defaults: radii list models, and so on")


def _print_kind(kind: str, beginning: str) -> None:
    entries = _entries(kind)
    for name in sorted(_begun(entries, beginning, kind)):
        say(f"{name:<18} {entries[name]}")
        for field, default in fields_of(kind, name).items():
            say(f"    {field} = {default}")


def _print_recipes(names: list[str]) -> None:
    for name in names:
        say(f"{name:<30} {_first_line(name)}")


def _begun(names: Iterable[str], beginning: str, kind: str) -> list[str]:
    found = [name for name in names if name.startswith(beginning)]
    if not found:
        raise LookupError(f"there are no {kind} that begin with {beginning!r}{did_you_mean(beginning, names)}")
    return found


def _first_line(recipe: str) -> str:
    """The comment that a recipe begins with."""
    line = recipes.find(recipe).read_text().partition("\n")[0]
    return line.lstrip("# ") if line.startswith("#") else ""


def _as_data(kind: str, beginning: str) -> Mapping[str, Any]:
    if kind == RECIPES:
        return {name: {"text": _first_line(name)} for name in _begun(recipes.shipped(), beginning, kind)}
    entries = _entries(kind)
    return {name: {"text": entries[name], "fields": fields_of(kind, name)} for name in _begun(entries, beginning, kind)}


def fields_of(kind: str, name: str) -> dict[str, str]:
    """The fields of an entry, each with its default as a recipe would state it, or what has to be stated."""
    from radii import models

    folder = FOLDERS[kind]
    if kind in FACTORIES:
        settings = models.settings(name, folder)
    else:
        settings = settings_of(plugins.find(folder, name, plugins.Component))
    return {
        each.name: "stated by you" if each.default is MISSING else recipes.as_toml(each.default)
        for each in settings
        if each.name not in ("path", "sigma")
    }
