"""The cost of training: every method compared with a plain training loop."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks import plain
from benchmarks.timing import machine, take_turns
from radii import datasets, models, objectives
from radii.datasets import Images
from radii.objectives import Batch, Objective, Step
from radii.smoothing.addresses import generator
from radii.smoothing.forward import channels_last
from radii.training.batches import LocalBatch
from radii.training.step import Loss, gradient_step

Settings = dict[str, tuple[dict[str, Any], float | None]]

# Published settings for MNIST at sigma 0.50, and the time of the published scripts relative to a plain Gaussian epoch.
MNIST: Settings = {
    "gaussian": ({}, None),
    "stability": ({}, 1.9),
    "consistency": ({"copies": 2, "weight": 5.0}, 1.9),
    "macer": ({"copies": 16, "weight": 16.0}, 20.0),
    "smoothmix": ({"copies": 4, "steps": 4, "step_size": 1.0}, 24.0),
    "catrs": ({"copies": 4, "steps": 4}, 24.0),
    "smoothadv": ({"copies": 4, "steps": 10}, 45.0),
    "transfer": ({}, None),
}
# CRT, Tables 1 and 17: CIFAR-10 at sigma 0.25.
CIFAR: Settings = {
    "gaussian": ({}, None),
    "stability": ({}, None),
    "consistency": ({"copies": 2, "weight": 20.0}, None),
    "smoothmix": ({"copies": 2, "steps": 4, "step_size": 0.5}, 4.97),
    "catrs": ({"copies": 4, "steps": 4, "weight": 0.5}, None),
    "macer": ({"copies": 16, "weight": 12.0}, 20.86),
    "smoothadv": ({"copies": 8, "steps": 10}, 46.2),
    "transfer": ({}, None),
}


def measure(data: Path | None = None, rounds: int = 15) -> dict[str, Any]:
    """Measure seconds per epoch of every method on MNIST and CIFAR-shaped images, relative to plain loops in the same
    run."""
    mnist = datasets.create("mnist", data).split("train")
    return {
        "machine": machine(),
        "mnist_lenet": _mnist(mnist, rounds),
        "mnist_student": _student(mnist, rounds),
        "cifar_resnet20": _cifar(max(3, rounds // 5)),
    }


def _mnist(images: Images, rounds: int) -> dict[str, Any]:
    pixels = images.batch(torch.arange(len(images)))
    model = channels_last(models.create("lenet"))
    # Most of an epoch of plain training first: what CAT-RS and MACER do depends on how good the model is.
    warm = step_of("gaussian", {}, 0.5, model, images, 256, model, learning_rate=0.05)
    for _ in range(200):
        warm()
    steps = {"plain loop": plain.training_step(plain.lenet(), pixels, images.labels, 0.5, 256)}
    inputs = {"plain loop": 256}
    for name, (settings, _) in MNIST.items():
        inputs[name] = 256 // settings.get("copies", 1)
        steps[name] = step_of(name, settings, 0.5, model, images, inputs[name], model)
    # As MACER was published: more inputs per step than a CPU's cache holds.
    inputs["macer, 1,024 inputs"] = 64
    steps["macer, 1,024 inputs"] = step_of("macer", MNIST["macer"][0], 0.5, model, images, 64, model)
    return _ratios(take_turns(steps, rounds), inputs, len(images), MNIST)


def _student(images: Images, rounds: int) -> dict[str, Any]:
    """Return the cost of a student of another architecture: by transfer, by Gaussian training, or by a teacher's
    method."""
    teacher, student = (channels_last(models.create(name)) for name in ("lenet", "lenet_wide"))
    names = ("gaussian", "transfer", "smoothmix", "smoothadv")
    inputs = {name: 256 // MNIST[name][0].get("copies", 1) for name in names}
    steps = {name: step_of(name, MNIST[name][0], 0.5, student, images, inputs[name], teacher) for name in names}
    seconds = take_turns(steps, rounds)
    epochs = {name: value * len(images) / inputs[name] for name, value in seconds.items()}
    return {
        name: {
            "seconds_per_epoch": epoch,
            "ratio_to_gaussian": epoch / epochs["gaussian"],
            "ratio_to_transfer": epoch / epochs["transfer"],
        }
        for name, epoch in epochs.items()
    }


def _cifar(rounds: int) -> dict[str, Any]:
    images = random_images()
    pixels = images.batch(torch.arange(len(images)))
    model = channels_last(models.create("cifar_resnet20"))
    steps = {"plain loop": plain.training_step(models.create("cifar_resnet20"), pixels, images.labels, 0.0, 128)}
    inputs = {"plain loop": 128}
    for name, (settings, _) in CIFAR.items():
        inputs[name] = 128 // settings.get("copies", 1)
        steps[name] = step_of(name, settings, 0.25, model, images, inputs[name], model)
    return _ratios(take_turns(steps, rounds, warmups=1), inputs, 50_000, CIFAR)


def random_images() -> Images:
    """Return images of CIFAR-10's size."""
    from radii.datasets.base import InMemory

    rng = generator("cpu", "measure", 0)
    pixels = torch.randint(0, 256, (2048, 3, 32, 32), generator=rng, dtype=torch.uint8)
    return InMemory(pixels, torch.randint(0, 10, (2048,), generator=rng), augmented=True)


def step_of(
    name: str,
    settings: dict[str, Any],
    sigma: float,
    model: nn.Module,
    images: Images,
    batch: int,
    teacher: nn.Module,
    learning_rate: float = 1e-4,
    precision: str = "float32",
) -> Callable[[], None]:
    """Return a function that makes a step of a method as the training loop does, with batching and augmentation."""
    resources: dict[str, Any] = {}
    if name == "transfer":
        resources["teacher"] = teacher
    if name == "catrs":
        resources["soft_labels"] = torch.nn.functional.one_hot(images.labels).float() * 0.9 + 0.01
    objective: Objective = objectives.create(name, sigma=sigma, **settings, **resources)
    optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate, momentum=0.9, weight_decay=1e-4, fused=True)
    loss = Loss(objective, model, precision)
    counter = iter(range(1 << 30))

    def step() -> None:
        number = next(counter)
        indices: Tensor = torch.randint(0, len(images), (batch,), generator=generator("cpu", "measure", 1, number))
        pixels = images.batch(indices, generator("cpu", "measure", 2, number))
        rng = generator("cpu", "measure", 3, number)
        model.train()
        gradient_step(loss, optimizer, LocalBatch(Batch(pixels, images.labels[indices], indices)), Step(100, rng))

    return step


def _ratios(seconds: dict[str, float], inputs: dict[str, int], images: int, settings: Settings) -> dict[str, Any]:
    epochs = {name: value * images / inputs[name] for name, value in seconds.items()}
    rows = {}
    for name, epoch in epochs.items():
        published = settings.get(name, ({}, None))[1]
        ratio = epoch / epochs["plain loop"]
        rows[name] = {
            "seconds_per_epoch": epoch,
            "ratio_to_plain_loop": ratio,
            "published_ratio": published,
            "share_of_published": ratio / published if published else None,
        }
    return rows
