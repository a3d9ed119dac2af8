"""A recipe: everything that decides a trained model, as strict TOML."""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from radii.fields import build, check, option


class RecipeError(ValueError):
    """A recipe that cannot be used, with the sentence that says why."""


@dataclass(frozen=True, kw_only=True)
class Training:
    """The schedule: SGD with momentum, one learning rate an epoch or a step."""

    epochs: int = option(least=1)
    images_per_step: int = option(least=1)
    """Distinct images of one optimiser step; times the objective's copies, the inputs of one forward."""
    learning_rate: float = option(above=0)
    schedule: str = option("step", choices=("step", "multi_step", "cosine", "one_cycle"))
    """`step` decays every `decay_every` epochs, `multi_step` at `decay_at`, the others anneal over the whole run."""
    decay: float = option(0.1, above=0, most=1)
    decay_every: int = option(30, least=1)
    decay_at: tuple[int, ...] = ()
    momentum: float = option(0.9, least=0, below=1)
    weight_decay: float = option(1e-4, least=0)

    def __post_init__(self) -> None:
        object.__setattr__(self, "decay_at", tuple(self.decay_at))
        check(self, "training")
        if self.schedule == "multi_step" and not self.decay_at:
            raise ValueError("training: schedule = 'multi_step' needs decay_at, the epochs to decay at")


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Everything that decides a trained model."""

    dataset: str
    model: str
    sigma: float = option(above=0)
    """Deviation of the noise, pixels in [0, 1]."""
    seed: int = option(0, least=0)
    normalisation: str = option("full", choices=("full", "centre", "none"))
    """How the model's first layer standardises pixels: divide and centre, only centre, or not at all."""
    objective: Mapping[str, Any] = field(default_factory=lambda: {"name": "gaussian"})
    training: Training | None = None
    """None for a model that was trained elsewhere."""

    def __post_init__(self) -> None:
        check(self, "recipe")
        if "sigma" in self.objective:
            raise ValueError("recipe: sigma is stated once, at the top, not under [objective]")
        if not isinstance(self.objective, Mapping) or not isinstance(self.objective.get("name"), str):
            raise ValueError("recipe: [objective] needs a name, such as name = 'gaussian'")

    def to_toml(self) -> str:
        """The recipe as TOML that `parse` reads back to an equal recipe."""
        values = {key: value for key, value in asdict(self).items() if value is not None}
        tables = {key: value for key, value in values.items() if isinstance(value, Mapping)}
        lines = [f"{key} = {_toml(value)}" for key, value in values.items() if key not in tables]
        for name, table in tables.items():
            lines += ["", f"[{name}]", *(f"{key} = {_toml(value)}" for key, value in table.items())]
        return "\n".join(lines) + "\n"


def read(path: Path, settings: Sequence[str] = ()) -> Recipe:
    """Read a recipe file, with `key=value` settings laid over it."""
    try:
        text = path.read_text()
    except OSError as error:
        raise RecipeError(f"cannot read the recipe {path}: {error.strerror}; `radii list` names the recipes") from error
    return parse(text, str(path), settings)


def parse(text: str, where: str, settings: Sequence[str] = ()) -> Recipe:
    """Make a recipe from TOML; an unknown key is an error that says which was meant."""
    try:
        values = tomllib.loads(text)
        for setting in settings:
            _lay(values, setting)
        if "training" in values:
            values["training"] = build(Training, values["training"], "[training]")
        recipe: Recipe = build(Recipe, values, "the recipe")
    except tomllib.TOMLDecodeError as error:
        raise RecipeError(f"{where} is not TOML: {error}") from error
    except (ValueError, LookupError, TypeError) as error:
        raise RecipeError(f"{where}: {error.args[0]}") from error
    return recipe


def _lay(values: dict[str, Any], setting: str) -> None:
    key, equals, text = setting.partition("=")
    if not equals:
        raise ValueError(f"--set {setting!r}: expected key=value, such as training.epochs=30")
    *tables, name = key.strip().split(".")
    table = values
    for part in tables:
        table = table.setdefault(part, {})
        if not isinstance(table, dict):
            raise ValueError(f"--set {setting!r}: {part} is not a table")
    table[name] = parse_value(text)


def parse_value(text: str) -> Any:
    """A value as typed on the command line: TOML, or else a plain text."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text.strip()


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return repr(value)
