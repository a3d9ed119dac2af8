"""training.stream = "philox": what is drawn for an image depends on its place in the epoch, and on nothing else."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from radii.datasets import Images
from radii.datasets._images import draw_crops
from radii.objectives import Batch, Step, Terms
from radii.objectives.gaussian import Gaussian
from radii.runs import recipe as recipes
from radii.runs.recipe import Recipe, RecipeError, Training
from radii.runs.run import Run, RunError
from radii.smoothing.addresses import generator
from radii.smoothing.attack import unit_or_random
from radii.smoothing.noise import noise_like
from radii.smoothing.streams import RowGenerator, Stream, uniform_rows
from radii.training import loop
from radii.training.accuracy import noisy_accuracy
from radii.training.batches import LocalBatch, batches, prefetch
from radii.training.build import build
from radii.training.ddp import ALONE, World
from radii.training.loop import StepEvent, train
from radii.training.weights import trained_model
from tests.training.test_batches import images_in_memory, photographs

OLD = Training(epochs=2, images_per_step=256, learning_rate=0.05)
PHILOX = replace(OLD, stream="philox")
RECIPE = Recipe(dataset="digits", model="digits_cnn", sigma=0.25, training=OLD)


def rows(first: int) -> RowGenerator:
    return RowGenerator.beside(torch.Generator().manual_seed(first), Stream.at("train", 0, 3), first)


def drawn(rng: RowGenerator, count: int) -> list[Tensor]:
    """Draw as the objectives do, directions for gradients of which only that at place 4 is zero; images come first."""
    images = torch.zeros(count, 3, 5, 7)
    noise = [noise_like(images, copies, 0.25, rng).transpose(0, 1) for copies in (1, 3)]
    places = torch.arange(rng.first, rng.first + count)
    direction = unit_or_random(images + (places != 4).float().view(-1, 1, 1, 1), rng)
    return [*noise, uniform_rows(count, 4, rng), direction, uniform_rows(count, 1, rng)]


@pytest.mark.parametrize(("first", "count"), [(0, 1), (4, 1), (2, 5), (8, 1)])
def test_numbers_of_an_image_are_those_that_it_has_in_any_batch(first: int, count: int) -> None:
    for part, whole in zip(drawn(rows(first), count), drawn(rows(0), 9), strict=True):
        assert torch.equal(part, whole[first : first + count])


def test_copies_and_draws_differ() -> None:
    rng = rows(0)
    noise = [*noise_like(torch.zeros(4, 1, 8, 8), 3, 1.0, rng), *noise_like(torch.zeros(4, 1, 8, 8), 1, 1.0, rng)]
    flat = torch.stack(noise).flatten(0, 1).flatten(1)
    assert len(flat.unique(dim=0)) == 16
    assert 0.9 < float(flat.std()) < 1.1


def test_functions_of_torch_draw_from_the_generator() -> None:
    assert torch.equal(torch.rand(3, generator=rows(5)), torch.rand(3, generator=torch.Generator().manual_seed(5)))


def epoch_of(images: Images, per_step: int, world: World = ALONE, first: int = 0) -> list[LocalBatch]:
    training = replace(PHILOX, images_per_step=per_step)
    return list(prefetch(batches(images, training, seed=3, epoch=1, first=first, world=world), images))


def joined(locals_: list[LocalBatch]) -> Batch:
    return Batch(*(torch.cat(tensors) for tensors in zip(*(local.batch for local in locals_), strict=True)))


def assert_equal(one: Batch, other: Batch) -> None:
    assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def test_order_and_augmentation_depend_on_the_place_alone(tmp_path: Path) -> None:
    for images in (*images_in_memory(), photographs(tmp_path)):
        whole = epoch_of(images, len(images))
        assert sorted(whole[0].batch.indices.tolist()) == list(range(len(images)))
        for per_step in (7, 8):
            assert_equal(joined(epoch_of(images, per_step)), whole[0].batch)
            for size in (2, 3):
                ranks = [epoch_of(images, per_step, World(rank, size)) for rank in range(size)]
                shares = [local for step in zip(*ranks, strict=True) for local in step if local.weight]
                assert_equal(joined(shares), whole[0].batch)
                assert [local.first for local in shares] == [sum(map(size_of, shares[:n])) for n in range(len(shares))]


def size_of(local: LocalBatch) -> int:
    return len(local.batch.indices)


def test_every_epoch_and_seed_has_its_own_order() -> None:
    images = images_in_memory()[0]
    orders = {
        tuple(joined(list(batches(images, PHILOX, seed=seed, epoch=epoch, first=0, world=ALONE))).indices.tolist())
        for seed in range(3)
        for epoch in range(3)
    }
    assert len(orders) == 9


class Share(World):
    """A rank whose sum is its own share."""

    def sum(self, values: Tensor) -> Tensor:
        return values


def test_ranks_together_measure_the_noisy_accuracy_of_one(tmp_path: Path) -> None:
    run = train(replace(RECIPE, training=replace(PHILOX, epochs=1)), tmp_path / "run")
    model, test = trained_model(run), build(run.recipe).dataset.part("test")
    device = torch.device("cpu")
    alone = noisy_accuracy(model, test, run.recipe, 0, device, ALONE)
    shares = [noisy_accuracy(model, test, run.recipe, 0, device, Share(rank, 3)) for rank in range(3)]
    assert sum(shares) == pytest.approx(alone, abs=1e-9)
    assert alone == pytest.approx(float(run.history()[0]["noisy_test_accuracy"]), abs=1e-9)


# Recipes without a stream


def test_recipe_states_philox_or_nothing() -> None:
    assert "stream" not in RECIPE.to_toml()
    assert recipes.parse(RECIPE.to_toml(), "recipe") == RECIPE
    stated = recipes.parse(RECIPE.to_toml(), "recipe", ["training.stream=philox"])
    assert stated.training == PHILOX
    assert recipes.parse(stated.to_toml(), "recipe") == stated
    with pytest.raises(RecipeError, match="stream = 'mersenne', expected one of 'philox'"):
        recipes.parse(RECIPE.to_toml(), "recipe", ["training.stream=mersenne"])


def test_run_without_a_stream_keeps_its_generators_and_continues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    states: list[Tensor] = []
    order: list[Tensor] = []
    terms = Gaussian.terms

    def recorded_terms(self: Gaussian, model: torch.nn.Module, batch: Batch, step: Step) -> Terms:
        assert type(step.rng) is torch.Generator
        states.append(step.rng.get_state())
        order.append(batch.indices)
        return terms(self, model, batch, step)

    def stop(event: StepEvent) -> None:
        if (event.epoch, event.step) == (1, 2):
            raise KeyboardInterrupt

    whole = train(RECIPE, tmp_path / "whole")
    monkeypatch.setattr(Gaussian, "terms", recorded_terms)
    monkeypatch.setattr(loop, "SECONDS_BETWEEN_CHECKPOINTS", 0.0)
    with pytest.raises(KeyboardInterrupt):
        train(RECIPE, tmp_path / "run", on_step=stop)
    assert "stream" not in (tmp_path / "run" / "recipe.toml").read_text()
    with pytest.raises(RunError, match=r"training.stream = None, not 'philox'"):
        train(replace(RECIPE, training=PHILOX), tmp_path / "run")
    continued = train(RECIPE, tmp_path / "run")
    steps = [(epoch, step) for epoch in range(2) for step in range(6)]
    assert all(map(torch.equal, states, (generator("cpu", "train", 0, *address).get_state() for address in steps)))
    expected = [torch.randperm(1347, generator=generator("cpu", "shuffle", 0, epoch)) for epoch in range(2)]
    assert torch.equal(torch.cat(order), torch.cat(expected))
    assert continued.weights().read_bytes() == whole.weights().read_bytes()


def test_other_streams_give_other_weights(tmp_path: Path) -> None:
    runs: list[Run] = [
        train(replace(RECIPE, training=training), tmp_path / str(number))
        for number, training in enumerate((OLD, PHILOX, PHILOX))
    ]
    first, second, third = (run.weights().read_bytes() for run in runs)
    assert first != second == third


def test_old_crops_are_drawn_as_before() -> None:
    rng = generator("cpu", "augment", 3, 1, 0)
    corners = torch.randint(0, 9, (2, 7), generator=rng)
    flip = torch.rand(7, generator=rng) < 0.5
    crops = draw_crops(7, generator("cpu", "augment", 3, 1, 0))
    assert torch.equal(crops, torch.cat([corners, flip.long()[None]]))
