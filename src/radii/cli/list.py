"""radii list: list the registries' entries with their fields, and the shipped recipes."""

from collections.abc import Iterable, Mapping
from dataclasses import MISSING
from typing import Any

from radii import plugins
from radii.cli.app import answers, hint, say, say_json
from radii.cli.arguments import Json
from radii.fields import did_you_mean, settings_of
from radii.runs import recipe as recipes

FOLDERS = {
    "objectives": "objectives",
    "certifiers": "certifiers",
    "populations": "certifiers/population",
    "models": "models",
    "denoisers": "models/denoisers",
    "datasets": "datasets",
    "engines": "engines",
    "noises": "smoothing/noise",
}
"""The folder of each registry."""
FACTORIES = ("models", "denoisers")
"""Registries whose entries are functions."""
RECIPES = "recipes"


def list_(kind: str | None = None, name: str | None = None, /, *, json: Json = False) -> None:
    """List the objectives, certifiers, models, denoisers, datasets, engines, noises and recipes.

    Certifiers are about single images, populations about all pictures like those of a sample.

    Args:
        kind: List only these, such as models, with their fields and defaults.
        name: List only names that begin with this, such as mnist for recipes.
    """
    registries, beginning = (*FOLDERS, RECIPES), name or ""
    if kind is not None and kind not in registries:
        raise LookupError(f"there are no {kind!r} to list{did_you_mean(kind, registries)}")
    if json:
        say_json({registry: _as_data(registry, beginning) for registry in ([kind] if kind else registries)})
    elif kind is None:
        _print_all()
    elif kind == RECIPES:
        for recipe in _beginning_with(beginning, recipes.shipped(), kind):
            say(f"{recipe:<30} {_first_comment(recipe)}")
    else:
        texts = registry(kind)
        for entry in sorted(_beginning_with(beginning, texts, kind)):
            say(f"{entry:<18} {texts[entry]}")
            for field, default in fields_of(kind, entry).items():
                say(f"    {field} = {default}")


def registry(kind: str) -> dict[str, str]:
    """Return the names in a registry, with the first sentence about each."""
    if kind in FACTORIES:
        return {name: text for name, (_, text) in plugins.functions(FOLDERS[kind]).items()}
    return plugins.describe(FOLDERS[kind])


def fields_of(kind: str, name: str) -> dict[str, str]:
    """Return an entry's fields with their defaults, written as in a recipe."""
    from radii import models

    folder = FOLDERS[kind]
    if kind in FACTORIES:
        settings = models.settings(name, folder)
    else:
        settings = settings_of(plugins.find(folder, name, plugins.Component))
    return {
        setting.name: "stated by you" if setting.default is MISSING else recipes.as_toml(setting.default)
        for setting in settings
        if setting.name not in ("path", "sigma")
    }


def _print_all() -> None:
    for kind in FOLDERS:
        answers.print(f"[bold]{kind}[/bold]")
        for name, text in sorted(registry(kind).items()):
            say(f"  {name:<18} {text}")
    answers.print(f"[bold]{RECIPES}[/bold]")
    for shelf in sorted({name.partition("/")[0] for name in recipes.shipped()}):
        names = " ".join(name.partition("/")[2] for name in recipes.shipped() if name.startswith(f"{shelf}/"))
        say(f"  {shelf + '/':<18} {names}")
    hint("fields and their defaults: radii list models, and so on")


def _as_data(kind: str, beginning: str) -> Mapping[str, Any]:
    if kind == RECIPES:
        names = _beginning_with(beginning, recipes.shipped(), kind)
        return {name: {"text": _first_comment(name)} for name in names}
    texts = registry(kind)
    names = _beginning_with(beginning, texts, kind)
    return {name: {"text": texts[name], "fields": fields_of(kind, name)} for name in names}


def _beginning_with(beginning: str, names: Iterable[str], kind: str) -> list[str]:
    selected = [name for name in names if name.startswith(beginning)]
    if not selected:
        raise LookupError(f"there are no {kind} that begin with {beginning!r}{did_you_mean(beginning, names)}")
    return selected


def _first_comment(recipe: str) -> str:
    line = recipes.find(recipe).read_text().partition("\n")[0]
    return line.lstrip("# ") if line.startswith("#") else ""
