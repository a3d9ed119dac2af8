"""A recipe: everything that determines a trained model, as strict TOML."""

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from radii.fields import check, did_you_mean, from_mapping, option
from radii.runs import readers

MOST_BYTES = 1 << 20
MOST_INTEGER = (1 << 63) - 1
"""TOML's."""
PACKAGE = Path(__file__).parents[1]

Spec = Any
"""A name, or a table of a name and fields; a recipe holds the table."""


class RecipeError(ValueError):
    """A recipe that cannot be used; the message says why."""


@dataclass(frozen=True, kw_only=True)
class Training:
    """The optimizer and its schedule: one learning rate per epoch or per step."""

    epochs: int = option(ge=1)
    images_per_step: int = option(ge=1)
    """Distinct images per optimizer step; multiplied by the objective's copies, the inputs of one forward pass."""
    learning_rate: float = option(gt=0)
    optimizer: str = option("sgd", choices=("sgd", "adamw"))
    momentum: float = option(0.9, ge=0, lt=1)
    """The momentum of SGD; the first beta of AdamW."""
    nesterov: bool = False
    """Only for SGD."""
    weight_decay: float = option(1e-4, ge=0)
    schedule: str = option("step", choices=("step", "multi_step", "cosine", "one_cycle"))
    """`step` decays every `decay_every` epochs, `multi_step` at `decay_at`, the others anneal over the whole run."""
    decay: float = option(0.1, gt=0, le=1)
    decay_every: int = option(30, ge=1)
    decay_at: tuple[int, ...] = ()
    warmup_epochs: int = option(0, ge=0)
    """The learning rate rises linearly over these first epochs, step by step."""
    initial: str | None = None
    """The run, or the safetensors file, whose weights training starts from: fine-tuning."""
    precision: str = option("float32", choices=("float32", "bfloat16"))
    """Of the forward and backward passes of training; weights, evaluation and certification are in float32."""
    batch_norm: str = option("local", choices=("local", "synchronised"))
    """In several processes: statistics of each one's images, or of all images of a step."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "decay_at", tuple(self.decay_at))
        check(self, "training")
        if self.schedule == "multi_step" and not self.decay_at:
            raise ValueError("training: schedule = 'multi_step' needs decay_at, the epochs to decay at")
        if self.warmup_epochs > self.epochs:
            raise ValueError(
                f"training: warmup_epochs = {self.warmup_epochs}, expected at most the {self.epochs} epochs"
            )
        if self.nesterov and (self.optimizer != "sgd" or not self.momentum):
            raise ValueError("training: nesterov needs optimizer = 'sgd' and a momentum > 0")

    @property
    def decays(self) -> tuple[int, ...]:
        """The epochs at which the learning rate falls; none where it is annealed."""
        steps = {"step": range(self.decay_every, self.epochs, self.decay_every), "multi_step": self.decay_at}
        return tuple(epoch for epoch in steps.get(self.schedule, ()) if epoch < self.epochs)


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Everything that determines a trained model."""

    dataset: Spec
    model: Spec
    sigma: float = option(gt=0)
    """Standard deviation of the noise, pixels in [0, 1]."""
    seed: int = option(0, ge=0)
    normalisation: str = option("full", choices=("full", "centre", "none"))
    """How the model's first layer normalises pixels: centre and divide, only centre, or not at all."""
    objective: Spec = "gaussian"
    training: Training | None = None
    """None for a model that was trained elsewhere."""

    def __post_init__(self) -> None:
        check(self, "recipe")
        if isinstance(self.objective, Mapping) and "sigma" in self.objective:
            raise ValueError("recipe: sigma is stated once, at the top, not under [objective]")
        for kind in ("dataset", "model", "objective"):
            object.__setattr__(self, kind, named_table(getattr(self, kind), kind))

    def names(self) -> list[str]:
        """The names of the components; `module:name` is user-defined code."""
        return [self.dataset["name"], *_names(self.model), self.objective["name"]]

    def to_toml(self) -> str:
        """The recipe as TOML that `parse` reads back to an equal recipe."""
        values = {key: value for key, value in asdict(self).items() if value is not None}
        tables = {key: values.pop(key) for key in ("objective", "training") if key in values}
        lines = [f"{key} = {_toml(_short(value))}" for key, value in values.items()]
        for name, table in tables.items():
            stated = {key: value for key, value in table.items() if value is not None}
            lines += ["", f"[{name}]", *(f"{key} = {_toml(value)}" for key, value in stated.items())]
        return "\n".join(lines) + "\n"


def named_table(spec: Spec, kind: str) -> dict[str, Any]:
    """A component's table from its short form: "cifar10" is { name = "cifar10" }."""
    table = {"name": spec} if isinstance(spec, str) else spec
    if not isinstance(table, Mapping) or not isinstance(table.get("name"), str):
        raise ValueError(f"recipe: {kind} needs a name, such as {kind} = 'NAME' or {kind} = {{ name = 'NAME' }}")
    return {key: _plain(value) for key, value in table.items()}


def _plain(value: Any) -> Any:
    """A value as a recipe holds it, whether it was read from a file or not: lists are tuples, however deep."""
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    return tuple(map(_plain, value)) if isinstance(value, list | tuple) else value


def _names(value: Any) -> list[str]:
    """The names in a table and in the tables inside it: the parts of a model."""
    if isinstance(value, Mapping):
        own = [name] if isinstance(name := value.get("name"), str) else []
        return own + _names(tuple(value.values()))
    return [name for each in value for name in _names(each)] if isinstance(value, tuple) else []


def fields_of(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a component's table, without its name."""
    return {key: value for key, value in spec.items() if key != "name"}


def read(path: Path, settings: Sequence[str] = ()) -> Recipe:
    """Read a recipe file, overridden by `key=value` settings."""
    try:
        text = readers.text(path, MOST_BYTES)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise RecipeError(f"cannot read the recipe {path}: {reason}; `radii list` names the recipes") from error
    return parse(text, str(path), settings)


def parse(text: str, where: str, settings: Sequence[str] = ()) -> Recipe:
    """Make a recipe from TOML; an unknown key is an error that suggests the nearest known one."""
    try:
        values = _toml_table(text)
    except tomllib.TOMLDecodeError as error:
        raise RecipeError(f"{where} is not TOML: {readers.short(error)}") from error
    except (ValueError, OverflowError) as error:
        raise RecipeError(f"{where}: {readers.short(error, 1000)}") from error
    return _from_table(values, where, settings)


def with_settings(recipe: Recipe, where: str, settings: Sequence[str]) -> Recipe:
    """Apply `key=value` settings to a recipe; `where` names it in errors."""
    return _from_table({key: value for key, value in asdict(recipe).items() if value is not None}, where, settings)


def _from_table(values: dict[str, Any], where: str, settings: Sequence[str]) -> Recipe:
    try:
        values = override(values, settings)
        if "training" in values:
            _expect_table(values["training"])
            values["training"] = from_mapping(Training, values["training"], "[training]")
        recipe: Recipe = from_mapping(Recipe, values, "the recipe")
    except (ValueError, LookupError, TypeError, OverflowError) as error:
        reason = readers.short(error.args[0], 1000) if error.args else type(error).__name__
        raise RecipeError(f"{where}: {reason}") from error
    return recipe


def _expect_table(training: Any) -> None:
    if not isinstance(training, Mapping):
        raise ValueError(f"training = {training!r}, expected a table, such as [training] with epochs = 30 below it")


def _toml_table(text: str) -> dict[str, Any]:
    """The table of a TOML text; nesting beyond Python's and whole numbers beyond 64 bits are refused."""
    try:
        found = tomllib.loads(text)
        _expect_integers_of_64_bits(found)
    except RecursionError as error:
        raise ValueError("its tables or lists nest too deeply") from error
    return found


def _expect_integers_of_64_bits(value: Any) -> None:
    if isinstance(value, int) and abs(value) > MOST_INTEGER:
        raise ValueError(f"it has a whole number of {len(str(abs(value)))} digits, expected one of 64 bits")
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _expect_integers_of_64_bits(inner)


def shipped_folder() -> Path:
    """The folder of the shipped recipes: inside an installed package, or beside the source."""
    inside = PACKAGE / "recipes"
    return inside if inside.is_dir() else PACKAGE.parents[1] / "recipes"


def shipped() -> list[str]:
    """The names of the shipped recipes, such as mnist/gaussian-0.25."""
    folder = shipped_folder()
    return sorted(path.relative_to(folder).with_suffix("").as_posix() for path in folder.rglob("*.toml"))


def find(name: Path | str) -> Path:
    """A recipe file by its path, or by the name of a shipped one."""
    path = Path(name)
    if not path.name:
        raise RecipeError(f"there is no recipe {str(name)!r}: name a file, or one that `radii list` shows")
    listed = shipped_folder() / path.with_name(path.name.removesuffix(".toml") + ".toml")
    if path.is_file() or (path.suffix == ".toml" and not listed.is_file()):
        return path
    if not listed.is_file():
        raise RecipeError(f"there is no recipe {str(name)!r}{did_you_mean(path.as_posix(), shipped())}")
    return listed


def override(values: dict[str, Any], settings: Sequence[str]) -> dict[str, Any]:
    """The values overridden by `key=value` settings; a dotted key sets a field of a table."""
    for setting in settings:
        key, equals, text = setting.partition("=")
        if not equals:
            raise ValueError(f"{setting!r} is not a setting, expected key=value, such as training.epochs=30")
        *tables, name = key.strip().split(".")
        _table(values, tables, setting)[name] = parse_value(text)
    return values


def _table(values: dict[str, Any], path: Sequence[str], setting: str) -> dict[str, Any]:
    for part in path:
        found = values.setdefault(part, {})
        if isinstance(found, str) and part in ("dataset", "model", "objective"):
            # The short form of a component: its fields can be set as well.
            found = values[part] = {"name": found}
        if not isinstance(found, dict):
            raise ValueError(f"{setting!r}: {part} is not a table")
        values = found
    return values


def parse_value(text: str) -> Any:
    """A value as typed on the command line: TOML, or otherwise a plain string."""
    try:
        return _toml_table(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text.strip()


def as_toml(value: Any) -> str:
    """A value as a recipe states it; none where it is left to the entry."""
    return "none" if value is None else _toml(value)


def _short(value: Any) -> Any:
    return value["name"] if isinstance(value, Mapping) and set(value) == {"name"} else value


def _toml_key(key: str) -> str:
    return key if key.isascii() and key.replace("-", "_").isidentifier() else _toml(key)


def _toml(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_toml_key(key)} = {_toml(each)}" for key, each in value.items()) + " }"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        # JSON's escapes are all TOML's too; DEL is the one that TOML alone wants.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007F")
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return repr(value)
