"""Recipes: shipped files, settings, and what is refused."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from radii import datasets, models, objectives
from radii.runs import recipe
from radii.runs.recipe import Recipe, RecipeError, Training, parse

SHIPPED = sorted(recipe.shipped_folder().rglob("*.toml"))
RESOURCES = {"catrs": {"soft_labels": object()}, "transfer": {"teacher": object()}}
TEXT = """
dataset = "digits"
model = "digits_cnn"
sigma = 0.25

[training]
epochs = 3
images_per_step = 64
learning_rate = 0.1
"""


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_every_shipped_recipe_loads(path: Path) -> None:
    text = path.read_text()
    assert text.startswith("# ")
    loaded = recipe.read(path)
    assert loaded.training is not None
    assert loaded.dataset["name"] in datasets.names()
    assert loaded.model["name"] in models.names()
    method, _, sigma = path.stem.rpartition("-")
    assert loaded.sigma == float(sigma)
    fields = dict(loaded.objective)
    name = fields.pop("name")
    assert name == SETTINGS.get(method, method)
    radius = fields.get("attack_radius" if name == "consistency" else "radius")
    explained = "# A radius of 255/256" in text
    assert explained == (radius == 255 / 256)
    # The papers' 1.0 is one value in all recipes; those of the digits are of no paper.
    assert radius != 1.0 or name == "catrs" or path.parent.name == "digits"
    objectives.create(name, sigma=loaded.sigma, **fields, **RESOURCES.get(name, {}))


SETTINGS = {
    "fast-consistency": "consistency",
    "gaussian_150": "gaussian",
    "macer_440": "macer",
    "smoothadv_consistency": "consistency",
    "smoothadv_m8": "smoothadv",
}
"""The objectives of recipes that are named after a setting."""


def test_every_dataset_and_method_has_recipes() -> None:
    assert {path.parent.name for path in SHIPPED} == {
        "digits",
        "gtsrb",
        "mnist",
        "fashion_mnist",
        "cifar10",
        "cifar100",
        "svhn",
        "imagenet",
    }
    assert {path.stem.rpartition("-")[0] for path in SHIPPED} >= set(objectives.names())


@pytest.mark.parametrize(
    "path", [path for path in SHIPPED if path.stem.startswith("fast-")], ids=lambda path: path.stem
)
def test_fast_recipe_states_accuracy_and_time(path: Path) -> None:
    first = path.read_text().splitlines()[0]
    assert re.search(r"certified at|ACR \d", first)
    assert re.search(r"\d (hours|minutes) of a core", first)


def test_recipe_round_trips_through_toml() -> None:
    training = Training(
        epochs=3, images_per_step=64, learning_rate=1e-3, schedule="multi_step", decay_at=(1, 2), weight_decay=5e-4
    )
    made = Recipe(
        dataset="mnist",
        model='my:"lenet"',
        sigma=0.1,
        objective={"name": "macer", "sharpen_classification": True, "weight": 1e-9},
        training=training,
    )
    assert recipe.parse(made.to_toml(), "here") == made


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("sgima=1", "has no field 'sgima'; did you mean 'sigma'?"),
        ("training.epoch=1", r"\[training\] has no field 'epoch'; did you mean 'epochs'?"),
        ("training.epochs=0", "epochs = 0, expected a number > 0: state the epochs, or the steps"),
        ("training.epochs=-1", "epochs = -1, expected a number >= 0"),
        ("training.steps=0", "steps = 0, expected a number >= 1"),
        ("training.steps=2.5", "steps = 2.5, expected a whole number"),
        ("sigma=0", "sigma = 0, expected a number > 0"),
        ("sigma=-0.5", "sigma = -0.5, expected a number > 0"),
        ("sigma=nan", "sigma = nan, expected a finite number"),
        ("sigma=big", "sigma = 'big', expected a number"),
        ("seed=-1", "seed = -1, expected a number >= 0"),
        ("training.schedule=steep", "expected one of 'step'"),
        ("training.schedule=multi_step", "needs decay_at"),
        ("training.decay_at=[1,'x']", "expected a list, each a number"),
        ("objective.sigma=1", "sigma is stated once"),
        ("objective.name=3", "objective needs a name"),
        ("normalisation=half", "expected one of 'full', 'centre', 'none'"),
        ("epochs", "expected key=value"),
    ],
)
def test_invalid_settings_give_a_one_sentence_error(setting: str, message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        recipe.parse(TEXT, "here", [setting])


def test_settings_override_the_file() -> None:
    made = recipe.parse(TEXT, "here", ["training.epochs=9", "model=my.module:net", "objective.name=stability"])
    assert made.training is not None
    assert (made.training.epochs, made.model, made.objective) == (
        9,
        {"name": "my.module:net"},
        {"name": "stability"},
    )


def test_steps_and_epochs_replace_each_other() -> None:
    steps = recipe.parse(TEXT, "here", ["training.steps=100"]).training
    assert steps is not None
    assert (steps.epochs, steps.steps) == (0, 100)
    assert recipe.parse(TEXT, "here", ["training.steps=100", "training.epochs=3"]).training == replace(
        steps, epochs=3, steps=None
    )


def test_another_optimizer_drops_nesterov_unless_it_is_stated() -> None:
    text = TEXT.replace("[training]", "[training]\nnesterov = true")
    for optimizer in ("sgd", "muon"):
        training = recipe.parse(text, "here", [f"training.optimizer={optimizer}"]).training
        assert training is not None
        assert training.nesterov is (optimizer == "sgd")
    still = recipe.parse(text, "here", ["training.momentum=0"]).training
    assert still is not None
    assert not still.nesterov
    with pytest.raises(RecipeError, match="nesterov needs optimizer = 'sgd'"):
        recipe.parse(TEXT, "here", ["training.nesterov=true", "training.optimizer=muon"])


@pytest.mark.parametrize(
    ("stated", "resolved"),
    [
        ({"epochs": 2}, (2, None)),
        ({"epochs": 0.5}, (0.5, 4)),
        ({"epochs": 2.3}, (2.25, 18)),
        ({"steps": 18}, (2.25, 18)),
    ],
)
def test_length_of_training_is_recorded_as_steps(stated: dict[str, Any], resolved: tuple[float, int | None]) -> None:
    training = Training(images_per_step=128, learning_rate=0.1, **stated).resolved(1000)
    assert (training.epochs, training.steps) == resolved
    assert training.resolved(1000) == training


def test_missing_field_is_named_in_the_error() -> None:
    with pytest.raises(RecipeError, match="needs the field 'model'"):
        recipe.parse(TEXT.replace('model = "digits_cnn"', ""), "here")


def test_invalid_toml_is_named_in_the_error() -> None:
    with pytest.raises(RecipeError, match="here is not TOML"):
        recipe.parse("sigma = = 1", "here")


@pytest.mark.parametrize("text", ["a\nb", 'tab\tquote"back\\slash', "\x00\x1b\x7f", "é 猫 [x]"])
def test_any_text_and_key_round_trips_through_toml(text: str) -> None:
    """A path may hold a newline: a run whose recipe cannot be read again is lost."""
    made = Recipe(dataset={"name": "folder", "path": text}, model={"name": "a:b", "inner": {text: text}}, sigma=0.25)
    assert recipe.parse(made.to_toml(), "here") == made


def test_training_must_be_a_table() -> None:
    with pytest.raises(RecipeError, match=r"training = 2, expected a table"):
        recipe.parse(TEXT, "here", ["training=2"])


@pytest.mark.parametrize("name", ["", ".", "/"])
def test_path_without_a_file_name_is_refused(name: str) -> None:
    with pytest.raises(RecipeError, match="There is no recipe"):
        recipe.find(name)


def test_all_errors_of_a_recipe_are_named_at_once() -> None:
    text = """
dataset = "digits"
model = "digits_cnn"
sigma = -1
normalisation = "half"
colour = 3
[training]
epoch = 3
images_per_step = 0
"""
    with pytest.raises(RecipeError) as error:
        parse(text, "mine.toml")
    for problem in ("no field 'epoch'", "needs the field 'learning_rate'", "no field 'colour'"):
        assert problem in str(error.value)
    wrong = text.replace("colour = 3\n", "").replace("epoch = 3", "epochs = 3\nlearning_rate = 0")
    with pytest.raises(RecipeError) as error:
        parse(wrong, "mine.toml")
    for problem in ("images_per_step = 0", "learning_rate = 0", "sigma = -1", "normalisation = 'half'"):
        assert problem in str(error.value)


def test_batch_size_means_images_per_step() -> None:
    text = 'dataset = "digits"\nmodel = "digits_cnn"\nsigma = 1\n[training]\nepochs = 1\nlearning_rate = 1\n'
    recipe = parse(f"{text}batch_size = 32\n", "mine.toml")
    assert recipe.training is not None
    assert recipe.training.images_per_step == 32
    changed = parse(f"{text}images_per_step = 8\n", "mine.toml", ["training.batch_size=64"])
    assert changed.training is not None
    assert changed.training.images_per_step == 64
    with pytest.raises(RecipeError, match="batch_size and images_per_step, which mean the same"):
        parse(f"{text}batch_size = 32\nimages_per_step = 8\n", "mine.toml")
