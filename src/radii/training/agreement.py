"""What the processes of one training have to have alike: versions, recipe, what it learns from, and images."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from importlib import metadata
from typing import Any

from radii.datasets import Images
from radii.errors import ParameterError
from radii.runs.recipe import Recipe
from radii.training.distributed import World

PLACES = ("dataset.path", "training.initial")
"""Fields of a recipe that may differ from machine to machine: the digests of what is there may not."""


def expect_same(world: World, recipe: Recipe, origin: Mapping[str, Any], images: Images, test: Images) -> None:
    """Refuse to train where this process has something else than rank 0."""
    if world.size > 1:
        world.expect_same("versions", {name: metadata.version(name) for name in ("radii", "torch")})
        expect_same_recipe(world, recipe, origin)
        world.expect_same("training images", images.digest)
        world.expect_same("test images", test.digest)


def expect_same_recipe(world: World, recipe: Recipe, origin: Mapping[str, Any]) -> None:
    """Refuse another recipe, or another teacher, soft labels or first weights, than those of rank 0."""
    facts = dict(_facts(recipe))
    sources = {name: source.get("hash") for name, source in origin.items()}
    wanted, taken = world.told(lambda: (facts, sources))
    for name in sorted({*facts, *wanted}):
        if facts.get(name) != wanted.get(name):
            raise ParameterError(
                f"rank {world.rank} has another recipe than rank 0: {name} = {facts.get(name)!r}, "
                f"expected {wanted.get(name)!r}"
            )
    for name in sorted({*sources, *taken}):
        if sources.get(name) != taken.get(name):
            what, here, there = name.replace("_", " "), sources.get(name), taken.get(name)
            raise ParameterError(f"rank {world.rank} has another {what} than rank 0: {here}, expected {there}")


def _facts(recipe: Recipe) -> Iterator[tuple[str, Any]]:
    """The fields of a recipe by their dotted names, but for places."""
    for key, value in asdict(recipe).items():
        fields = {f"{key}.{name}": each for name, each in value.items()} if isinstance(value, dict) else {key: value}
        yield from ((name, each) for name, each in fields.items() if name not in PLACES)
