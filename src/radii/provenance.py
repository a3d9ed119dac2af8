"""Record what a result was made with: versions, the kind of machine, and digests of weights, code and data."""

import hashlib
import inspect
import json
import os
import platform
import threading
from collections.abc import Iterable, Iterator
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from radii import disk
from radii.device import default_device
from radii.errors import RunError
from radii.runs import readers, trust
from radii.smoothing.forward import tf32

if TYPE_CHECKING:
    from radii.datasets import Images
    from radii.runs.run import Run

ENGINE_PACKAGES = {"openvino": "openvino", "onnx": "onnxruntime"}
"""The package that an engine needs besides torch, by the prefix of the engine's name."""
DATA_FILE = "data.json"
"""The file of a run with the digest of its training images."""
PLAIN = (int, float, str, bool, type(None))
"""Attributes of these types count as a layer's settings, and so do tuples and lists of them."""
HOOKS = ("_forward_hooks", "_forward_pre_hooks")
_PARSING = threading.Lock()
"""`inspect.getsource` parses the file of a class, which fails in Python 3.11 if two threads do it at once."""


# Versions and the kind of machine

_version = cache(metadata.version)
"""`metadata.version` parses a file each time, which took a fifth of the shortest training."""


def environment() -> dict[str, Any]:
    """Describe the versions and the kind of machine. Nothing in it identifies the machine."""
    names = ("radii", "torch", "numpy", "scipy", "safetensors")
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "device": default_device().type,
        "versions": {name: _version(name) for name in names},
    }


def rounding_environment(engine: str, device: torch.device, batch_size: int) -> dict[str, Any]:
    """Describe what may change the rounding of an engine's results: instruction set, versions, device, batch size."""
    extra = (package for prefix, package in ENGINE_PACKAGES.items() if engine.startswith(prefix))
    described = {
        "instruction_set": torch.backends.cpu.get_cpu_capability(),
        "matrix_products": _matrix_products(),
        **(_gpu(device) if device.type == "cuda" else {"device": device.type}),
        "batch_size": batch_size,
        "versions": {name: _version(name) for name in ("radii", "torch", *extra)},
    }
    if engine.endswith("bf16"):  # every kind of bfloat16 unit rounds in its own way
        capabilities = torch.cpu.get_capabilities()
        described["bfloat16"] = sorted(name for name, there in capabilities.items() if there and "bf16" in name)
    return described


def _matrix_products() -> str:
    """Return the precision of float32 matrix products, from torch's newer setting if that was used."""
    try:
        return torch.get_float32_matmul_precision()
    except RuntimeError:
        return f"fp32_precision {torch.backends.fp32_precision}"  # type: ignore[attr-defined]


def _gpu(device: torch.device) -> dict[str, Any]:
    """Describe what rounding on a GPU depends on: its name, its multiprocessors, cuDNN and TF32."""
    properties = torch.cuda.get_device_properties(device)
    return {
        "device": properties.name,
        "multiprocessors": properties.multi_processor_count,
        "cudnn": torch.backends.cudnn.version(),
        "tf32": tf32(),
    }


def record_environment(run: "Run", processes: int, epoch: int, step: int) -> None:
    """Write environment.json, with the number of processes that trained the run from which step on.

    Every process draws its own noise, so a run that is continued with another number of processes differs from one that
    was trained with the same number throughout.
    """
    earlier = run.environment() if run.environment_file.is_file() else {}
    # A run without a record was trained by one process.
    history = earlier.get("training", [{"epoch": 0, "step": 0, "processes": 1}])
    history = [entry for entry in history if (entry["epoch"], entry["step"]) < (epoch, step)]
    if not history or history[-1]["processes"] != processes:
        history.append({"epoch": epoch, "step": step, "processes": processes})
    disk.write_json(run.environment_file, {**environment(), "training": history})


# Training data


def record_training_data(run: "Run", images: "Images") -> None:
    """Record the digest of a run's training images; refuse other images than the run was started with."""
    file = run.path / DATA_FILE
    if not file.is_file():
        if not run.finished:  # the data of a finished run of version 0.1 are unknown
            disk.write_json(file, {"train": images.digest})
        return
    try:
        recorded = readers.json_object(file)["train"]
    except (ValueError, LookupError) as error:
        raise RunError(f"{file} has no digest of the training images: restore the file, or remove it") from error
    if recorded != images.digest:
        raise RunError(f"{run.path} was started with other training images or labels: use those, or a new run", "run")


# Code, and the files that an engine wrote


def code_digests(names: Iterable[str]) -> dict[str, str | None]:
    """Digest the source of every `module:name`; None if there is no source, as in a notebook."""
    return {name: trust.source_digest(trust.module_of(name)) for name in sorted(set(names)) if trust.module_of(name)}


def artefact_path(run: "Run", engine: str, weights: str) -> Path:
    """Return the path at which an engine may store files for these weights, without a suffix."""
    return run.path / f"{engine.replace(':', '-')}-{weights[:8]}"


def artefact_digest(stem: Path | None) -> str | None:
    """Return the SHA-256 of an engine's files, whose path has no suffix here; None if there are none."""
    if stem is None:
        return None
    digests = {path.suffix: disk.digest(path) for path in sorted(stem.parent.glob(f"{stem.name}.*"))}
    return hashlib.sha256(json.dumps(digests).encode()).hexdigest() if digests else None


# A module in memory


def weights_digest(model: nn.Module) -> str:
    """Return the SHA-256 of a module's state dict, and of the buffers that are not in it."""
    digest = hashlib.sha256()
    tensors = {**dict(model.named_buffers(remove_duplicate=False)), **model.state_dict()}
    for name, value in sorted(tensors.items()):
        digest.update(f"{name} ".encode())
        _update(digest, value)
    return digest.hexdigest()


def structure_digest(model: nn.Module) -> str:
    """Return the SHA-256 of what is not in a state dict: the classes of layers, their plain attributes and hooks."""
    digest = hashlib.sha256()
    for path, module in model.named_modules():
        digest.update(json.dumps([path, _class_name(type(module)), dict(_attributes(module))]).encode())
        for value in vars(module).values():
            if isinstance(value, Tensor):
                _update(digest, value)
    return digest.hexdigest()


def class_digests(objects: Iterable[object]) -> dict[str, str | None]:
    """Digest the source of the objects' classes that are not torch's or radii's; None if a class has no source."""
    classes = set(map(type, objects))
    foreign = [cls for cls in classes if cls.__module__.partition(".")[0] not in ("torch", "radii")]
    return {_class_name(cls): _class_source_digest(cls) for cls in sorted(foreign, key=_class_name)}


def _update(digest: "hashlib._Hash", value: object) -> None:
    if not isinstance(value, Tensor):  # extra state
        digest.update(value if isinstance(value, bytes) else repr(value).encode())
        return
    digest.update(f"{value.dtype} {list(value.shape)} ".encode())
    digest.update(value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)


def _attributes(module: nn.Module) -> Iterator[tuple[str, str]]:
    for name, value in vars(module).items():
        if name != "training" and not name.startswith("_") and _is_plain(value):
            yield name, repr(value)
    for hooks in HOOKS:
        for number, hook in enumerate(getattr(module, hooks).values()):
            yield f"{hooks} {number}", getattr(hook, "__qualname__", type(hook).__qualname__)


def _is_plain(value: object) -> bool:
    """Return whether a value is a setting whose repr is the same in every process."""
    return all(map(_is_plain, value)) if isinstance(value, tuple | list) else isinstance(value, PLAIN)


def _class_source_digest(cls: type) -> str | None:
    if cls.__module__ != "__main__" and (digest := trust.source_digest(cls.__module__)):
        return digest
    try:
        with _PARSING:
            return hashlib.sha256(inspect.getsource(cls).encode()).hexdigest()
    except (OSError, TypeError):
        return None


def _class_name(cls: type) -> str:
    return f"{cls.__module__}:{cls.__qualname__}"
