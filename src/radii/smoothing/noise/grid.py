"""Gaussian noise on the grid of 8-bit images, drawn as integers: the sum has no rounding that depends on the image."""

import math
from dataclasses import dataclass
from decimal import Decimal, localcontext
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.special import ndtr, ndtri
from torch import Tensor

from radii.errors import ParameterError
from radii.fields import option
from radii.smoothing.noise.gaussian import Gaussian
from radii.smoothing.streams import GROUP, Stream

GUIDE_BITS, BITS = 16, 63
"""The random bits that suffice for most draws, and the bits of a whole draw."""
MOST_PIXELS = 1 << 22
"""Of the largest image, channels included: the error of the sampler grows with it."""
ARITHMETIC = 1e-12
"""The error of bounds and quantiles in double precision, subtracted from every probability."""
ON_GRID = 1e-4
"""How far a float may be from a level, in levels: above rounding, and a tenth of what 16-bit images need."""
DIGITS = 50
PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494")


@dataclass(frozen=True)
class Grid(Gaussian):
    """Normal noise, rounded to the levels of the image; `levels` is 255 for bytes, and pixels are k / levels.

    What is proven: let Q round to the nearest level. The base classifier is f(Q(.)), for any f, and what is
    certified is its smoothing by exact normal noise of deviation `sigma`, so Cohen's theorem holds for it unchanged,
    for every image of real numbers within the radius. For an image x on the levels, Q(x + noise) is x + Q(noise),
    so it suffices to draw Q(noise), which is an integer: by comparing 63 random bits with the
    normal distribution's values at the edges between levels, themselves computed to 50 digits. The sum is one of
    integers too, and f gets a float that depends on the sum alone: the same for every image and noise that add up
    to it. So the last bits carry no information about the image, unlike with normal noise in float32, where a base
    classifier that reads them can be certified and still change its class well inside its radius.

    The integers are off from Q(noise) by no more than `slack` in total variation over an image of up to four
    million pixels; it is taken from the top class's probability and given to the runner-up's before a radius is
    computed. Float32 arithmetic inside f is not a problem: f is a function of the grid's points, certified as it runs.

    Assumed: the generator's bits are independent and fair, f is one deterministic function of each row of a
    block, and the deployed classifier gets images on the same levels.
    """

    sigma: float = option(gt=0, le=4)
    levels: int = option(255, ge=1, le=255)

    def perturb(self, pixels: Tensor, out: Tensor, rng: torch.Generator) -> Tensor:
        _expect_few(out[0].numel())
        self.check(pixels)
        torch.add((pixels * self.levels).round(), self._draw(out.shape, rng), out=out)
        return out.div_(self.levels)

    def draw(self, pixels: Tensor, out: Tensor, stream: Stream, first: int) -> Tensor:
        self._fill(out.view(len(out), -1), stream, first)
        return out.add_((pixels * self.levels).round()).div_(self.levels)

    def check(self, image: Tensor) -> None:
        _expect_few(image.numel())
        scaled = image * self.levels
        if bool((scaled - scaled.round()).abs().max() > ON_GRID):
            raise ParameterError(
                f"the image has pixels that are not multiples of 1/{self.levels}, which grid noise needs. State "
                "the levels of this image, use an image of that many, or use Gaussian noise.",
                "noise",
            )

    def nearest(self, images: Tensor) -> Tensor:
        return (images * self.levels).round() / self.levels

    def radius(self, probability: Any, runner_up: Any = None) -> Any:
        lower = ndtri(np.maximum(probability - self.slack, 0.0))
        if runner_up is None:
            return self.sigma * lower
        return self.sigma / 2 * (lower - ndtri(np.minimum(runner_up + self.slack, 1.0)))

    def probability_for(self, radius: float) -> float:
        return min(1.0, float(ndtr(radius / self.sigma)) + self.slack)

    def probability_after(self, probability: Any, radius: float) -> Any:
        before = np.maximum(np.asarray(probability) - self.slack, 0.0)
        return np.maximum(super().probability_after(before, radius) - self.slack, 0.0)

    @cached_property
    def slack(self) -> float:
        """Return how far a probability under the drawn noise may differ from that under exact normal noise."""
        edges = len(self._table.edges)
        return MOST_PIXELS * (edges + 2) * 2.0**-BITS + ARITHMETIC

    @property
    def _table(self) -> "Table":
        return table(self.sigma, self.levels)

    def _draw(self, shape: torch.Size, rng: torch.Generator) -> Tensor:
        """Draw whole numbers, as floats: most by 16 random bits, the rest by 47 more."""
        guide, edges, lowest = self._table
        words = torch.empty(math.ceil(shape.numel() / 4), dtype=torch.int64, device=rng.device)
        words.random_(-(2**63), None, generator=rng)
        top = words.view(torch.int16)[: shape.numel()].long().add_(1 << GUIDE_BITS - 1)
        drawn = guide.to(rng.device).index_select(0, top)
        unsettled = drawn.isnan().nonzero().flatten()
        more = torch.empty_like(unsettled).random_(0, 1 << BITS - GUIDE_BITS, generator=rng)
        number = (top[unsettled] << BITS - GUIDE_BITS) + more
        drawn[unsettled] = (torch.searchsorted(edges.to(rng.device), number, right=True) + lowest).float()
        return drawn.view(shape)

    def _fill(self, out: Tensor, stream: Stream, first: int) -> None:
        """Fill [copy, pixel] with whole numbers: most by 16 random bits, the rest by 47 more.

        The pixels of a copy that need more bits take words of another lane one after the other. There are `spare` words
        for each copy; a pixel that finds none, which has a probability below 1e-25, is NaN and never certified.
        """
        count, width = out.shape
        (guide, edges, lowest), share = _table_on(self.sigma, self.levels, out.device)
        spare = GROUP * math.ceil((share * width + 16 * math.sqrt(share * width) + 32) / GROUP)
        words = stream.words(first, count, -(-width // 4), device=out.device)
        top = words.view(torch.int16)[:, :width].long().add_(1 << GUIDE_BITS - 1)
        torch.index_select(guide, 0, top.flatten(), out=out.view(-1))
        more = stream.words(first, count, spare, lane=1, device=out.device) & ((1 << BITS - GUIDE_BITS) - 1)
        if out.device.type == "cpu":
            rows, columns = out.isnan().nonzero(as_tuple=True)
            rank = torch.arange(len(rows)) - torch.searchsorted(rows, rows)
            number = (top[rows, columns] << BITS - GUIDE_BITS) + more[rows, rank.clamp(max=spare - 1)]
            level = (torch.searchsorted(edges, number, right=True) + lowest).float()
            out[rows, columns] = level.masked_fill(rank >= spare, torch.nan)
            return
        # The same for all pixels: to find those that need it, the device would have to wait.
        unsettled = out.isnan()
        rank = unsettled.cumsum(1) - 1
        number = (top << BITS - GUIDE_BITS) + more.gather(1, rank.clamp(0, spare - 1))
        level = (torch.searchsorted(edges, number, right=True) + lowest).float()
        torch.where(unsettled, level.masked_fill(rank >= spare, torch.nan), out, out=out)


class Table(NamedTuple):
    """How random numbers become noise: a number of 63 bits is as many levels above the lowest as edges are below it."""

    guide: Tensor
    """The noise by the first 16 bits; NaN where more bits are needed."""
    edges: Tensor
    """The first number of each level but the lowest."""
    lowest: int
    """The lowest noise."""


@lru_cache(maxsize=8)
def table(sigma: float, levels: int) -> Table:
    """Compute the table of a noise, once."""
    upper = _upper_edges(sigma, levels)
    edges = np.array([(1 << BITS) - edge for edge in reversed(upper)] + upper, np.int64)
    ends = np.arange(1 << GUIDE_BITS, dtype=np.int64) << (BITS - GUIDE_BITS)
    first = edges.searchsorted(ends, side="right")
    last = edges.searchsorted(ends + ((1 << BITS - GUIDE_BITS) - 1), side="right")
    guide = np.where(first == last, first - len(upper), np.nan).astype(np.float32)
    return Table(torch.from_numpy(guide), torch.from_numpy(edges), -len(upper))


@lru_cache(maxsize=8)
def _table_on(sigma: float, levels: int, device: torch.device) -> tuple[Table, float]:
    """Return the table of a noise on a device, and the share of draws for which more than 16 bits are needed."""
    with torch.inference_mode(False):
        guide, edges, lowest = table(sigma, levels)
        return Table(guide.to(device), edges.to(device), lowest), float(guide.isnan().double().mean())


def _expect_few(pixels: int) -> None:
    if pixels > MOST_PIXELS:
        raise ParameterError(f"the image has {pixels:,} pixels, grid noise takes {MOST_PIXELS:,} at most", "noise")


def _upper_edges(sigma: float, levels: int) -> list[int]:
    """Return where noise 1, 2, ... begin among the numbers of 63 bits, as far as they differ from the largest one."""
    edges: list[int] = []
    with localcontext() as context:
        context.prec = DIGITS
        step = 1 / (Decimal(sigma) * levels)
        while True:
            below = _normal_cdf((len(edges) + Decimal("0.5")) * step)
            edge = int((below * (1 << BITS)).to_integral_value())
            if edge >= (1 << BITS):
                return edges
            edges.append(edge)


def _normal_cdf(x: Decimal) -> Decimal:
    """Return the normal distribution function at x >= 0 by its series of positive terms: nothing cancels."""
    term = total = x
    divisor = 1
    while term > total.scaleb(-DIGITS):
        divisor += 2
        term = term * x * x / divisor
        total += term
    return Decimal("0.5") + total * (-x * x / 2).exp() / (2 * PI).sqrt()
