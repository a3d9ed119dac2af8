"""The pretended device "gpu": computes on the CPU, counts launches, synchronisations and copies, refuses mixtures.

Import this before radii, in a process of its own: it registers a torch backend by private interfaces (torch 2.13) and
replaces `torch.inference_mode` by `torch.no_grad`, because a wrapped tensor cannot be an inference tensor. What it does
not show: numerics of a GPU, streams, memory, autocast.
"""

import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import cache
from types import FrameType
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import backend_registration
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

warnings.filterwarnings("ignore", category=UserWarning)


class _Hooks(backend_registration._DummyPrivateUse1Hook):
    def get_default_generator(self, idx: int) -> torch.Generator:
        return torch.Generator("cpu")

    def is_available(self) -> bool:
        return True

    def has_primary_context(self, idx: int) -> bool:
        return True

    def is_built(self) -> bool:
        return True


backend_registration._setup_privateuseone_for_python_backend("gpu", hook=_Hooks())
setattr(torch, "inference_mode", lambda mode=True: torch.no_grad() if mode else nullcontext())  # noqa: B010

GPU, CPU = torch.device("gpu", 0), torch.device("cpu")
aten = torch.ops.aten
WAITS = {
    aten._local_scalar_dense.default: 1,
    aten.is_nonzero.default: 1,
    aten.nonzero.default: 1,
    aten.masked_select.default: 1,
    aten.equal.default: 1,
    aten.bincount.default: 2,
    aten._unique2.default: 1,
}
"""What a GPU has to be waited for, and how often."""
COPIES = (aten._to_copy.default, aten.copy_.default)
BLOCKING = "copy to the device"
"""What a place of waiting is called where a copy is not queued: CUDA then waits for all that was queued before."""


@dataclass
class Counts:
    """What happened on the device, by kind and by the line of radii that caused it."""

    launches: int = 0
    waits: Counter[str] = field(default_factory=Counter)
    to_device: Counter[str] = field(default_factory=Counter)
    to_host: Counter[str] = field(default_factory=Counter)

    def as_numbers(self) -> dict[str, int]:
        return {
            "launches": self.launches,
            "waits": self.waits.total(),
            "to_device": self.to_device.total(),
            "to_host": self.to_host.total(),
        }

    def places(self) -> dict[str, dict[str, int]]:
        return {"waits": dict(self.waits), "to_device": dict(self.to_device), "to_host": dict(self.to_host)}


class _State:
    counts = Counts()
    has_float64 = True


class Wrapped(Tensor):
    """A tensor of the pretended device; `raw` has its values."""

    raw: Tensor

    @staticmethod
    def __new__(cls, raw: Tensor, requires_grad: bool = False) -> "Wrapped":
        made: Wrapped = Tensor._make_wrapper_subclass(
            cls,
            raw.size(),
            strides=raw.stride(),
            storage_offset=raw.storage_offset(),
            dtype=raw.dtype,
            device=GPU,
            requires_grad=requires_grad,
        )
        made.raw = raw
        return made

    def __init__(self, raw: Tensor, requires_grad: bool = False) -> None:
        pass

    def __repr__(self, **_: Any) -> str:  # type: ignore[override]
        return f"Wrapped({self.raw})"

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        return _run(func, args, kwargs or {})

    def data_ptr(self) -> int:
        return self.raw.data_ptr()

    def __deepcopy__(self, memo: Any) -> "Wrapped":
        return Wrapped(self.raw.clone(), self.requires_grad)

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Go into a file as a tensor of the CPU."""
        _State.counts.to_host[where()] += 1
        return self.raw.detach().__reduce_ex__(protocol)

    def numpy(self, *_: Any, **__: Any) -> Any:
        raise TypeError("can't convert gpu:0 device type tensor to numpy. Use Tensor.cpu() first")

    __array__ = numpy


def where() -> str:
    """Return the innermost line of radii on the stack."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        _, found, path = frame.f_code.co_filename.rpartition("/radii/")
        if found:
            return f"{path}:{frame.f_lineno}"
        frame = frame.f_back
    return "outside"


def _is_gpu(device: Any) -> bool:
    return device is not None and torch.device(device).type == "gpu"


@cache
def _operation(func: Any) -> tuple[str, bool, bool]:
    """Return the name of an operation, whether it is indexing, and whether it is launched."""
    name: str = func.name()
    return name, name.startswith(("aten::index.", "aten::index_put")), not func.is_view


def _run(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Run an operation on the values, and count what it would mean for a GPU."""
    counts, (name, indexes, is_launched) = _State.counts, _operation(func)
    tensors: list[Tensor] = []
    plain_args = _unwrapped(args, tensors)
    plain_kwargs = {key: _unwrapped(value, tensors) for key, value in kwargs.items()}
    stated = kwargs.get("device")
    if func in COPIES:
        on_gpu = _copied(func, args, kwargs)
    else:
        has_ours = any(isinstance(tensor, Wrapped) for tensor in tensors)
        on_gpu = _is_gpu(stated) if stated is not None else has_ours
        if has_ours and any(not isinstance(tensor, Wrapped) and tensor.dim() for tensor in tensors):
            raise RuntimeError(f"expected all tensors on one device, found gpu:0 and cpu in {name} at {where()}")
        if has_ours and func in WAITS:
            counts.waits[f"{where()} {name}"] += WAITS[func]
        if (
            has_ours
            and indexes
            and any(isinstance(i, Tensor) and i.dtype in (torch.bool, torch.uint8) for i in args[1])
        ):
            counts.waits[f"{where()} {name} by a mask"] += 1
    counts.launches += on_gpu and is_launched
    if stated is not None:
        plain_kwargs["device"] = CPU
    result = func(*plain_args, **plain_kwargs)
    if not on_gpu and not any(isinstance(tensor, Wrapped) for tensor in tensors):
        return result
    known = {id(tensor.raw if isinstance(tensor, Wrapped) else tensor): tensor for tensor in tensors}

    def wrapped(value: Any) -> Any:
        if isinstance(value, tuple | list):
            return type(value)(map(wrapped, value))
        if not isinstance(value, Tensor):
            return value
        if id(value) in known:
            return known[id(value)]
        if on_gpu and value.dtype is torch.float64 and not _State.has_float64:
            raise TypeError(f"this device has no float64: {name} at {where()}")
        return Wrapped(value) if on_gpu else value

    return wrapped(result)


def _copied(func: Any, args: Any, kwargs: dict[str, Any]) -> bool:
    """Count a copy between the devices, and a wait if it is not queued; return whether it ends on this one."""
    stated = kwargs.get("device")
    queued = kwargs.get("non_blocking", func is COPIES[1] and len(args) > 2 and args[2])
    source, target = (args[0], stated) if func is COPIES[0] else (args[1], args[0].device)
    here = isinstance(source, Wrapped)
    there = _is_gpu(target) if target is not None else here
    if here != there:
        (_State.counts.to_device if there else _State.counts.to_host)[where()] += 1
    if there and not here and not queued:
        _State.counts.waits[f"{where()} {BLOCKING}"] += 1
    return there


def _unwrapped(value: Any, tensors: list[Tensor]) -> Any:
    """Return the values of tensors, also of those in lists, and collect the tensors."""
    if isinstance(value, Tensor):
        tensors.append(value)
        return value.raw if isinstance(value, Wrapped) else value
    if isinstance(value, tuple | list):
        return [_unwrapped(item, tensors) for item in value]
    return value


class _Mode(TorchDispatchMode):
    """Takes operations that create tensors on the device."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # nothing is compiled here, and skipping takes most of the time

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if Wrapped in types or _is_gpu(kwargs.get("device")):
            return _run(func, args, kwargs)
        return func(*args, **kwargs)


_tensor, _to = torch.tensor, nn.Module.to


def _made(data: Any, *, device: Any = None, **options: Any) -> Tensor:
    made = _tensor(data, **options)
    if not _is_gpu(device):
        return made
    _State.counts.to_device[where()] += 1
    _State.counts.waits[f"{where()} {BLOCKING}"] += 1
    return Wrapped(made)


def _moved(model: nn.Module, *args: Any, **kwargs: Any) -> nn.Module:
    """Replace `nn.Module.to`, which cannot put wrapped tensors into plain parameters."""
    given = kwargs.get("device", args[0] if args else None)
    if not isinstance(given, str | torch.device | torch.dtype):
        return model if any(isinstance(each, Wrapped) for each in model.parameters()) else _to(model, *args, **kwargs)

    def moved(tensor: Tensor) -> Tensor:
        return tensor.to(given) if not isinstance(given, torch.dtype) or tensor.is_floating_point() else tensor

    for module in model.modules():
        for name, parameter in module._parameters.items():
            if parameter is not None:
                module._parameters[name] = nn.Parameter(
                    moved(parameter.detach()), requires_grad=parameter.requires_grad
                )
        for name, buffer in module._buffers.items():
            if buffer is not None:
                module._buffers[name] = moved(buffer)
    return model


@contextmanager
def pretending(*, has_float64: bool = True) -> Iterator[None]:
    """Provide the device "gpu"; without float64 it is as limited as Apple's."""
    torch.tensor, nn.Module.to = _made, _moved  # type: ignore[assignment, method-assign]
    _State.has_float64 = has_float64
    try:
        with _Mode():  # type: ignore[no-untyped-call]
            yield
    finally:
        torch.tensor, nn.Module.to = _tensor, _to  # type: ignore[method-assign]


def in_threads(owner: type, method: str) -> None:
    """Let a method that runs in a thread of its own create tensors on the device: torch's modes are of one thread."""
    plain = getattr(owner, method)

    def run(*arguments: Any) -> Any:
        with _Mode():  # type: ignore[no-untyped-call]
            return plain(*arguments)

    setattr(owner, method, run)


def without_modes(work: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that runs as if there were no pretended device."""

    def run(*arguments: Any) -> Any:
        with _disable_current_modes():
            return work(*arguments)

    return run


def wait(_: torch.device) -> None:
    """Wait for the device: what `radii.device.wait_for` does on a GPU."""
    _State.counts.waits[where()] += 1


def counted(work: Callable[[], Any]) -> tuple[Any, Counts]:
    """Do some work; return its result and what happened on the device."""
    _State.counts = counts = Counts()
    result = work()
    _State.counts = Counts()
    return result, counts
