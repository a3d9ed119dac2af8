"""Return what a run deploys: the engine, the noise and the certifier of its certificates."""

import json
import warnings
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import torch

from radii import disk
from radii.engines import base as engines
from radii.engines.base import AUTO
from radii.errors import ParameterError, RunWarning
from radii.provenance import artefact_digest, artefact_path, rounding_environment
from radii.runs import population, readers, trust
from radii.runs.certificates import KIND, POPULATION, Certificates, recorded_difference
from radii.runs.function import FUNCTION, LOGITS, MODEL
from radii.runs.run import Run
from radii.training.weights import device_for, model_spec

if TYPE_CHECKING:
    from radii.engines import SmoothedClassifier

ENGINE_FILE = "engine.json"
SOFT_SAMPLES = 1_000
"""Samples of a prediction from mean probabilities, as many as from votes."""
SOFT_FIELDS = ("failure", "bound", "sharpness")
"""The fields that a soft prediction shares with the soft certificates."""


def chosen_engine(run: Run, asked: str, device: torch.device | None = None) -> str:
    """Return the engine to use: `asked`, or for `auto` the one that the present weights were certified or used with.

    If there is none, it stays `auto`; also, with a warning, if that engine does not run here.
    """
    certified, recorded = (certified_engines(run), _recorded(run)) if asked == AUTO else ([], [])
    known = [name for name in recorded if name in certified] or certified or recorded
    if not known:
        return asked
    trust.require(known[:1], run.trusted, run.path)
    if engines.create(known[0]).runs_on(device_for(run, device)):
        return known[0]
    warnings.warn(
        f"{run.path} was certified or used with the engine {known[0]!r}, which does not run here: another one is used",
        RunWarning,
        stacklevel=3,
    )
    return AUTO


def certified_engines(run: Run) -> list[str]:
    """Return the engines of the certificates of the present weights, the one with the most rows first."""
    rows: Counter[str] = Counter()
    for count, header in _certified(run):
        if "engine" in header:
            rows[str(header["engine"])] += count
    return sorted(rows, key=lambda name: (-rows[name], name))


def certified_noises(run: Run) -> list[dict[str, Any]]:
    """Return the noises of the certificates of the present weights as tables, the one with the most rows first."""
    noises: dict[str, dict[str, Any]] = {}
    rows: Counter[str] = Counter()
    for count, header in _certified(run):
        noise = dict(Certificates("", (), header).noise)
        key = json.dumps(noise, sort_keys=True)
        noises[key] = noise
        rows[key] += count
    return [noises[key] for key in sorted(rows, key=lambda key: (-rows[key], key))]


def stated_noise(run: Run) -> dict[str, Any]:
    """Return the noise that a run is used with, as a table, without importing its code.

    It is that of the certificates of the present weights: Gaussian noise of the recipe's sigma if some have it,
    otherwise the one with the most rows.
    """
    own, certified = {"name": "gaussian", "sigma": run.recipe.sigma}, certified_noises(run)
    return own if own in certified or not certified else certified[0]


def certified_prediction(run: Run, procedure: str | None = None) -> tuple[str, dict[str, Any]]:
    """Return the certifier, with its fields, that predicts as the certificates of the present weights do.

    It counts votes, or, if all certificates are of `soft`, takes mean probabilities; `procedure` chooses one of both.
    """
    files = [(count, header) for count, header in _certified(run) if header.get(KIND) != POPULATION]
    soft = [(count, header["parameters"]) for count, header in files if header.get("procedure") == "soft"]
    if procedure is None:
        procedure = "soft" if soft and len(soft) == len(files) else "prediction"
    if procedure != "soft":
        return procedure, {}
    certified: Mapping[str, Any] = max(soft, key=lambda file: file[0])[1] if soft else {}
    return procedure, {"estimation": SOFT_SAMPLES, **{key: certified[key] for key in SOFT_FIELDS if key in certified}}


def _certified(run: Run) -> list[tuple[int, dict[str, Any]]]:
    """Return the number of rows and the header of every file of the present weights that has rows.

    Such a file holds certificates, or votes about a population.
    """
    files = population.all_files_of_weights(run, run.weights_digest())
    most = readers.MOST_CERTIFICATES
    counted = [(readers.content(path, most).count(b"\n") - 1, header) for path, header in files if path.is_file()]
    return [(count, header) for count, header in counted if count > 0]


def record_engine(run: Run, engine: str) -> None:
    """Record the engine that was chosen for the present weights."""
    if _recorded(run) == [engine]:
        return
    try:
        disk.write_json(run.path / ENGINE_FILE, {"engine": engine, "weights": run.weights_digest()})
    except OSError as error:
        warnings.warn(
            f"cannot record the chosen engine {engine!r} in {run.path}: {error.strerror}",
            RunWarning,
            stacklevel=3,
        )


def warn_of_another(run: Run, engine: str, classifier: "SmoothedClassifier") -> None:
    """Warn if the certificates of the present weights were made with another engine, artefact or function."""
    weights = run.weights_digest()
    certified = certified_engines(run)
    if certified and engine not in certified:
        warnings.warn(
            f"the certificates of {run.path} were made with the engine {certified[0]!r}: "
            f"they do not hold for {engine!r}",
            RunWarning,
            stacklevel=3,
        )
    files = population.all_files_of_weights(run, weights)
    headers = [header for _, header in files if header.get("engine") == engine]
    artefacts = {header["artefact"] for header in headers if "artefact" in header}
    if artefacts and artefact_digest(artefact_path(run, engine, weights)) not in artefacts:
        warnings.warn(
            f"the certificates of {run.path} were made with another artefact of the engine {engine!r}: "
            "they do not hold for this one",
            RunWarning,
            stacklevel=3,
        )
    if recorded := [header for header in headers if FUNCTION in header]:
        function = function_of(run, classifier)
        environment = rounding_environment(engine, classifier.device, classifier.batch_size)
        differences = [recorded_difference(header, function, environment) for header in recorded]
        if all(differences):
            warnings.warn(
                f"the certificates of {run.path} were made with {differences[0]}: they do not hold for this model",
                RunWarning,
                stacklevel=3,
            )


def function_of(run: Run, classifier: "SmoothedClassifier") -> dict[str, Any]:
    """Return what a header records of the function of a run: its model, and the logits of random images if it has any.

    Weights do not determine a function: an activation in the recipe or in the code of a model may change.
    """
    function: dict[str, Any] = {MODEL: run.recipe.model_digest}
    with suppress(ParameterError):  # a model may refuse random images, or give no finite logits for them
        function[LOGITS] = classifier.probe_logits(model_spec(run).shape)
    return function


def _recorded(run: Run) -> list[str]:
    """Return the engine that was recorded for the present weights, in a list, or an empty list."""
    file = run.path / ENGINE_FILE
    if not file.is_file():
        return []
    try:
        record = readers.json_object(file)
        return [str(record["engine"])] if record["weights"] == run.weights_digest() else []
    except (ValueError, LookupError, TypeError):
        return []  # the record is invalid: an engine is chosen again
