"""Grid noise: exact on the grid, without information in the last bits."""

import math
from pathlib import Path

import mpmath  # type: ignore[import-untyped]
import numpy as np
import pytest
import torch
from scipy.stats import chisquare
from torch import Tensor

import radii
from radii.cli import main
from radii.engines import SmoothedClassifier
from radii.runs import certificates
from radii.runs.recipe import Recipe, Training
from radii.smoothing.addresses import generator
from radii.smoothing.certificate import Certificate
from radii.smoothing.noise import Gaussian, Noise
from radii.smoothing.noise.grid import BITS, Grid, table
from radii.smoothing.streams import Stream
from radii.training.loop import train
from tools.stress.classifiers import LastBits

SIGMA = 0.25
SHAPE = (3, 32, 32)
BLACK = torch.zeros(SHAPE)
NEARLY_BLACK = torch.ones(SHAPE) / 255
DISTANCE = float((NEARLY_BLACK - BLACK).norm())


def certified(noise: Noise, image: Tensor) -> Certificate:
    classifier = SmoothedClassifier(LastBits(), noise=noise, classes=2)
    return radii.certify(classifier, image, seed=0, estimation=2_000)


def test_float_gaussian_noise_gives_a_false_certificate_for_a_crafted_base() -> None:
    """The limit of floats: a black image, certified beyond 0.6, and another class 0.22 away."""
    proof = certified(Gaussian(SIGMA), BLACK)
    assert (proof.prediction, certified(Gaussian(SIGMA), NEARLY_BLACK).prediction) == (0, 1)
    assert proof.radius > 0.6 > 2 * DISTANCE


@pytest.mark.parametrize("sigma", [0.12, 0.25, 1.0])
def test_grid_noise_gives_no_false_certificate_for_a_crafted_base(sigma: float) -> None:
    here, there = certified(Grid(sigma), BLACK), certified(Grid(sigma), NEARLY_BLACK)
    assert here.prediction == there.prediction or here.radius < DISTANCE > there.radius


@pytest.mark.parametrize("level", [1, 77, 255])
def test_noisy_pixels_depend_on_the_sum_alone(level: int) -> None:
    """The same draws on any image: integers shifted by its level, each with its own float."""
    moved = Grid(SIGMA).perturb(torch.full(SHAPE, level).float().div_(255), torch.empty(32, *SHAPE), rng(7))
    black = Grid(SIGMA).perturb(BLACK, torch.empty(32, *SHAPE), rng(7))
    assert torch.equal(whole(moved), whole(black) + level)
    for noisy in (moved, black):
        assert torch.equal(noisy, whole(noisy).float().div_(255))


def rng(number: int) -> torch.Generator:
    return generator("cpu", "measure", number)


def whole(noisy: Tensor) -> Tensor:
    return noisy.double().mul(255).round().long()


@pytest.mark.parametrize(("sigma", "levels"), [(0.12, 255), (0.5, 16), (0.001, 255)])
def test_the_edges_are_those_of_the_normal_distribution(sigma: float, levels: int) -> None:
    _, edges, lowest = table(sigma, levels)
    with mpmath.workdps(60):
        for number, edge in zip(range(lowest + 1, 1 - lowest), edges.tolist(), strict=True):
            truth = mpmath.ncdf((number - mpmath.mpf(1) / 2) / (mpmath.mpf(sigma) * levels))
            assert abs(edge - truth * 2**BITS) <= 1
        assert mpmath.ncdf((lowest - mpmath.mpf(1) / 2) / (mpmath.mpf(sigma) * levels)) * 2**BITS <= 1


def test_slack_covers_the_total_variation_of_an_image() -> None:
    _, edges, _ = table(SIGMA, 255)
    assert Grid(SIGMA).slack > 224 * 224 * 3 * (len(edges) + 2) * 2.0**-BITS
    assert Grid(SIGMA).slack < 1e-8
    assert Grid(SIGMA).radius(0.9) < Gaussian(SIGMA).radius(0.9)
    assert Grid(SIGMA).radius(0.9, 0.1) < Gaussian(SIGMA).radius(0.9, 0.1)
    assert Grid(SIGMA).probability_for(0.5) > Gaussian(SIGMA).probability_for(0.5)
    assert Grid(SIGMA).radius(0.0) == -np.inf


@pytest.mark.parametrize(("sigma", "levels"), [(0.02, 255), (0.25, 16)])
@pytest.mark.parametrize("older", [False, True])
def test_draws_have_the_frequencies_of_the_edges(sigma: float, levels: int, older: bool) -> None:
    _, edges, lowest = table(sigma, levels)
    noise, blank, out = Grid(sigma, levels), torch.zeros(100), torch.empty(4_000, 100)
    noisy = noise.perturb(blank, out, rng(1)) if older else noise.draw(blank, out, Stream.at("measure", 1), 0)
    counts = np.bincount(noisy.mul(levels).round().long().flatten().numpy() - lowest, minlength=len(edges) + 1)
    expected = np.diff([0, *edges.tolist(), 1 << BITS]) / 2**BITS * noisy.numel()
    often = expected > 20
    assert chisquare(counts[often], expected[often] * counts[often].sum() / expected[often].sum()).pvalue > 1e-4
    assert counts[~often].sum() == pytest.approx(expected[~often].sum(), abs=5 * expected[~often].sum() ** 0.5 + 1)


def test_every_draw_is_the_level_of_its_63_bits() -> None:
    """Pixels that 16 bits do not settle take 47 more from another lane, in the order of the pixels of their copy."""
    noise, stream, width = Grid(0.12), Stream.at("measure", 2), 50
    found = noise.draw(torch.zeros(width), torch.empty(300, width), stream, 7).mul(255).round().long()
    guide, edges, lowest = table(0.12, 255)
    share = float(guide.isnan().double().mean())
    first = stream.words(7, 300, -(-width // 4)).view(torch.int16)[:, :width].long() + (1 << 15)
    spare = 4 * math.ceil((share * width + 16 * math.sqrt(share * width) + 32) / 4)
    more = stream.words(7, 300, spare, lane=1) & ((1 << 47) - 1)
    unsettled = 0
    for row in range(300):
        rank = 0
        for pixel in range(width):
            low, high = (int(first[row, pixel]) << 47, ((int(first[row, pixel]) + 1) << 47) - 1)
            ends = torch.searchsorted(edges, torch.tensor([low, high]), right=True)
            if ends[0] != ends[1]:
                ends = torch.searchsorted(edges, torch.tensor([low + int(more[row, rank])]), right=True)
                rank += 1
            assert int(ends[0]) + lowest == int(found[row, pixel])
        unsettled += rank
    assert unsettled > 20


def test_copies_do_not_depend_on_the_portions() -> None:
    noise, stream, image = Grid(SIGMA), Stream.at("measure", 3), torch.rand(28, 28).mul(255).round() / 255
    whole = noise.draw(image, torch.empty(40, 28, 28), stream, 0)
    parts = [
        noise.draw(image, torch.empty(count, 28, 28), stream, first) for first, count in ((0, 1), (1, 16), (17, 23))
    ]
    assert torch.equal(torch.cat(parts), whole)


def test_image_of_other_levels_is_refused() -> None:
    classifier = SmoothedClassifier(LastBits(), noise=Grid(SIGMA), classes=2)
    for image in (torch.full(SHAPE, 0.5), torch.full(SHAPE, 1 / 65_535)):
        with pytest.raises(ValueError, match="not multiples of 1/255, which grid noise needs. State the levels"):
            radii.certify(classifier, image, seed=0, estimation=100)


def test_too_large_image_is_refused() -> None:
    with pytest.raises(ValueError, match="has 4,194,305 pixels, grid noise takes 4,194,304 at most"):
        Grid(SIGMA).perturb(torch.zeros(1), torch.empty(1, (1 << 22) + 1), rng(0))


@pytest.mark.slow
def test_grid_noise_works_on_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    images = np.random.default_rng(0).integers(0, 256, (64, 8, 8), np.uint8)
    content = {f"{split}_images": images for split in ("train", "test")}
    labels = {f"{split}_labels": np.arange(64) % 2 for split in ("train", "test")}
    np.savez(tmp_path / "arrays.npz", allow_pickle=False, **content, **labels)
    training = Training(epochs=1, images_per_step=32, learning_rate=0.01)
    recipe = Recipe(dataset="arrays", model="digits_mlp", sigma=SIGMA, training=training)
    run = train(recipe, tmp_path / "run", data=tmp_path / "arrays.npz")
    for engine in ("auto", "torch"):
        command = f"radii certify {run.path} --noise grid --engine {engine} --max 3 --workers 1 --set estimation=200"
        monkeypatch.setattr("sys.argv", command.split())
        with pytest.raises(SystemExit) as end:
            main()
        assert end.value.code == 0
    (made, *_) = [certificates.read(path) for path in run.certificates.glob("*.tsv")]
    assert made.header["noise"] == {"name": "grid", "sigma": SIGMA, "levels": 255}
    assert len(made.rows) == 3
