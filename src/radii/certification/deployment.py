"""What a run deploys: the engine, the noise and the kind of classifier that were certified; the choice is recorded."""

import json
import warnings
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from radii import disk, engines
from radii.device import default_device
from radii.engines import AUTO, SmoothedClassifier
from radii.errors import RunWarning
from radii.provenance import artefact_digest, artefact_path, rounding_environment
from radii.runs import readers, resume, trust
from radii.runs.certificates import Certificates, recorded_difference
from radii.runs.function import FUNCTION, LOGITS, MODEL
from radii.runs.run import Run
from radii.training.weights import model_digest, model_spec

ENGINE_FILE = "engine.json"
SOFT_SAMPLES = 1_000
"""Samples of a prediction by mean probabilities, the same number as by votes."""
SOFT_FIELDS = ("failure", "bound", "sharpness")
"""The fields that a soft prediction shares with the soft certificates."""


def chosen_engine(run: Run, asked: str) -> str:
    """The engine chosen by name; for `auto`, the one of the certificates or of the record, for the present weights.

    It stays `auto` where there is neither, or, with a warning, where that engine does not run here.
    """
    certified, recorded = (certified_engines(run), _recorded(run)) if asked == AUTO else ([], [])
    known = [name for name in recorded if name in certified] or certified or recorded
    if not known:
        return asked
    trust.require(known[:1], run.trusted, run.path)
    if engines.create(known[0]).runs_on(default_device()):
        return known[0]
    warnings.warn(
        f"{run.path} was made with the engine {known[0]!r}, which does not run here: another one is used",
        RunWarning,
        stacklevel=3,
    )
    return AUTO


def certified_engines(run: Run) -> list[str]:
    """The engines of the certificates of the present weights, the one with the most rows first."""
    rows: Counter[str] = Counter()
    for path, header in _certified(run):
        if "engine" in header:
            rows[str(header["engine"])] += _rows(path)
    return sorted(rows, key=lambda name: (-rows[name], name))


def certified_noises(run: Run) -> list[dict[str, Any]]:
    """The noises of the certificates of the present weights, name and fields, the one with the most rows first."""
    noises: dict[str, dict[str, Any]] = {}
    rows: Counter[str] = Counter()
    for path, header in _certified(run):
        noise = dict(Certificates(path.stem, (), header).noise)
        key = json.dumps(noise, sort_keys=True)
        noises[key] = noise
        rows[key] += _rows(path)
    return [noises[key] for key in sorted(rows, key=lambda key: (-rows[key], key))]


def certified_prediction(run: Run, procedure: str | None = None) -> tuple[str, dict[str, Any]]:
    """The certifier, with its fields, that predicts as the certificates of the present weights do.

    That is by votes, or by mean probabilities where all certificates are of `soft`; `procedure` selects one of them.
    """
    soft = [
        (_rows(path), header["parameters"]) for path, header in _certified(run) if header.get("procedure") == "soft"
    ]
    if procedure is None:
        procedure = "soft" if soft and len(soft) == len(_certified(run)) else "prediction"
    if procedure != "soft":
        return procedure, {}
    made: Mapping[str, Any] = max(soft, key=lambda each: each[0])[1] if soft else {}
    return procedure, {"estimation": SOFT_SAMPLES, **{key: made[key] for key in SOFT_FIELDS if key in made}}


def _certified(run: Run) -> list[tuple[Path, dict[str, Any]]]:
    """The certificate files of the present weights that have rows."""
    found = resume.files_of_weights(run, run.weights_digest())
    return [(path, header) for path, header in found if _rows(path) > 0]


def _rows(path: Path) -> int:
    return path.read_bytes().count(b"\n") - 1 if path.is_file() else 0


def record_engine(run: Run, engine: str) -> None:
    """Record the engine that was chosen for the present weights."""
    if _recorded(run) == [engine]:
        return
    try:
        disk.write_json(run.path / ENGINE_FILE, {"engine": engine, "weights": run.weights_digest()})
    except OSError as error:
        warnings.warn(
            f"the choice of the engine {engine!r} cannot be recorded in {run.path}: {error.strerror}",
            RunWarning,
            stacklevel=3,
        )


def warn_of_another(run: Run, engine: str, classifier: SmoothedClassifier) -> None:
    """Warn if the certificates of the present weights are of another engine, artefact of it, or function."""
    weights = run.weights_digest()
    certified = certified_engines(run)
    if certified and engine not in certified:
        warnings.warn(
            f"the certificates of {run.path} are of the engine {certified[0]!r}: they do not hold for {engine!r}",
            RunWarning,
            stacklevel=3,
        )
    headers = [header for _, header in resume.files_of_weights(run, weights) if header.get("engine") == engine]
    artefacts = {header["artefact"] for header in headers if "artefact" in header}
    if artefacts and artefact_digest(artefact_path(run, engine, weights)) not in artefacts:
        warnings.warn(
            f"the certificates of {run.path} are of another artefact of the engine {engine!r}: "
            "they do not hold for this one",
            RunWarning,
            stacklevel=3,
        )
    if recorded := [header for header in headers if FUNCTION in header]:
        function: dict[str, Any] = {MODEL: model_digest(run.recipe)}
        if any(LOGITS in header[FUNCTION] for header in recorded):
            function[LOGITS] = classifier.probe_logits(model_spec(run).shape)
        place = rounding_environment(engine)
        differences = [recorded_difference(header, function, place) for header in recorded]
        if all(differences):
            warnings.warn(
                f"the certificates of {run.path} were made with {differences[0]}: they do not hold for this model",
                RunWarning,
                stacklevel=3,
            )


def _recorded(run: Run) -> list[str]:
    """The engine that was chosen before for the present weights, if one was."""
    file = run.path / ENGINE_FILE
    if not file.is_file():
        return []
    try:
        found = readers.json_object(file)
        return [str(found["engine"])] if found["weights"] == run.weights_digest() else []
    except (ValueError, LookupError, TypeError):
        return []  # an invalid record names no engine: one is chosen again
