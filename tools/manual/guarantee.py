"""The figures of "What is guaranteed": real votes of a model in results/, and a plane where the truth is computed."""

import shutil
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import torch
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter
from scipy.special import ndtri
from torch import Tensor

import radii
from radii import datasets
from radii.disk import digest
from radii.reports.text import down
from radii.runs.run import Run
from radii.smoothing.addresses import NoiseAddress
from radii.smoothing.bounds import binomial_lower
from tools.manual.drawing import GRID, INK, MUTED, PALETTE, figure, grid, picture

RUN = Path(__file__).parents[2] / "results" / "digits" / "thirty-epochs" / "gaussian"
SIGMA, SAMPLES, FAILURE = 0.25, 10_000, 0.001
CLEAR, CLOSE, CHANGE = 12, 198, 0.5
"""Two test images, the second with the closest vote among the first two hundred, and the length of a change."""
CLASSES = "0123456789"


class Votes(NamedTuple):
    """A test image, some noisy copies of it with their classes, and the votes of many."""

    image: Tensor
    copies: list[Tensor]
    answers: list[int]
    counts: list[int]


@cache
def classifier() -> radii.SmoothedClassifier:
    """Return the smoothed classifier, loaded from a copy: loading may write to the run."""
    with TemporaryDirectory() as folder:
        for file in ("recipe.toml", "model.safetensors", "environment.json"):
            shutil.copy(RUN / file, folder)
        return radii.load(Run(folder), engine="torch")


@cache
def images() -> Tensor:
    split = datasets.create("digits").split("test")
    return split.batch(torch.arange(len(split)))


def votes(index: int) -> Votes:
    """Return the votes of the noisy copies of a test image."""
    image, smoothed = images()[index], classifier()
    copies = smoothed.noise.perturb(image, torch.empty(5, *image.shape), torch.Generator().manual_seed(7))
    with torch.inference_mode():
        answers = smoothed.base(copies).argmax(1).tolist()
    counts = smoothed.votes(image, SAMPLES, NoiseAddress(0, index)).tolist()
    return Votes(image, list(copies), answers, counts)


def radius(counts: list[int]) -> float:
    """Return the certified radius of the class with the most votes; below zero it abstains."""
    return float(SIGMA * ndtri(binomial_lower(max(counts), SAMPLES, FAILURE)))


def made_from() -> list[Any]:
    """Return the rounded data of a figure: another machine may count a few votes differently."""
    return [digest(RUN / "model.safetensors"), CLEAR, CLOSE, CHANGE, SIGMA, SAMPLES]


def smoothing() -> tuple[Figure, Any]:
    """Two pictures: noisy copies with their answers, the votes, and the radius or an abstention."""
    found = votes(CLEAR), votes(CLOSE)
    drawn = figure(9.2, 4.4)
    halves: Any = drawn.subfigures(1, 2, width_ratios=[5.2, 2.8])
    pictures, bars = halves
    pictures.suptitle(
        "a picture, four of its noisy copies, and what the network says to each", fontsize=10, color=MUTED
    )
    bars.suptitle("10,000 copies vote", fontsize=10, color=MUTED)
    for row, space, each in zip(pictures.subplots(2, 5), bars.subplots(2, 1), found, strict=True):
        _vote_row(row, space, each)
    return drawn, made_from()


def _vote_row(row: Any, bars: Any, found: Votes) -> None:
    best = int(np.argmax(found.counts))
    picture(row[0], found.image[0].numpy(), below=" ")
    for axes, copy, answer in zip(row[1:], found.copies, found.answers, strict=False):
        colour = PALETTE[0] if answer == best else PALETTE[1]
        picture(axes, copy[0].clamp(0, 1).numpy(), below=f"“{CLASSES[answer]}”", colour=colour)
    _bars(bars, found.counts, best)


def _bars(axes: Any, counts: list[int], best: int) -> None:
    colours = [PALETTE[0] if number == best else PALETTE[1] for number in range(len(counts))]
    axes.bar(list(CLASSES), [100 * count / SAMPLES for count in counts], color=colours)
    axes.set(ylim=(0, 100), yticks=[0, 50, 100], yticklabels=["0 %", "50 %", "100 %"])
    axes.tick_params(labelsize=8.5)
    proven = radius(counts)
    said = f"answer {CLASSES[best]}, radius {down(proven, 3)}" if proven > 0 else "no majority: it abstains"
    axes.set_title(f"{max(counts):,} say {CLASSES[best]}\n{said}", fontsize=10, loc="left")


def plane() -> tuple[Figure, Any]:
    """Return a base classifier of two numbers, and its smoothed version, computed on a grid."""
    side, reach, sigma = np.linspace(-2, 2, 401), 2.0, 0.45
    x, y = np.meshgrid(side, side)
    wave = np.sin(9 * x + 3 * np.sin(5 * y)) * 0.62 + np.sin(8 * y - 3 * x) * 0.5
    regions = np.where(y + 0.35 * x + wave > 0.55, 0, np.where(x - 0.3 * y + wave > -0.2, 1, 2))
    step = side[1] - side[0]
    smooth = np.stack(
        [gaussian_filter((regions == label).astype(float), sigma / step, mode="nearest") for label in range(3)]
    )
    point = (0.62, -0.72)
    at = tuple(int(np.abs(side - value).argmin()) for value in reversed(point))
    proven = float(sigma * ndtri(smooth[:, at[0], at[1]].max()))
    drawn = figure(8.6, 4.3)
    left, right = drawn.subplots(1, 2)
    _regions(left, regions, reach, "The network: one small step can change the answer")
    _regions(right, smooth.argmax(0), reach, "The vote under noise: no step inside the circle can")
    _cloud(left, point, sigma)
    _ball(right, point, proven)
    return drawn, [round(proven, 6), sigma, point]


def _regions(axes: Any, regions: NDArray[Any], reach: float, title: str) -> None:
    from matplotlib.colors import ListedColormap

    tints = ListedColormap(["#cfe3f5", "#fbe0cf", "#d3ede4"])
    axes.imshow(regions, origin="lower", extent=(-reach, reach, -reach, reach), cmap=tints, vmin=0, vmax=2)
    axes.set(xticks=[], yticks=[], xlim=(-1.4, 1.9), ylim=(-1.9, 1.4))
    axes.set_title(title, fontsize=10, loc="left")
    for spine in axes.spines.values():
        spine.set(visible=True, color=GRID)


def _cloud(axes: Any, point: tuple[float, float], sigma: float) -> None:
    dots = np.array(point) + sigma * np.random.default_rng(3).standard_normal((160, 2))
    axes.scatter(*dots.T, s=7, color=MUTED, alpha=0.6, linewidth=0)
    axes.scatter(*point, s=46, color=INK, zorder=3)
    axes.annotate("the picture, and noisy copies of it", point, (-1.3, -1.78), fontsize=9)


def _ball(axes: Any, point: tuple[float, float], proven: float) -> None:
    from matplotlib.patches import Circle

    axes.add_patch(Circle(point, proven, fill=False, color=INK, linewidth=1.6))
    axes.scatter(*point, s=46, color=INK, zorder=3)
    axes.annotate(
        "certified radius",
        (point[0], point[1] - proven),
        (-1.3, -1.78),
        fontsize=9,
        arrowprops={"arrowstyle": "-", "color": MUTED},
    )


def radii_of_votes() -> tuple[Figure, Any]:
    """Draw the certified radius against the share of votes, for several numbers of samples."""
    drawn = figure(7.4, 3.9)
    axes = drawn.subplots()
    numbers = (100, 1_000, 10_000, 100_000)
    curves = {}
    for number, colour in zip(numbers, (PALETTE[4], PALETTE[2], PALETTE[1], PALETTE[0]), strict=True):
        hits = np.unique(np.linspace(number // 2, number, 400).astype(int))
        proven = [float(ndtri(binomial_lower(int(hit), number, FAILURE))) for hit in hits]
        kept = [(100 * hit / number, value) for hit, value in zip(hits, proven, strict=True) if value > 0]
        axes.plot(*zip(*kept, strict=True), color=colour, linewidth=1.9)
        axes.annotate(
            f"n = {number:,}: at most {down(kept[-1][1], 2)} sigma",
            kept[-1],
            (101, kept[-1][1]),
            fontsize=9,
            color=colour,
            va="center",
            annotation_clip=False,
        )
        curves[number] = round(kept[-1][1], 6)
    axes.axvspan(44, 50, color=GRID, alpha=0.7, linewidth=0)
    axes.text(
        47.1, 2, "half the votes or fewer: abstains", fontsize=9, color=MUTED, ha="center", va="center", rotation=90
    )
    axes.set(xlim=(44, 100), ylim=(0, 4), xlabel="votes for the leading class, %", ylabel="certified radius, in sigma")
    grid(axes)
    return drawn, curves


def change() -> tuple[Figure, Any]:
    """Draw a digit, a noisy copy of it and a change at the radius."""
    image = images()[CLEAR]
    noisy = votes(CLEAR).copies[0]
    changed, counts = worst(image, CHANGE)
    drawn = figure(6.8, 2.2)
    spaces = drawn.subplots(1, 4, width_ratios=[1, 1, 1, 1])
    picture(spaces[0], image[0].numpy(), "the picture")
    picture(spaces[1], noisy[0].clamp(0, 1).numpy(), "a noisy copy,\nsigma 0.25")
    picture(spaces[2], changed[0].numpy(), f"the worst change found\nof length {CHANGE}")
    spaces[3].axis("off")
    proven = radius(votes(CLEAR).counts)
    after = f"{max(counts):,} of {SAMPLES:,} votes\nstill say {CLASSES[int(np.argmax(counts))]}"
    words = f"certified radius {down(proven, 3)}\n\nafter the change\n{after}"
    spaces[3].text(0, 0.5, words, va="center", fontsize=9.5)
    return drawn, made_from()


def worst(image: Tensor, length: float, steps: int = 20) -> tuple[Tensor, list[int]]:
    """Search by gradient steps for a change of this length that lowers the answer's mean probability; return it with
    the votes after it."""
    smoothed = classifier()
    label = int(np.argmax(votes(CLEAR).counts))
    noise = SIGMA * torch.randn((128, *image.shape), generator=torch.Generator().manual_seed(3))
    delta = torch.zeros_like(image)
    for _ in range(steps):
        delta.requires_grad_()
        share = smoothed.base(image + delta + noise).softmax(1)[:, label].mean()
        (slope,) = torch.autograd.grad(share, delta)
        moved = delta.detach() - 0.2 * length * slope / slope.norm().clamp(min=1e-12)
        delta = moved * (length / moved.norm()).clamp(max=1)
    changed = (image + delta).detach().clamp(0, 1)
    return changed, smoothed.votes(changed, SAMPLES, NoiseAddress(2, CLEAR)).tolist()


FIGURES = {"smoothing": smoothing, "plane": plane, "radius": radii_of_votes, "change": change}
