"""The model that a server answers with: the classifier of a run, how it certifies, and what determines its answers."""

import json
from collections.abc import Collection, Generator, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from importlib import metadata
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import torch
from scipy.special import ndtr

from radii import certifiers, datasets
from radii.certification.deployment import warn_of_another
from radii.certification.load import deployed_noise, open_run
from radii.certifiers import Certifier
from radii.certifiers.base import About
from radii.datasets import Preparation
from radii.engines import AUTO, SmoothedClassifier
from radii.errors import ParameterError
from radii.provenance import artefact_digest, artefact_path, code_digests, rounding_environment
from radii.runs.recipe import Spec, fields_of
from radii.runs.run import Run
from radii.serving.budget import share_of
from radii.serving.evidence import table_digest
from radii.smoothing.addresses import PHILOX, NoiseAddress
from radii.smoothing.certificate import Certificate
from radii.smoothing.noise import Noise
from radii.smoothing.questions import Task, Votes
from radii.training.weights import model_digest, model_spec
from radii.workers.voter import one_thread

Mode = Literal["certificate", "vote", "one-pass"]
BLOCK, BLOCK_ONE_PASS = 128, 16
"""Noisy copies in one forward pass: about one request, or of so many requests with one copy each. A pass is always
filled up, so larger ones would mostly compute what nobody asked for."""
VOTES = 128
"""Samples of a vote by default: one full forward pass."""
DEVIATIONS = (0.0, 0.5, 1.0, 1.5, 2.0)
"""The radii of certificates by default, in standard deviations of Gaussian noise."""
Steps = Generator[Any, Any, Certificate]


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """Which run is served, and how."""

    run: Path
    mode: Mode = "certificate"
    radii: tuple[float, ...] = ()
    """The radii to certify; the largest that is proven is answered."""
    fields: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the certifier."""
    engine: str = AUTO
    noise: Spec | None = None
    trust: Collection[str] = ()

    def __post_init__(self) -> None:
        if self.mode not in get_args(Mode):
            raise ParameterError(f"mode = {self.mode!r}, expected one of {', '.join(get_args(Mode))}", "mode")
        if self.radii and self.mode != "certificate":
            raise ParameterError(f"the mode {self.mode!r} certifies no radius: leave out the radii", "radii")
        if self.fields and self.mode == "one-pass":
            raise ParameterError("the mode 'one-pass' has no certifier: leave out its fields", "fields")


@dataclass(frozen=True, eq=False)
class ServedModel:
    """A loaded classifier with its certifier; nothing in it changes."""

    name: str
    mode: Mode
    classifier: SmoothedClassifier
    certifier: Certifier | None
    """None for one noisy pass."""
    shape: tuple[int, int, int]
    class_names: tuple[str, ...]
    preparation: Preparation
    dataset: tuple[str, dict[str, Any]]
    """The name and fields of the dataset, which say how pictures are prepared."""
    header: dict[str, Any]
    """Everything that determines an answer besides the picture and the seed."""
    _certifiers: dict[float, Certifier | None] = field(default_factory=dict)

    @cached_property
    def header_digest(self) -> str:
        return table_digest(self.header)

    @property
    def weights(self) -> str:
        """The digest of the weights."""
        return str(self.header["weights"])

    @property
    def failure(self) -> float | None:
        """The probability that any answer about one picture is wrong, over its life; None for one noisy pass."""
        return None if self.certifier is None else self.certifier.failure

    def steps(self, failure: float | None) -> Steps | None:
        """Return the questions about one picture; None if its failure probability is too small to prove anything."""
        about = About.voter(self.classifier, PHILOX)
        if self.certifier is None:
            return one_pass_steps()
        assert failure is not None
        if failure not in self._certifiers:  # a few: shares fall in steps
            self._certifiers[failure] = _with_failure(self.certifier, failure, about)
        certifier = self._certifiers[failure]
        return None if certifier is None else certifier.certify(about)


def one_pass_steps() -> Steps:
    """Ask for the vote of one copy, as `radii.predict_once` does."""
    counts = yield Votes(0, 0, 1)
    return Certificate(int(np.argmax(counts)), 0.0, 1, tuple(map(int, counts)))


def _with_failure(certifier: Certifier, failure: float, about: About) -> Certifier | None:
    """Return a certifier with another failure probability; None if its samples can then prove nothing."""
    try:
        changed = replace(certifier, failure=failure)
        next(changed.certify(about))  # plans its tests, and raises for radii out of reach
    except ValueError:
        return None
    return changed


def load_model(config: ModelConfig) -> ServedModel:
    """Load the run of a configuration."""
    run = Run(config.run, config.trust)
    spec, weights = model_spec(run), run.weights_digest()
    noise = deployed_noise(run, config.noise)
    certifier = _certifier(config, noise)
    with one_thread():
        block = BLOCK_ONE_PASS if certifier is None else BLOCK
        engine, classifier = open_run(run, config.engine, noise, None, block, data_at_hand=False)
        warn_of_another(run, engine, classifier)
        logits = classifier.probe_logits(spec.shape)
        blank = Task(torch.zeros(spec.shape), NoiseAddress(0, purpose="time"), Votes(0, 0, 1))
        classifier.count([blank])  # the first forward pass prepares and probes
    dataset = run.recipe.dataset
    fields = fields_of(dataset)
    preparation = datasets.preparation(dataset["name"], fields, spec.shape)
    stated = {
        "mode": config.mode,
        "procedure": None if certifier is None else certifier.name,
        "parameters": {} if certifier is None else asdict(certifier),
        "noise": noise.describe(),
        "norm": noise.norm.name,
        "run": run.name,
        "sigma": run.recipe.sigma,
        "weights": weights,
        "model": run.recipe.model["name"],
        "function": {"model": model_digest(run.recipe), "logits": logits},
        "code": code_digests([run.recipe.model["name"], dataset["name"], noise.name, engine]),
        "artefact": artefact_digest(artefact_path(run, engine, weights)),
        "dataset": dataset["name"],
        "prepared": preparation.words,
        "classes": list(spec.class_names),
        "stream": noise.stream,
        "batch_size": classifier.batch_size,
        "engine": engine,
        "device": classifier.device.type,
        "environment": rounding_environment(engine, classifier.device, classifier.batch_size),
        "radii": metadata.version("radii"),
    }
    if run.weights_digest() != weights:
        raise ParameterError(f"the weights of {run.path} changed while they were read: start again", "run")
    return ServedModel(
        name=run.name,
        mode=config.mode,
        classifier=classifier,
        certifier=certifier,
        shape=spec.shape,
        class_names=spec.class_names,
        preparation=preparation,
        dataset=(dataset["name"], fields),
        header=json.loads(json.dumps(stated)),
    )


def _certifier(config: ModelConfig, noise: Noise) -> Certifier | None:
    """Make the certifier of a mode; raise an error where it could never prove anything."""
    if config.mode == "one-pass":
        noise.probability_after(1.0, 0.0)  # raises for a noise whose single passes prove nothing
        return None
    if config.mode == "vote":
        certifier = certifiers.create("prediction", **{"samples": VOTES, **config.fields})
    else:
        radii = config.radii or tuple(max(0.0, float(noise.radius(ndtr(deviation)))) for deviation in DEVIATIONS)
        certifier = certifiers.create("sequential", **{"radii": radii, **config.fields})
    first = replace(certifier, failure=certifier.failure * share_of(1))
    next(first.certify(About(noise, 2, BLOCK)))
    return certifier
