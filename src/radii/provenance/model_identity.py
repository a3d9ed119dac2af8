"""Digests of a module that is in memory: its weights, its structure and the code of its classes."""

import hashlib
import inspect
import json
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from radii.runs import trust

HOOKS = ("_forward_hooks", "_forward_pre_hooks")
PLAIN = (int, float, str, bool, tuple, list, type(None))


def weights_digest(model: nn.Module) -> str:
    """The SHA-256 of the state dict, and of the buffers that it leaves out."""
    found = hashlib.sha256()
    held = {**dict(model.named_buffers(remove_duplicate=False)), **model.state_dict()}
    for name, value in sorted(held.items()):
        found.update(f"{name} ".encode())
        _update(found, value)
    return found.hexdigest()


def _update(found: "hashlib._Hash", value: object) -> None:
    if not isinstance(value, Tensor):  # extra state
        found.update(value if isinstance(value, bytes) else repr(value).encode())
        return
    found.update(f"{value.dtype} {list(value.shape)} ".encode())
    found.update(value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)


def structure_digest(model: nn.Module) -> str:
    """The SHA-256 of the classes of all layers with their plain attributes and hooks, which a state dict leaves out."""
    found = hashlib.sha256()
    for path, module in model.named_modules():
        found.update(json.dumps([path, _name(type(module)), dict(_attributes(module))]).encode())
        for value in vars(module).values():
            if isinstance(value, Tensor):
                _update(found, value)
    return found.hexdigest()


def _attributes(module: nn.Module) -> Iterator[tuple[str, str]]:
    for name, value in vars(module).items():
        if name != "training" and not name.startswith("_") and isinstance(value, PLAIN):
            yield name, repr(value)
    for kind in HOOKS:
        for number, hook in enumerate(getattr(module, kind).values()):
            yield f"{kind} {number}", getattr(hook, "__qualname__", type(hook).__qualname__)


def class_digests(model: nn.Module) -> dict[str, str | None]:
    """The digest of the source of every class of layers that is not torch's or radii's; None where there is none."""
    kinds = {type(module) for module in model.modules()}
    foreign = [kind for kind in kinds if kind.__module__.partition(".")[0] not in ("torch", "radii")]
    return {_name(kind): _source_digest(kind) for kind in sorted(foreign, key=_name)}


def _source_digest(kind: type) -> str | None:
    if kind.__module__ != "__main__" and (found := trust.source_digest(kind.__module__)):
        return found
    try:
        return hashlib.sha256(inspect.getsource(kind).encode()).hexdigest()
    except (OSError, TypeError):
        return None


def _name(kind: type) -> str:
    return f"{kind.__module__}:{kind.__qualname__}"
