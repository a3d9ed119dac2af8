"""Random streams that are derived from an address instead of a running state.

An address is a word for its purpose and whole numbers. What seeds a stream is four words of 32 bits for certification,
(seed, image, stage, block), five for the noise of training, (2, seed, epoch, step, 0), and for every other purpose, the
noise of training by another rank than 0, or a number beyond 32 bits, the eight words of a SHA-256 of the purpose and
the numbers. A seed sequence tells words of different lengths apart from four on, so no stream of one purpose is ever
that of another: weights cannot depend on the noise that certifies them.
"""

import hashlib
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch

Purpose = Literal[
    "certify",
    "train",
    "shuffle",
    "augment",
    "evaluate",
    "soft_labels",
    "probe",
    "calibrate",
    "time",
    "measure",
    "validation",
    "corrupt",
    "attack",
    "judge",
    "module",
]
"""What a stream is drawn for."""

PHILOX = "philox4x64"
"""What headers call the streams of `radii.smoothing.streams`. Headers of older files name no stream."""
TRAINING_NOISE = 2


def generator(device: torch.device | str, purpose: Purpose, *address: int) -> torch.Generator:
    """Return the random stream that belongs to a purpose and an address of non-negative integers of any size."""
    seeds = np.random.SeedSequence(entropy(purpose, *address))
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


def entropy(purpose: Purpose, *address: int) -> tuple[int, ...]:
    """Return the 32-bit words that seed a stream: no two purposes or addresses have the same."""
    fits = all(0 <= number < 1 << 32 for number in address)
    if purpose == "certify" and fits and len(address) == 4:
        return address
    if purpose == "train" and fits and len(address) == 3:
        return (TRAINING_NOISE, *address, 0)
    if min(address, default=0) < 0:
        raise ValueError(f"the address {address} of a random stream has a number below 0, expected whole numbers >= 0")
    # Fewer than four words would be filled up with zeros, and a number of several words could be read as several.
    digest = hashlib.sha256(f"{purpose} {' '.join(map(str, address))}".encode()).digest()
    return tuple(np.frombuffer(digest, "<u4").tolist())


_STATE = slice(3, 627)
"""Where torch keeps the 624 words of the Mersenne Twister in a generator's state; a test checks it."""


@dataclass(frozen=True)
class NoiseAddress:
    """The address of the noise of one image: (seed, image, stage).

    `stream` names the streams; None stands for those of this module, which older files were made with. Of these every
    block of copies has its own.
    """

    seed: int
    image: int = 0
    stage: int = 0
    purpose: Purpose = "certify"
    stream: str | None = PHILOX

    def at(self, stage: int) -> "NoiseAddress":
        """Return the address of another stage: its draws are independent of all other stages' draws."""
        return replace(self, stage=stage)

    def generator(self, block: int, device: torch.device | str) -> torch.Generator:
        return generator(device, self.purpose, self.seed, self.image, self.stage, block)
