from pathlib import Path

import pytest

from radii import datasets, models, objectives
from radii.runs import recipe
from radii.runs.recipe import Recipe, RecipeError, Training

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
    "gaussian_150": "gaussian",
    "macer_440": "macer",
    "smoothadv_consistency": "consistency",
    "smoothadv_m8": "smoothadv",
}
"""The objectives of recipes that are named after a setting."""


def test_every_dataset_and_method_has_recipes() -> None:
    assert {path.parent.name for path in SHIPPED} == {
        "digits",
        "mnist",
        "fashion_mnist",
        "cifar10",
        "cifar100",
        "svhn",
        "imagenet",
    }
    assert {path.stem.rpartition("-")[0] for path in SHIPPED} >= set(objectives.names())


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
        ("training.epochs=0", "epochs = 0, expected a number >= 1"),
        ("training.epochs=2.5", "epochs = 2.5, expected a whole number"),
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
def test_a_path_without_a_name_is_no_recipe(name: str) -> None:
    with pytest.raises(RecipeError, match="there is no recipe"):
        recipe.find(name)
