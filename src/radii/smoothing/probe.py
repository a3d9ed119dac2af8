"""Checks that a base classifier's output for an image depends on that image alone."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from radii.errors import ParameterError
from radii.smoothing.addresses import Purpose, generator
from radii.smoothing.forward import without_tf32
from radii.smoothing.logits import double, same_up_to_rounding
from radii.smoothing.noise.base import Noise
from radii.smoothing.streams import Stream

PROBE: Purpose = "probe"

Forward = Callable[[Tensor], Tensor]
"""Checked logits of a block [batch, height, width, channel]."""


@dataclass
class _Reference:
    """A block of noisy copies and its logits, which other blocks are compared with."""

    pixels: Tensor
    noise: Noise
    batch_size: int
    logits: Tensor = field(init=False)

    def block(self) -> Tensor:
        """Draw the noisy copies; they are drawn again each time because they are large."""
        return self._copies(self.pixels, 0)

    def companions(self) -> Tensor:
        """Draw as many copies of a very different image: black where this one is bright, white where it is dark."""
        return self._copies((self.pixels < 0.5).to(self.pixels.dtype), 1)

    def _copies(self, pixels: Tensor, number: int) -> Tensor:
        block = torch.empty(self.batch_size, *pixels.shape, device=pixels.device)
        if self.noise.stream is None:
            return self.noise.perturb(pixels, block, generator(pixels.device, PROBE, number))
        return self.noise.draw(pixels, block, Stream.at(PROBE, number), 0)


class BlockProbe:
    """Refuses a base whose output for a row depends on the other rows of its block, on their number or on its position.

    Votes of such a base are not independent draws of one function, and a certificate of them is false. For every
    image size it runs a whole block of noisy copies four times: twice as it is, with its rows in other positions,
    and with half of them among copies of another image; then half a block and one row. That costs 4.5 blocks of
    `batch_size`, once per classifier and image size: 6 % of a certificate of 10,000 samples. Its noise is a separate
    stream, so that certificates do not depend on it.
    """

    def __init__(self) -> None:
        self._passed: set[Hashable] = set()

    def check(
        self,
        base: nn.Module,
        forward: Forward,
        pixels: Tensor,
        noise: Noise,
        batch_size: int,
        device: torch.device | None = None,
    ) -> None:
        """Raise a ParameterError unless rows are classified independently; `device` is the base's, or the pixels'."""
        key = (base, noise, batch_size, tuple(pixels.shape))
        if key in self._passed:
            return
        reference = _Reference(pixels.to(device or pixels.device, copy=True), noise, batch_size)
        with without_tf32():
            _check_whole_block(base, forward, reference)
            for length in sorted({1, max(1, batch_size // 2)} - {batch_size}):
                _check_length(base, forward, reference, length)
        # Threads may probe at the same time: their results are equal.
        self._passed.add(key)


def _check_whole_block(base: nn.Module, forward: Forward, reference: _Reference) -> None:
    block = reference.block()
    logits = reference.logits = forward(block).clone()
    _expect_equal(forward(block), logits)
    order = torch.randperm(len(block), generator=generator("cpu", PROBE, 2)).to(block.device)
    kept = order[: (len(block) + 1) // 2]
    mixed = reference.companions()
    mixed[kept] = block[kept]
    _expect_same(base, forward(mixed)[kept], kept, logits, "on the other images of its block")
    # Along a random cycle every row moves to an unrelated position.
    places = torch.empty_like(order)
    places[order] = order.roll(1)
    _expect_same(base, forward(block[places]), places, logits, "on its position in the block")


def _check_length(base: nn.Module, forward: Forward, reference: _Reference, length: int) -> None:
    block = reference.block()
    short = forward(block[:length])
    _expect_same(base, short, torch.arange(length), reference.logits, "on the length of its block")


def _expect_equal(logits: Tensor, before: Tensor) -> None:
    if not torch.equal(logits, before):
        raise ParameterError(
            "the base classifier is not deterministic in eval mode: two forward passes of one block differ; "
            "remove what draws random numbers (such as functional dropout)",
            "base",
        )


def _expect_same(base: nn.Module, logits: Tensor, rows: Tensor, block: Tensor, on_what: str) -> None:
    """Raise a ParameterError unless logits are those of the same rows of a block, up to rounding."""
    alone = block[rows.to(block.device)]
    if same_up_to_rounding(logits, alone, block=block):
        return
    changed = float((logits.argmax(1) != alone.argmax(1)).float().mean())
    size = float((double(logits) - double(alone)).abs().max())
    raise ParameterError(
        f"the base classifier's output for an image depends {on_what}: logits differ by up to {size:.2g} and the class "
        f"of {changed:.0%} of the images, more than rounding explains{_suspect(base)}; "
        "certify a model that classifies each image independently",
        "base",
    )


def _suspect(base: nn.Module) -> str:
    """Name the first layer that is known to mix the images of a block."""
    for name, module in base.named_modules():
        if isinstance(module, nn.modules.batchnorm._NormBase) and (module.training or module.running_mean is None):
            return f" (its layer {name!r}, {type(module).__name__}, uses the statistics of the block)"
        if ".dynamic" in type(module).__module__:
            return f" (its layer {name!r}, {type(module).__name__}, is quantised by the range of the block)"
    return ""
