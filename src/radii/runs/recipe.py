"""Recipes: read, check, change and write the TOML files that determine a trained model."""

import hashlib
import json
import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from radii.fields import ALSO, check, did_you_mean, from_mapping, option
from radii.runs import readers

MOST_BYTES = 1 << 20
MOST_INTEGER = (1 << 63) - 1
"""The largest whole number in TOML."""
PACKAGE = Path(__file__).parents[1]

SYNONYMS = {"batch_size": "images_per_step"}
"""Names that other tools use for fields of [training]."""
LENGTHS = {"epochs": "steps", "steps": "epochs"}
"""The two ways to state the length of a training: a setting of one replaces the other."""
WITHOUT_NESTEROV = (("training.optimizer", "adamw"), ("training.optimizer", "muon"), ("training.momentum", 0))
"""Settings that rule out Nesterov momentum."""

Spec = Any
"""A name, or a table of a name and fields; a recipe holds the table."""


class RecipeError(ValueError):
    """A recipe that cannot be used; the message says why."""


@dataclass(frozen=True, kw_only=True)
class Training:
    """The optimizer and its schedule: one learning rate per epoch or per step."""

    epochs: float = option(0, ge=0)
    """Passes over the training images; the last may be a part of one."""
    steps: int | None = option(None, ge=1)
    """Optimizer steps, instead of epochs; a run records them where its epochs are not whole."""
    images_per_step: int = option(ge=1)
    """Distinct images per optimizer step; multiplied by the objective's copies, the inputs of one forward pass."""
    learning_rate: float = option(gt=0)
    optimizer: str = option("sgd", choices=("sgd", "adamw", "muon"))
    """`muon` makes the updates of the matrices inside the network orthogonal, and trains the rest by SGD at five times
    the learning rate; 0.02 is a good one."""
    momentum: float = option(0.9, ge=0, lt=1)
    """The momentum of SGD and Muon; the first beta of AdamW."""
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
    precision: str = option("float32", choices=("float32", "tf32", "bfloat16", "float16"))
    """Precision of training's forward and backward passes. Weights, evaluation and certification use float32.

    `float32` multiplies as torch is set to, `tf32` with 10 bits on NVIDIA's GPUs, which alone have it; `float16` scales
    the loss, so that gradients stay inside its range."""
    compile: bool = False
    """Run the model by torch.compile: the first steps take minutes, the others less time."""
    batch_norm: str = option("local", choices=("local", "synchronised"))
    """With several processes: statistics of each process's images, or of all images of a step."""
    stream: str | None = option(None, choices=("philox",))
    """`philox` draws noise, augmentation and order from the streams of certification, by the place of an image in the
    epoch: the same for any number of processes, images per step and device. By default they come from torch's
    generators, as in older runs."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "decay_at", tuple(self.decay_at))
        check(self, "training")
        if float(self.epochs).is_integer():
            object.__setattr__(self, "epochs", int(self.epochs))
        if not self.epochs and self.steps is None:
            raise ValueError("training: epochs = 0, expected a number > 0: state the epochs, or the steps")
        if self.schedule == "multi_step" and not self.decay_at:
            raise ValueError("training: schedule = 'multi_step' needs decay_at, the epochs to decay at")
        if self.epochs and self.warmup_epochs > self.epochs:
            raise ValueError(
                f"training: warmup_epochs = {self.warmup_epochs}, expected at most the {self.epochs} epochs"
            )
        if self.nesterov and (self.optimizer != "sgd" or not self.momentum):
            raise ValueError("training: nesterov needs optimizer = 'sgd' and a momentum > 0")

    def resolved(self, images: int) -> "Training":
        """Return this training with both epochs and steps set, for a training split of `images` images."""
        per_epoch = math.ceil(images / self.images_per_step)
        if self.steps is None and isinstance(self.epochs, int):
            return self
        steps = self.steps or max(1, round(self.epochs * per_epoch))
        return replace(self, epochs=steps / per_epoch, steps=steps)

    @property
    def epochs_begun(self) -> int:
        """The number of epochs, including a last one that is not whole."""
        return math.ceil(self.epochs)

    @property
    def decays(self) -> tuple[int, ...]:
        """The epochs at which the learning rate falls, which tables of settings name; none if it is annealed."""
        every = range(self.decay_every, self.epochs_begun, self.decay_every)
        steps = {"step": every, "multi_step": self.decay_at}
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
            raise ValueError("recipe: objective.sigma is not a field: sigma is stated once, at the top of the recipe")
        for kind in ("dataset", "model", "objective"):
            object.__setattr__(self, kind, named_table(getattr(self, kind), kind))

    def names(self) -> list[str]:
        """Return the names of the components; `module:name` is user-defined code."""
        return [self.dataset["name"], *_names(self.model), self.objective["name"]]

    @property
    def model_digest(self) -> str:
        """The digest of the model: its name, its fields and the choice of normalisation."""
        return hashlib.sha256(json.dumps([self.model, self.normalisation], sort_keys=True).encode()).hexdigest()[:16]

    def flat(self) -> dict[str, Any]:
        """Return every value under its key, such as training.epochs."""
        flat: dict[str, Any] = {}
        for key, value in asdict(self).items():
            table = value if isinstance(value, Mapping) else None
            flat |= {key: value} if table is None else {f"{key}.{name}": inner for name, inner in table.items()}
        return flat

    def to_toml(self) -> str:
        """Format the recipe as TOML that `parse` reads back to an equal recipe."""
        values = _as_tables(self)
        tables = {key: values.pop(key) for key in ("objective", "training") if key in values}
        lines = [f"{key} = {as_toml(_short_form(value))}" for key, value in values.items()]
        for name, table in tables.items():
            lines += ["", f"[{name}]", *(f"{key} = {as_toml(value)}" for key, value in table.items())]
        return "\n".join(lines) + "\n"


# Components


def named_table(spec: Spec, kind: str) -> dict[str, Any]:
    """Expand the short form of a component: "cifar10" is { name = "cifar10" }."""
    table = {"name": spec} if isinstance(spec, str) else spec
    if not isinstance(table, Mapping) or not isinstance(table.get("name"), str):
        raise ValueError(f"recipe: {kind} needs a name, such as {kind} = 'NAME' or {kind} = {{ name = 'NAME' }}")
    return {key: with_tuples(value) for key, value in table.items()}


def fields_of(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a component's table, without its name."""
    return {key: value for key, value in spec.items() if key != "name"}


def with_tuples(value: Any) -> Any:
    """Turn lists into tuples at any depth, so that recipes compare equal wherever they come from."""
    if isinstance(value, Mapping):
        return {key: with_tuples(inner) for key, inner in value.items()}
    return tuple(map(with_tuples, value)) if isinstance(value, list | tuple) else value


def _names(value: Any) -> list[str]:
    """Return the names in a table and in the tables inside it, such as the parts of a model."""
    if isinstance(value, Mapping):
        names = [name] if isinstance(name := value.get("name"), str) else []
        return names + _names(tuple(value.values()))
    return [name for inner in value for name in _names(inner)] if isinstance(value, tuple) else []


# Reading


def read(path: Path, settings: Sequence[str] = ()) -> Recipe:
    """Read a recipe file, overridden by `key=value` settings."""
    try:
        text = readers.text(path, MOST_BYTES)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise RecipeError(
            f"Cannot read the recipe {path}: {reason}. `radii list recipes` shows the recipes."
        ) from error
    return parse(text, str(path), settings)


def parse(text: str, where: str, settings: Sequence[str] = ()) -> Recipe:
    """Parse TOML, overridden by `key=value` settings; an error about an unknown key suggests the nearest known one."""
    try:
        return _build(apply_settings(_parse_toml(text), settings))
    except tomllib.TOMLDecodeError as error:
        raise RecipeError(f"{where} is not TOML: {readers.short(error)}") from error
    except (ValueError, LookupError, TypeError, OverflowError) as error:
        raise _recipe_error(where, error) from error


def with_settings(recipe: Recipe, where: str, settings: Sequence[str]) -> Recipe:
    """Apply `key=value` settings to a recipe; `where` names it in errors."""
    try:
        return _build(apply_settings(_as_tables(recipe), settings))
    except (ValueError, LookupError, TypeError, OverflowError) as error:
        raise _recipe_error(where, error) from error


def parse_value(text: str) -> Any:
    """Parse a value from the command line: TOML, or else a plain string."""
    try:
        return _parse_toml(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text.strip()


def apply_settings(values: dict[str, Any], settings: Sequence[str]) -> dict[str, Any]:
    """Override values by `key=value` settings; a dotted key names a field of a table.

    A setting drops what it replaces: epochs drop steps, and muon, adamw or no momentum drop nesterov, unless it is set.
    """
    stated = {setting.partition("=")[0].strip() for setting in settings}
    for setting in settings:
        key, equals, text = setting.partition("=")
        if not equals:
            raise ValueError(f"{setting!r} is not a setting, expected key=value, such as training.epochs=30")
        *tables, name = key.strip().split(".")
        table = _table_in(values, tables, setting)
        name = SYNONYMS.get(name, name) if tables == ["training"] else name
        table[name] = parse_value(text)
        if tables == ["training"] and name in LENGTHS:
            table.pop(LENGTHS[name], None)
        elif (key.strip(), table[name]) in WITHOUT_NESTEROV and "training.nesterov" not in stated:
            table.pop("nesterov", None)
    return values


def _build(values: dict[str, Any]) -> Recipe:
    if "training" in values:
        training = values["training"]
        if not isinstance(training, Mapping):
            raise ValueError(f"training = {training!r}, expected a table, such as [training] with epochs = 30 below it")
        values["training"] = _replace_synonyms(training)
    return _from_tables(values)


def _replace_synonyms(training: Mapping[str, Any]) -> dict[str, Any]:
    """Return a training table with synonyms replaced by our field names; refuse a table that has both."""
    if both := [word for word, field in SYNONYMS.items() if word in training and field in training]:
        raise ValueError(f"[training] states {both[0]} and {SYNONYMS[both[0]]}, which mean the same: leave out one")
    return {SYNONYMS.get(key, key): value for key, value in training.items()}


def _from_tables(values: dict[str, Any]) -> Recipe:
    """Make a recipe, or raise one error that names everything wrong with its tables."""
    problems: list[str] = []
    fields = dict(values)
    if "training" in values:
        try:
            fields["training"] = from_mapping(Training, values["training"], "[training]")
        except (ValueError, LookupError, TypeError) as error:
            problems.append(str(error.args[0]))
            fields["training"] = None
    try:
        recipe: Recipe = from_mapping(Recipe, fields, "the recipe")
    except (ValueError, LookupError, TypeError) as error:
        problems.append(str(error.args[0]))
    if problems:
        raise ValueError(ALSO.join(problems))
    return recipe


def _table_in(values: dict[str, Any], path: Sequence[str], setting: str) -> dict[str, Any]:
    """Return the table that a setting's dotted key names, and create it if it is missing."""
    for part in path:
        table = values.setdefault(part, {})
        if isinstance(table, str) and part in ("dataset", "model", "objective"):
            table = values[part] = {"name": table}  # the short form of a component: its fields can be set as well
        if not isinstance(table, dict):
            raise ValueError(f"{setting!r}: {part} is not a table, so it has no fields to set")
        values = table
    return values


def _recipe_error(where: str, error: Exception) -> RecipeError:
    reason = readers.short(error.args[0], 1000) if error.args else type(error).__name__
    return RecipeError(f"{where}: {reason}")


def _parse_toml(text: str) -> dict[str, Any]:
    """Parse TOML; refuse nesting too deep for Python and whole numbers beyond 64 bits."""
    try:
        values = tomllib.loads(text)
        _check_integers(values)
    except RecursionError as error:
        raise ValueError("its tables or lists nest too deeply: flatten them") from error
    return values


def _check_integers(value: Any) -> None:
    if isinstance(value, int) and abs(value) > MOST_INTEGER:
        raise ValueError(f"it has a whole number of {len(str(abs(value)))} digits, expected one of 64 bits")
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _check_integers(inner)


# Writing


def as_toml(value: Any) -> str:
    """Format a value as TOML; None, which TOML lacks, is "none"."""
    if value is None:
        return "none"
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_toml_key(key)} = {as_toml(inner)}" for key, inner in value.items()) + " }"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        # JSON's escapes are all valid in TOML; only DEL needs one more.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007F")
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(as_toml, value)) + "]"
    return repr(value)


def _toml_key(key: str) -> str:
    return key if key.isascii() and key.replace("-", "_").isidentifier() else as_toml(key)


def _short_form(value: Any) -> Any:
    """Return the name alone for a component without fields."""
    return value["name"] if isinstance(value, Mapping) and set(value) == {"name"} else value


def _as_tables(recipe: Recipe) -> dict[str, Any]:
    """Return a recipe as tables, without fields that are None."""
    values = {key: value for key, value in asdict(recipe).items() if value is not None}
    for name in ("objective", "training"):
        if name in values:
            values[name] = {key: value for key, value in values[name].items() if value is not None}
    return values


# Shipped recipes


def shipped_folder(name: str = "recipes") -> Path:
    """Return a folder of shipped files: inside an installed package, or beside the source."""
    inside = PACKAGE / name
    return inside if inside.is_dir() else PACKAGE.parents[1] / name


def shipped() -> list[str]:
    """Return the names of the shipped recipes, such as mnist/gaussian-0.25."""
    folder = shipped_folder()
    return sorted(path.relative_to(folder).with_suffix("").as_posix() for path in folder.rglob("*.toml"))


def find(name: Path | str) -> Path:
    """Find a recipe file by its path, or by the name of a shipped recipe."""
    path = Path(name)
    if not path.name:
        raise RecipeError(
            f"There is no recipe {str(name)!r}. Name a file, or a recipe that `radii list recipes` shows."
        )
    listed = shipped_folder() / path.with_name(path.name.removesuffix(".toml") + ".toml")
    if path.is_file() or (path.suffix == ".toml" and not listed.is_file()):
        return path
    if not listed.is_file():
        raise RecipeError(f"there is no recipe {str(name)!r}{did_you_mean(path.as_posix(), shipped())}")
    return listed
