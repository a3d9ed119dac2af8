"""Weights that a training starts from: those of a run or a file, and of the runs inside a model."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import nn

from radii import disk, models
from radii.datasets import Dataset
from radii.errors import ParameterError
from radii.runs.recipe import Recipe, fields_of
from radii.runs.run import Run, RunError
from radii.training.open_dataset import list_classes, moved_classes
from radii.training.weights import ModelSpec, load_weights, make_model, model_spec, spec_for


def source(path: Path, file: Path) -> dict[str, str]:
    """Return the path of a run or file that training starts from, and the hash of `file`, for origin.json."""
    return {"path": str(path.resolve()), "hash": disk.digest(file)}


def inherit_normalisation(recipe: Recipe, spec: ModelSpec, parent: Run | None) -> ModelSpec:
    """Use the normalisation constants of a teacher or of the initial run, if its recipe normalises as this one does.

    Whoever imported that model may have stated constants that are not the dataset's.
    """
    if parent is None or not parent.path.is_dir() or parent.recipe.normalisation != recipe.normalisation:
        return spec
    return spec._replace(normalisation=model_spec(parent).normalisation)


def load_initial(model: nn.Module, spec: ModelSpec, run: Run) -> dict[str, str]:
    """Load the weights that fine-tuning starts from, of a run or of a file; return their path and hash."""
    weights = run.path
    if weights.is_dir():
        weights = run.weights()
        initial_spec = _expect_same_images(run, spec)
        _expect_same_places(run, spec)
        if initial_spec.normalisation != spec.normalisation:
            raise RunError(
                f"{run.path} normalises its pixels by {tuple(initial_spec.normalisation)}, "
                f"this recipe by {tuple(spec.normalisation)}: state normalisation = {run.recipe.normalisation!r}"
            )
    load_weights(model, weights, "this recipe's model")
    return source(run.path, weights)


def combine_runs(
    recipe: Recipe, dataset: Dataset, trust: Collection[str] = ()
) -> tuple[Recipe, nn.Sequential, ModelSpec, dict[str, dict[str, str]]]:
    """Make the model of a recipe that names runs inside it, with their weights and without training.

    Returns the recipe with the runs' models in their place, the model, its spec, and the origin of its weights.
    """
    recipe, spec, runs = resolve_inner_models(recipe, spec_for(recipe, dataset), trust)
    model = make_model(recipe, spec)
    origin = {key: load_inner_model(model, key, run) for key, run in runs.items()}
    fields = models.resolved(recipe.model["name"], fields_of(recipe.model))
    return replace(recipe, model={"name": recipe.model["name"], **fields}), model, spec, origin


def resolve_inner_models(
    recipe: Recipe, spec: ModelSpec, trust: Collection[str]
) -> tuple[Recipe, ModelSpec, dict[str, Run]]:
    """Replace the runs that a recipe names inside its model, such as a denoiser's classifier, by their models' fields.

    Returns these runs too, by the name of their module. Images are normalised as in these runs.
    """
    runs: dict[str, Run] = {}
    for key in models.inner_models(recipe.model["name"]):
        inner = recipe.model.get(key)
        if isinstance(inner, tuple):
            names = [f"{key}.{number}" for number in range(len(inner))]
            members = dict(zip(names, inner, strict=True))
            runs |= {name: Run(member, trust) for name, member in members.items() if _is_run(member)}
            tables = tuple(runs[name].recipe.model if name in runs else member for name, member in members.items())
            recipe = replace(recipe, model={**recipe.model, key: tables})
        elif isinstance(inner, str):
            runs[key] = Run(inner, trust)
            recipe = replace(recipe, model={**recipe.model, key: runs[key].recipe.model})
        elif inner is not None:
            _expect_weights(recipe, key, inner)
    if runs:
        spec = _shared_normalisation(spec, list(runs.values()))
        recipe = replace(recipe, normalisation=next(iter(runs.values())).recipe.normalisation)
    return recipe, spec, runs


def _is_run(member: Any) -> bool:
    """Return whether a member of a list of models is the path of a run; the name of a model is an architecture."""
    return isinstance(member, str) and member not in models.names()


def _shared_normalisation(spec: ModelSpec, runs: Sequence[Run]) -> ModelSpec:
    """Return the spec with the normalisation of the runs inside a model; raise a RunError if they have several."""
    first, *others = [_expect_same_images(run, spec).normalisation for run in runs]
    for run in runs:
        _expect_same_classes(run, spec)
    for run, constants in zip(runs[1:], others, strict=True):
        if constants != first:
            raise RunError(
                f"{run.path} normalises its pixels by {tuple(constants)}, {runs[0].path} by {tuple(first)}: "
                "combine runs of one normalisation"
            )
    return spec._replace(normalisation=first)


def _expect_weights(recipe: Recipe, key: str, inner: Any) -> None:
    """Raise a ParameterError for an inner model whose weights would stay random."""
    initial = recipe.training.initial if recipe.training else None
    if initial is None and ":" not in str(inner.get("name")):
        raise ParameterError(
            f"the {key} of the model {recipe.model['name']!r} has no weights: "
            f"expected the path of a trained run, such as {key} = 'runs/NAME'"
        )


def load_inner_model(model: nn.Sequential, key: str, run: Run) -> dict[str, str]:
    """Load the weights of a run into the inner model `key`; return their path and hash."""
    try:
        inner = model[1].get_submodule(key)
    except AttributeError:
        raise ValueError(f"the model has no module {key!r}: keep it under the name of its parameter") from None
    load_weights(inner, run.weights(), run.recipe.model["name"])
    return source(run.path, run.weights())


def _expect_same_images(run: Run, spec: ModelSpec) -> ModelSpec:
    """Return the spec of a run's model; raise a RunError if it takes other images or has other classes."""
    own = model_spec(run)
    if (own.shape, own.classes) != (spec.shape, spec.classes):
        raise RunError(
            f"{run.path} takes images {own.shape} in {own.classes} classes, not {spec.shape} in {spec.classes}"
        )
    return own


def _expect_same_places(run: Run, spec: ModelSpec) -> None:
    """Raise a RunError if a class of the images has another number in a run; other classes may be learned anew."""
    if moved_classes(run.class_names(), spec.class_names):
        raise _other_classes(run, spec)


def _expect_same_classes(run: Run, spec: ModelSpec) -> None:
    """Raise a RunError if a run, whose weights stay as they are, has other classes than the images.

    Classes that are called by their numbers can be any.
    """
    _expect_same_places(run, spec)
    known, numbers = run.class_names(), tuple(map(str, range(spec.classes)))
    if known and known != spec.class_names and numbers not in (known, spec.class_names):
        raise _other_classes(run, spec)


def _other_classes(run: Run, spec: ModelSpec) -> RunError:
    return RunError(
        f"{run.path} has other classes: {list_classes(run.class_names())}. "
        f"The images have {list_classes(spec.class_names)}, in this order. Name and order them as in training."
    )
