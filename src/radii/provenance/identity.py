"""Digests of what determines a result: weights, data, code, an engine's artefact; and what affects rounding only."""

import hashlib
import json
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from radii.datasets import Images
from radii.device import default_device
from radii.runs import files, readers, trust
from radii.runs.run import Run, RunError

ENGINE_PACKAGES = {"openvino": "openvino", "onnx": "onnxruntime"}
"""The package of an engine beside torch, by the prefix of the engine's name."""
DATA_FILE = "data.json"
"""The digest of the training images of a run."""


def code_digests(names: Iterable[str]) -> dict[str, str | None]:
    """The digest of the source of every component `module:name`; None where there is no source, as in a notebook."""
    return {name: trust.source_digest(trust.module_of(name)) for name in sorted(set(names)) if trust.module_of(name)}


def artefact_path(run: Run, engine: str, weights: str) -> Path:
    """Where an engine may store files for these weights, without the suffix."""
    return run.path / f"{engine.replace(':', '-')}-{weights[:8]}"


def artefact_digest(run: Run, engine: str, weights: str) -> str | None:
    """The SHA-256 of an engine's files for these weights; None if it has none."""
    return digest_of_artefact(artefact_path(run, engine, weights))


def digest_of_artefact(stem: Path | None) -> str | None:
    """The SHA-256 of an engine's files, named without their suffix; None if there are none."""
    if stem is None:
        return None
    found = {path.suffix: files.digest(path) for path in sorted(stem.parent.glob(f"{stem.name}.*"))}
    return hashlib.sha256(json.dumps(found).encode()).hexdigest() if found else None


def environment_of(engine: str) -> dict[str, Any]:
    """What affects rounding only: the instruction set, the versions and the device."""
    packages = (
        "radii",
        "torch",
        *(package for prefix, package in ENGINE_PACKAGES.items() if engine.startswith(prefix)),
    )
    device = default_device()
    return {
        "instruction_set": torch.backends.cpu.get_cpu_capability(),
        "matrix_products": torch.get_float32_matmul_precision(),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
        "versions": {name: metadata.version(name) for name in packages},
        **({"bfloat16": _bfloat16_units()} if engine.endswith("bf16") else {}),
    }


def _bfloat16_units() -> list[str]:
    """The units of this CPU that compute in bfloat16: each kind adds up in its own way."""
    return sorted(name for name, there in torch.cpu.get_capabilities().items() if there and "bf16" in name)


def claim_data(run: Run, images: Images) -> None:
    """Record the images that a run is trained on, or refuse others than it was started with."""
    file = run.path / DATA_FILE
    if file.is_file():
        if _digest_in(file) != images.digest:
            raise RunError(
                f"{run.path} was started with other data: pixels or labels of its training split differ", "run"
            )
    elif not run.finished:  # for a finished run of version 0.1 it is unknown
        files.write_json(file, {"train": images.digest})


def _digest_in(file: Path) -> Any:
    try:
        return readers.json_object(file)["train"]
    except (ValueError, LookupError) as error:
        raise RunError(f"{file} does not say what the run was trained on: restore it, or remove it") from error
