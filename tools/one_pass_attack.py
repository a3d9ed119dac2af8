"""Attack the answers of one noisy pass: python -m tools.one_pass_attack RUN --radius 0.25 --images 500 --steps 20.

Every picture is changed by gradient ascent on the mean loss over many draws of the noise (EOT, Athalye et al. 2018), by
a length of at most `radius`. The attack knows the picture, the label and the weights, not the noise of the request.
Prints the share of one-pass answers that stay right, with its standard error, beside the share without an attack.
"""

import argparse
import json
import math
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional

from radii.certification.data import evaluated_images
from radii.certification.load import noise_of
from radii.runs.run import Run
from radii.smoothing.attack import ascent, l2_ball
from radii.smoothing.forward import evaluating
from radii.smoothing.noise import Gaussian, noisy_copies
from radii.training.weights import trained_model

COPIES = 16
"""Draws of the noise for every step of an attack."""
ANSWERS = 64
"""Fresh draws by which the answers to an attacked picture are judged."""
BATCH = 32


def attacked(model: nn.Module, images: Tensor, labels: Tensor, noise: Gaussian, radius: float, steps: int) -> Tensor:
    """Return pictures within `radius` that raise the mean loss under fresh noise in every step."""
    rng = torch.Generator().manual_seed(1)

    def gain(points: Tensor) -> Tensor:
        logits = model(noisy_copies(points, COPIES, noise.sigma, rng).flatten(0, 1))
        return functional.cross_entropy(logits, labels.repeat(COPIES), reduction="sum")

    *_, last = ascent(images, gain, steps=steps, step_size=2.5 * radius / steps, project=l2_ball(images, radius))
    return last


def accuracy(model: nn.Module, images: Tensor, labels: Tensor, noise: Gaussian) -> Tensor:
    """Return, for every picture, the share of one-pass answers that are right."""
    rng = torch.Generator().manual_seed(2)
    with torch.inference_mode():
        logits = model(noisy_copies(images, ANSWERS, noise.sigma, rng).flatten(0, 1))
    right: Tensor = logits.argmax(1).view(ANSWERS, -1) == labels
    return right.double().mean(0)


def measure(run: Run, radius: float, images: int, steps: int, data: Path | None = None) -> dict[str, float]:
    """Attack evenly spaced test pictures of a run; return the accuracies with and without the attack."""
    test, noise = evaluated_images(run, "test", (), data).images, noise_of(run.recipe)
    if not isinstance(noise, Gaussian):
        raise ValueError(f"the noise of {run.path} is {noise}, expected Gaussian noise")
    chosen = torch.arange(0, len(test), max(1, len(test) // images))[:images]
    model, shares = trained_model(run), dict[str, list[Tensor]](still=[], attacked=[])
    with evaluating(model):
        for part in chosen.split(BATCH):
            pixels, labels = test.batch(part), test.labels[part]
            changed = attacked(model, pixels, labels, noise, radius, steps)
            shares["still"].append(accuracy(model, pixels, labels, noise))
            shares["attacked"].append(accuracy(model, changed, labels, noise))
    still, under = (torch.cat(shares[name]) for name in ("still", "attacked"))
    error = float(under.std()) / math.sqrt(len(chosen))
    return {"images": len(chosen), "still": float(still.mean()), "attacked": float(under.mean()), "error": error}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--radius", type=float, default=0.25)
    parser.add_argument("--images", type=int, default=500)
    parser.add_argument("--steps", type=int, default=20)
    options = parser.parse_args()
    print(json.dumps(measure(Run(options.run), options.radius, options.images, options.steps, options.data)))


if __name__ == "__main__":
    main()
