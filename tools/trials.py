"""Short trials that choose how to train: python -m tools.trials RUN METHOD SETTING...; prints one line.

Trains the run's model for some steps on its training images without a validation part, and counts how many validation
images are right and how many are right with the share of copies that proves a radius of sigma. METHOD is an objective
and its steps, such as gaussian:240; gaussian:120+consistency:60 trains one after the other. Where RUN is the name of a
recipe, its model is trained from scratch, from the seed in a setting, with the fields of its objective. The mean radius
is an estimate without a proof, in which a wrong answer counts as 0.
"""

import sys
import time
from dataclasses import replace
from pathlib import Path
from statistics import NormalDist

import torch

from radii.datasets import Images
from radii.objectives import Step
from radii.runs import recipe as recipes
from radii.runs.run import Run
from radii.smoothing.addresses import generator
from radii.smoothing.bounds import gaussian_probability
from radii.training.batches import batches, prefetch
from radii.training.build import Components, build
from radii.training.ddp import ALONE
from radii.training.fine_tuning import fine_tuning_recipe
from radii.training.optimizer import learning_rate, make_optimizer, set_learning_rate
from radii.training.step import Loss, gradient_step

COPIES, IMAGES = 64, 300
MEASURED = ("under noise", "right", "at radius sigma", "without noise", "mean radius")


def trial(start: str, methods: str, settings: list[str], teacher: str | None = None) -> str:
    """Train for the stated steps; return the measured shares and the seconds of the processor."""
    began, model, steps = time.process_time(), None, 0
    for method in methods.split("+"):
        objective, _, length = method.partition(":")
        if (Path(start) / "recipe.toml").is_file():
            run = Run(start, ["examples.cifar_nets"])
            recipe = fine_tuning_recipe(run, objective, [*settings, f"training.steps={length}"])
        else:
            recipe = recipes.read(recipes.find(start), [*settings, f"training.steps={length}"])
            recipe = recipe if recipe.objective["name"] == objective else replace(recipe, objective=objective)
        made = build(recipe, None, teacher, None, ["examples.cifar_nets"])
        if model is not None:
            made.model.load_state_dict(model.state_dict())
        model = _train(made)
        steps += int(length)
    assert model is not None
    seconds = time.process_time() - began
    measured = _measure(model, made.dataset.part("validation"), recipe.sigma)
    shares = ", ".join(f"{share:.3f} {name}" for name, share in measured.items())
    return f"{shares}, {seconds:.0f} s, {steps} steps"


def _train(made: Components) -> torch.nn.Module:
    """Train the stated steps, with one cycle of the learning rate."""
    training, model, seed = made.training, made.model.train(), made.recipe.seed
    optimizer, loss = make_optimizer(training, model), Loss(made.objective, model, training.precision)
    per_epoch = made.steps_per_epoch
    total, done = training.steps or int(training.epochs * per_epoch), 0
    while done < total:
        epoch = done // per_epoch
        loaded = batches(made.images, training, seed=seed, epoch=epoch, first=0, world=ALONE)
        for number, local in enumerate(prefetch(loaded, made.images)):
            if done == total:
                break
            set_learning_rate(optimizer, learning_rate(training, epoch, number / per_epoch))
            step = Step(epoch, generator("cpu", "train", seed, epoch, number), done / total)
            gradient_step(loss, optimizer, local, step, number=number)
            done += 1
    return model


@torch.inference_mode()
def _measure(model: torch.nn.Module, images: Images, sigma: float) -> dict[str, float]:
    """Return the mean shares over some validation images, by what they are shares of, and their mean radius."""
    model.eval()
    chosen = torch.arange(0, len(images), max(1, len(images) // IMAGES))[:IMAGES]
    rng, sums = generator("cpu", "evaluate", 7), dict.fromkeys(MEASURED, 0.0)
    for index in chosen:
        image, label = images.batch(index[None]), int(images.labels[index])
        noisy = image + sigma * torch.randn(COPIES, *image.shape[1:], generator=rng)
        with torch.autocast("cpu", torch.bfloat16):
            share = float((model(noisy).argmax(1) == label).float().mean())
        radius = sigma * NormalDist().inv_cdf(min(share, 1 - 0.5 / COPIES)) if share > 0.5 else 0.0
        sure, plain = share >= gaussian_probability(sigma, sigma), int(model(image).argmax(1) == label)
        for name, value in zip(MEASURED, (share, share > 0.5, sure, plain, radius), strict=True):
            sums[name] += value
    return {name: total / len(chosen) for name, total in sums.items()}


if __name__ == "__main__":
    torch.set_num_threads(1)
    folder, method, *settings = sys.argv[1:]
    print(method, *settings, "->", trial(folder, method, settings), flush=True)
