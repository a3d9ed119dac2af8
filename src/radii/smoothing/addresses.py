"""Random streams that are derived from an address instead of a running state."""

from dataclasses import dataclass, replace

import numpy as np
import torch


def generator(device: torch.device | str, *address: int) -> torch.Generator:
    """The random stream that belongs to an address of non-negative integers of any size."""
    seeds = np.random.SeedSequence(address)
    rng = torch.Generator(device)
    if rng.device.type != "cpu":
        return rng.manual_seed(int(seeds.generate_state(1, np.uint64)[0]))
    # manual_seed keeps 32 bits on the CPU, so streams would repeat after some ten thousand addresses;
    # the whole state of the Mersenne Twister is written instead.
    state = rng.manual_seed(0).get_state()
    words = state.numpy().view(np.uint64)
    words[_STATE] = seeds.generate_state(_STATE.stop - _STATE.start, np.uint32)
    rng.set_state(state)
    return rng


_STATE = slice(3, 627)
"""Where torch keeps the 624 words of the Mersenne Twister in a generator's state; a test checks it."""


@dataclass(frozen=True)
class NoiseAddress:
    """The address of the noise of one image: (seed, image, stage), with a stream for every block."""

    seed: int
    image: int = 0
    stage: int = 0
    first_block: int = 0

    def at(self, stage: int) -> "NoiseAddress":
        """The address of another stage: its draws are independent of all other stages' draws."""
        return NoiseAddress(self.seed, self.image, stage)

    def from_block(self, block: int) -> "NoiseAddress":
        """The address of a stage without its first `block` blocks: its draws continue those."""
        return replace(self, first_block=block)

    def generator(self, block: int, device: torch.device | str) -> torch.Generator:
        return generator(device, self.seed, self.image, self.stage, self.first_block + block)
