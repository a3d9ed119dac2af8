"""What a person types, as the objects that it names."""

from pathlib import Path
from typing import Any

from radii import plugins
from radii.experiment import recipe as recipes
from radii.experiment.run import Run


def transfer_recipe(teacher: Run) -> Path:
    """The shipped transfer recipe of the teacher's dataset and sigma."""
    theirs = teacher.recipe
    for path in sorted(plugins.recipes_folder().rglob("transfer-*.toml")):
        offered = recipes.read(path)
        if (offered.dataset, offered.sigma) == (theirs.dataset, theirs.sigma):
            return path
    raise LookupError(
        f"there is no transfer recipe for {theirs.dataset} at sigma {theirs.sigma:g}: name another with --recipe "
        f"and lay these over it, --set dataset={theirs.dataset} --set sigma={theirs.sigma:g}"
    )


def recipe_path(named: Path) -> Path:
    """A recipe named by its file, or by its name in the list."""
    listed = plugins.recipes_folder() / named.with_name(named.name.removesuffix(".toml") + ".toml")
    return named if named.is_file() or not listed.is_file() else listed


def parse_settings(settings: list[str]) -> dict[str, Any]:
    """KEY=VALUE pairs as a procedure's fields."""
    fields = {}
    for setting in settings:
        key, equals, text = setting.partition("=")
        if not equals:
            raise ValueError(f"--set {setting!r}: expected key=value, such as estimation=10000")
        fields[key.strip()] = recipes.parse_value(text)
    return fields


def parse_radii(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError as error:
        raise ValueError(f"--radii {text!r}: expected numbers with commas between, such as 0,0.25,0.5") from error
