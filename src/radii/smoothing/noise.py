"""Gaussian noise, drawn from an address rather than from a running state."""

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor, nn


def noise_like(images: Tensor, copies: int, sigma: float, rng: torch.Generator) -> Tensor:
    """Noise for copies of every image: [copy, batch, channel, height, width], one draw."""
    noise = torch.randn((copies, *images.shape), generator=rng, dtype=images.dtype, device=images.device)
    return noise.mul_(sigma)


def noisy_copies(images: Tensor, count: int, sigma: float, rng: torch.Generator) -> Tensor:
    """Copies of every image, each under noise of its own: [copy, batch, channel, height, width], one draw."""
    return noise_like(images, count, sigma, rng).add_(images)


def logits_of(model: nn.Module, copies: Tensor) -> Tensor:
    """Logits of all copies from one forward: [copy, batch, class]."""
    logits = _forward(model, copies.flatten(0, 1))
    return logits.reshape(*copies.shape[:2], logits.shape[-1])


_PIECE = 256
"""Inputs of which a layer's maps stay in a processor's cache until the next layer reads them."""


def _forward(model: nn.Module, inputs: Tensor) -> Tensor:
    """One forward; on a CPU, many inputs go piece by piece where nobody can tell."""
    if inputs.device.type == "cpu" and len(inputs) >= 4 * _PIECE and sees_images_alone(model):
        return torch.cat([model(piece) for piece in inputs.split(_PIECE)])
    logits: Tensor = model(inputs)
    return logits


def sees_images_alone(model: nn.Module) -> bool:
    """Whether leaving an image out of a forward is surely noticed neither by the others nor later.

    Of a layer that somebody wrote by hand nothing is sure: it may keep batch statistics of its own.
    """
    return all(
        type(module).__module__.startswith(("torch.nn.modules.", "radii.")) and not _looks_around(module)
        for module in model.modules()
    )


def _looks_around(module: nn.Module) -> bool:
    return isinstance(module, nn.modules.batchnorm._NormBase) and (module.training or module.running_mean is None)


def generator(device: torch.device | str, *address: int) -> torch.Generator:
    """The random stream that belongs to an address of non-negative integers of any size."""
    seeds = np.random.SeedSequence(address)
    rng = torch.Generator(device)
    if rng.device.type != "cpu":
        return rng.manual_seed(int(seeds.generate_state(1, np.uint64)[0]))
    # manual_seed keeps 32 bits on the CPU, so streams would repeat after some ten thousand addresses;
    # the whole state of the Mersenne twister is laid instead.
    state = rng.manual_seed(0).get_state()
    words = state.numpy().view(np.uint64)
    words[_STATE] = seeds.generate_state(_STATE.stop - _STATE.start, np.uint32)
    rng.set_state(state)
    return rng


_STATE = slice(3, 627)
"""Where torch keeps the 624 words of the twister in a generator's state; tests hold it to that."""


@dataclass(frozen=True)
class NoiseAddress:
    """Where the noise of one image comes from: (seed, image, stage), a stream for every block."""

    seed: int
    image: int = 0
    stage: int = 0
    first_block: int = 0

    def at(self, stage: int) -> "NoiseAddress":
        """The address of another stage: its draws are independent of all other stages'."""
        return NoiseAddress(self.seed, self.image, stage)

    def from_block(self, block: int) -> "NoiseAddress":
        """The address of the rest of a stage: what is drawn there continues its first `block` blocks."""
        return replace(self, first_block=block)

    def generator(self, block: int, device: torch.device | str) -> torch.Generator:
        return generator(device, self.seed, self.image, self.stage, self.first_block + block)
