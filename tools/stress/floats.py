"""Item 14: what floating point can be made to promise."""

import torch

import radii
from radii.smoothing.certificate import Certificate
from radii.smoothing.classifier import SmoothedClassifier
from radii.smoothing.noise import Gaussian, Grid, Noise
from tools.stress.bases import LastBits
from tools.stress.outcome import Effort, Outcome

SHAPE = (3, 32, 32)


def last_bits(effort: Effort) -> Outcome:
    """A base that reads the last bits of float32, on a black picture and on one a level brighter, 0.22 away, under
    several sigmas and seeds: certificates that the other picture overturns inside their radius. Under Gaussian noise
    that is known and documented, under grid noise it must not be."""
    sigmas, tries = (0.12, 0.25, 1.0), effort.times(3, 1)
    cases = [(sigma, seed) for sigma in sigmas for seed in range(tries)]
    gaussian = sum(_overturned(Gaussian(sigma), seed) for sigma, seed in cases)
    grid = [f"sigma {sigma}, seed {seed}" for sigma, seed in cases if _overturned(Grid(sigma), seed)]
    remark = f"{gaussian} of {len(cases)} overturned under Gaussian noise"
    return Outcome({"sigmas": len(sigmas), "seeds": tries}, {"overturned under grid noise": grid}, remark)


def _overturned(noise: Noise, seed: int) -> bool:
    black, brighter = torch.zeros(SHAPE), torch.ones(SHAPE) / 255
    here, there = _certified(noise, black, seed), _certified(noise, brighter, seed)
    distance = float((brighter - black).norm())
    return here.prediction != there.prediction and max(here.radius, there.radius) > distance


def _certified(noise: Noise, image: torch.Tensor, seed: int) -> Certificate:
    classifier = SmoothedClassifier(LastBits(), noise=noise, classes=2)
    return radii.certify(classifier, image, seed=seed, estimation=200)
