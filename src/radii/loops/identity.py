"""What a result is about, by digests: weights, data, the user's code, an engine's artefact; and what only rounds."""

import hashlib
import json
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from radii import trust
from radii.datasets import Images
from radii.experiment import files, readers
from radii.experiment.run import Run, RunError
from radii.loops.device import default_device

ENGINE_PACKAGES = {"openvino": "openvino", "onnx": "onnxruntime"}
"""What an engine beside torch runs on, by the beginning of its name."""
DATA_FILE = "data.json"
"""What a run was trained on, by its digest."""


def code_digests(names: Iterable[str]) -> dict[str, str | None]:
    """The source of every component that is named `module:name`; none where it cannot be found, as in a notebook."""
    return {name: trust.source_digest(trust.module_of(name)) for name in sorted(set(names)) if trust.module_of(name)}


def artefact_path(run: Run, engine: str, weights: str) -> Path:
    """Where an engine keeps a state of its own for these weights, without the suffix."""
    return run.path / f"{engine.replace(':', '-')}-{weights[:8]}"


def artefact_digest(run: Run, engine: str, weights: str) -> str | None:
    """The SHA-256 of what an engine keeps for these weights; none where it keeps nothing."""
    stem = artefact_path(run, engine, weights)
    found = {path.suffix: files.digest(path) for path in sorted(stem.parent.glob(f"{stem.name}.*"))}
    return hashlib.sha256(json.dumps(found).encode()).hexdigest() if found else None


def environment_of(engine: str) -> dict[str, Any]:
    """What decides nothing but rounding: the instruction set, the versions and the device."""
    packages = (
        "radii",
        "torch",
        *(package for prefix, package in ENGINE_PACKAGES.items() if engine.startswith(prefix)),
    )
    device = default_device()
    return {
        "instruction_set": torch.backends.cpu.get_cpu_capability(),
        "matrix_products": torch.get_float32_matmul_precision(),
        "device": device.type if device.type == "cpu" else torch.cuda.get_device_name(device),
        "versions": {name: metadata.version(name) for name in packages},
    }


def claim_data(run: Run, images: Images) -> None:
    """Make these the images that a run is trained on, or refuse others than it was begun with."""
    file = run.path / DATA_FILE
    if file.is_file():
        if _digest_in(file) != images.digest:
            raise RunError(
                f"{run.path} was begun with other data: pixels or labels of its training split differ", "run"
            )
    elif not run.finished:  # of a run of version 0.1 that is finished, nobody knows
        files.write_json(file, {"train": images.digest})


def _digest_in(file: Path) -> Any:
    try:
        return readers.json_object(file)["train"]
    except (ValueError, LookupError) as error:
        raise RunError(f"{file} does not say what the run was trained on: restore it, or remove it") from error
