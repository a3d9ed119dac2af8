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
from radii.training.weights import model_spec
from radii.workers.voter import one_thread

Mode = Literal["certificate", "vote", "one-pass"]
BLOCK, BLOCK_ONE_PASS = 128, 16
"""Noisy copies in one forward pass: about as many as a request needs, or as there are requests of one copy each. Passes
are padded to this size, so larger ones would mostly compute copies that nobody asked for."""
VOTES = 128
"""Samples of a vote by default: one full forward pass."""
DEVIATIONS = (0.0, 0.5, 1.0, 1.5, 2.0)
"""The radii of certificates by default, in standard deviations of Gaussian noise."""
Steps = Generator[Any, Any, Certificate]


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """The options of a served model."""

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
    """A loaded classifier with its certifier. It never changes: a reload makes another one."""

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
        """Begin the certification of a picture; return None if `failure` is too small to prove anything."""
        about = About.voter(self.classifier, PHILOX)
        if self.certifier is None:
            return one_pass_steps()
        assert failure is not None
        if failure not in self._certifiers:  # few: shares fall in steps
            self._certifiers[failure] = _with_failure(self.certifier, failure, about)
        certifier = self._certifiers[failure]
        return None if certifier is None else certifier.certify(about)


def one_pass_steps() -> Steps:
    """Ask for the vote of one copy, as `radii.predict_once` does, and answer with its class."""
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
    """Load a run, its certifier and its noise, and run a first forward pass."""
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
    dataset = run.recipe.dataset["name"], fields_of(run.recipe.dataset)
    preparation = datasets.preparation(*dataset, spec.shape)
    header = {
        "mode": config.mode,
        "procedure": None if certifier is None else certifier.name,
        "parameters": {} if certifier is None else asdict(certifier),
        "noise": noise.describe(),
        "norm": noise.norm.name,
        **_run_table(run, engine, noise, logits, weights),
        "dataset": dataset[0],
        "prepared": preparation.words,
        "classes": list(spec.class_names),
        **_environment_table(engine, classifier),
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
        dataset=dataset,
        header=json.loads(json.dumps(header)),
    )


def _certifier(config: ModelConfig, noise: Noise) -> Certifier | None:
    """Make the certifier of a mode; raise an error if it could never prove anything."""
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


def _run_table(run: Run, engine: str, noise: Noise, logits: Any, weights: str) -> dict[str, Any]:
    """Describe the run: its weights, the function that they are part of, and the code that it uses."""
    model, dataset = run.recipe.model["name"], run.recipe.dataset["name"]
    return {
        "run": run.name,
        "sigma": run.recipe.sigma,
        "weights": weights,
        "model": model,
        "function": {"model": run.recipe.model_digest, "logits": logits},
        "code": code_digests([model, dataset, noise.name, engine]),
        "artefact": artefact_digest(artefact_path(run, engine, weights)),
    }


def _environment_table(engine: str, classifier: SmoothedClassifier) -> dict[str, Any]:
    """Describe what the noise and the rounding of an answer depend on besides the run."""
    return {
        "stream": classifier.noise.stream,
        "batch_size": classifier.batch_size,
        "engine": engine,
        "device": classifier.device.type,
        "environment": rounding_environment(engine, classifier.device, classifier.batch_size),
        "radii": metadata.version("radii"),
    }
