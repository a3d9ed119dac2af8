"""Items 1 to 4 and 14: are votes counted correctly, and are certificates safe against rounding?"""

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import torch
from torch import Tensor, nn

import radii
from radii import certifiers, engines, models
from radii.certifiers.base import Voter
from radii.engines import EngineSpec, SmoothedClassifier, prepare
from radii.smoothing.addresses import NoiseAddress
from radii.smoothing.certificate import Certificate
from radii.smoothing.noise import Gaussian, Noise
from radii.smoothing.noise.grid import Grid
from tools.stress.classifiers import (
    BY_COMPANY,
    BY_LENGTH,
    BY_PLACE,
    HONEST,
    NETS,
    SHAPE,
    Base,
    Fault,
    LastBits,
)
from tools.stress.outcome import Effort, Outcome, refused
from tools.voters import miscounter, plain

BLOCK = 32
WRONG_OUTPUTS: dict[str, Callable[[Tensor, Tensor], object]] = {
    "every row twice": lambda z, _: z.repeat_interleave(2, 0),
    "the block twice": lambda z, _: torch.cat([z, z]),
    "three rows too few": lambda z, _: z[:-3],
    "one row": lambda z, _: z[:1],
    "two classes": lambda z, _: z[:, :2],
    "four classes": lambda z, _: torch.cat([z, z[:, :1]], 1),
    "a tuple": lambda z, _: (z, z),
    "a dict": lambda z, _: {"logits": z},
    "not a number": lambda z, _: z * float("nan"),
    "no class axis": lambda z, _: z[:, 0],
}
FACTORS = (2.0, 1.01, 0.99, 0.5)


def miscounts(effort: Effort) -> Outcome:
    """Classifiers that return too many or too few rows or classes, tuples, dicts or NaN, and voters that return 0.5 to
    2 votes per sample, with every certifier: all must be refused. Each try has its own noise."""
    tries, accepted, asked = effort.times(20, 1), [], 0
    for name in certifiers.names():
        for number in range(tries):
            voters: list[tuple[str, Voter]] = [(f"factor {factor}", miscounter(factor)) for factor in FACTORS]
            for told, voter in [*voters, *((told, _classifier(fault)) for told, fault in WRONG_OUTPUTS.items())]:
                asked += 1
                image = torch.rand((1, 8, 8), generator=torch.Generator().manual_seed(number))
                act = partial(certifiers.certify_image, certifiers.create(name), voter, image, NoiseAddress(number))
                if not refused(act, "returned|miscounts|not finite"):
                    accepted.append(f"{told} under {name}")
    counts = {"classifiers": len(WRONG_OUTPUTS) + len(FACTORS), "certifiers": len(certifiers.names()), "tries": asked}
    return Outcome(counts, {"false certificates": accepted})


def dependent(effort: Effort) -> Outcome:
    """Classifiers whose answer depends on the other images of a block, on the place in it or on its length must be
    refused; correct ones with unusual logits must not. Each try has its own weights, image and noise."""
    tries = effort.times(30, 2)
    bad = {**BY_COMPANY, **BY_PLACE, **BY_LENGTH}
    accepted = [name for name, fault in bad.items() for number in range(tries) if not _probe_refuses(fault, number)]
    wronged = [name for name, fault in HONEST.items() for number in range(tries) if _probe_refuses(fault, number)]
    counts = {"faulty classifiers": len(bad), "correct ones": len(HONEST), "tries each": tries}
    return Outcome(counts, {"false certificates": accepted, "correct classifiers refused": wronged})


def folding(effort: Effort) -> Outcome:
    """Networks with shared, tied, hooked, patched, parametrised and branching layers, prepared for every engine of full
    precision that needs no compiler: each must give the network's logits on new noisy images, or refuse it."""
    chosen = ["torch"] if effort.short else [name for name in ("torch", "onnx", "openvino") if _installed(name)]
    outcomes = {
        (name, engine): _disagreement(make().eval(), engine, effort) for name, make in NETS.items() for engine in chosen
    }
    wrong = [
        f"{name}, {engine}: {told}" for (name, engine), told in outcomes.items() if told not in ("equal", "refused")
    ]
    counts = {"networks": len(NETS), "engines": len(chosen), "images each": effort.times(512, 64)}
    told = Counter(outcomes.values())
    remark = f"{told['equal']} equal, {told['refused']} refused with an error"
    return Outcome(counts, {"disagreements": wrong}, remark)


def threads(effort: Effort) -> Outcome:
    """Four threads use a new smoothed classifier at once, with every engine: their votes must equal those of one
    thread."""
    chosen = [name for name in (["torch"] if effort.short else engines.names()) if _installed(name)]
    answers = effort.times(48, 12)
    wrong = [f"{engine}: {told}" for engine in chosen for told in _shared(engine, effort.folder, answers)]
    return Outcome({"engines": len(chosen), "threads": 4, "answers each": answers}, {"wrong answers": wrong})


def _classifier(fault: Callable[[Tensor, Tensor], object]) -> SmoothedClassifier:
    return SmoothedClassifier(Base(fault), sigma=0.5, classes=3)  # type: ignore[arg-type]


def _probe_refuses(fault: Fault, number: int) -> bool:
    image = torch.rand((1, 8, 8), generator=torch.Generator().manual_seed(number))
    classifier = plain(Base(fault, seed=number), image, sigma=0.5, classes=3)
    return refused(lambda: classifier.votes(image, 128 + 37, NoiseAddress(number)), "depends on")


def _disagreement(model: nn.Module, engine: str, effort: Effort) -> str:
    rng = torch.Generator().manual_seed(effort.seed + 1)
    images = torch.rand((effort.times(512, 64), *SHAPE), generator=rng)
    noisy = images + 0.25 * torch.randn(images.shape, generator=rng)
    spec = EngineSpec(model, SHAPE, Gaussian(0.25), BLOCK, effort.folder / "int8", lambda: images[:64])
    try:
        form = prepare(spec, engine)[1]
    except ValueError:
        return "refused"
    with torch.inference_mode():
        actual, expected = (torch.cat([net(block) for block in noisy.split(BLOCK)]) for net in (form, model))
    difference = (actual - expected).abs().max()
    return "equal" if torch.allclose(actual, expected, 1e-3, 1e-4) else f"logits by {difference:.2g}"


def _shared(engine: str, folder: Path, answers: int) -> list[str]:
    torch.manual_seed(0)
    model, shape = models.create("lenet").eval(), (1, 28, 28)
    images = torch.rand((answers, *shape), generator=torch.Generator().manual_seed(1))
    spec = EngineSpec(model, shape, Gaussian(0.5), BLOCK, folder / engine, lambda: torch.rand(256, *shape))
    classifier = SmoothedClassifier(prepare(spec, engine)[1], sigma=0.5, classes=10, batch_size=BLOCK)

    def ask(number: int) -> list[int]:
        votes: list[int] = classifier.votes(images[number], 5 * BLOCK + 7, NoiseAddress(0, number)).tolist()
        return votes

    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(ask, range(answers)))
    return [f"answer {number}" for number in range(answers) if together[number] != ask(number)]


def _installed(engine: str) -> bool:
    extra = {"openvino_int8": "nncf"}.get(engine)
    return engines.create(engine).runs_on(torch.device("cpu")) and (extra is None or find_spec(extra) is not None)


PICTURE = (3, 32, 32)


def last_bits(effort: Effort) -> Outcome:
    """A classifier that reads the last bits of float32, on a black image and on one a level brighter, at distance 0.22,
    with several sigmas and seeds: does the other image change the class inside the radius? With Gaussian noise this is
    known and documented; with grid noise it must not happen."""
    sigmas, tries = (0.12, 0.25, 1.0), effort.times(3, 1)
    cases = [(sigma, seed) for sigma in sigmas for seed in range(tries)]
    gaussian = sum(_overturned(Gaussian(sigma), seed) for sigma, seed in cases)
    grid = [f"sigma {sigma}, seed {seed}" for sigma, seed in cases if _overturned(Grid(sigma), seed)]
    remark = f"{gaussian} of {len(cases)} overturned under Gaussian noise"
    return Outcome({"sigmas": len(sigmas), "seeds": tries}, {"overturned under grid noise": grid}, remark)


def _overturned(noise: Noise, seed: int) -> bool:
    black, brighter = torch.zeros(PICTURE), torch.ones(PICTURE) / 255
    here, there = _certified(noise, black, seed), _certified(noise, brighter, seed)
    distance = float((brighter - black).norm())
    return here.prediction != there.prediction and max(here.radius, there.radius) > distance


def _certified(noise: Noise, image: torch.Tensor, seed: int) -> Certificate:
    classifier = SmoothedClassifier(LastBits(), noise=noise, classes=2)
    return radii.certify(classifier, image, seed=seed, estimation=200)
