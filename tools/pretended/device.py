"""The pretended device "gpu": computes on the CPU, counts launches, synchronisations and copies, refuses mixtures.

Import this before radii, in a process of its own: it registers a torch backend by private interfaces (torch 2.13) and
replaces `torch.inference_mode` by `torch.no_grad`, because a wrapped tensor cannot be an inference tensor. What it does
not show: numerics of a GPU, streams, memory, autocast.
"""

import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import backend_registration
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

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

GPU = torch.device("gpu", 0)
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
    for frame in reversed(traceback.extract_stack()):
        if "/radii/" in frame.filename:
            return f"{frame.filename.rpartition('/radii/')[2]}:{frame.lineno}"
    return "outside"


def _is_gpu(device: Any) -> bool:
    return device is not None and torch.device(device).type == "gpu"


def _run(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Run an operation on the values, and count what it would mean for a GPU."""
    counts, name = _State.counts, func.name()
    tensors = [given for given in tree_flatten((args, kwargs))[0] if isinstance(given, Tensor)]
    ours = [tensor for tensor in tensors if isinstance(tensor, Wrapped)]
    stated = kwargs.get("device")
    if func in COPIES:
        source, target = (args[0], stated) if func is COPIES[0] else (args[1], args[0].device)
        here, there = (
            isinstance(source, Wrapped),
            _is_gpu(target) if target is not None else isinstance(source, Wrapped),
        )
        counts.to_host[where()] += here and not there
        counts.to_device[where()] += there and not here
        on_gpu = there
    else:
        on_gpu = _is_gpu(stated) if stated is not None else bool(ours)
        others = [tensor for tensor in tensors if not isinstance(tensor, Wrapped) and tensor.dim()]
        if ours and others:
            raise RuntimeError(f"expected all tensors on one device, found gpu:0 and cpu in {name} at {where()}")
        if ours and func in WAITS:
            counts.waits[f"{where()} {name}"] += WAITS[func]
        if ours and name.startswith(("aten::index.", "aten::index_put")):
            indices = [index for index in args[1] if isinstance(index, Tensor)]
            if any(index.dtype in (torch.bool, torch.uint8) for index in indices):
                counts.waits[f"{where()} {name} by a mask"] += 1
    if on_gpu and not func.is_view:
        counts.launches += 1
    plain_args, plain_kwargs = tree_map(_unwrapped, (args, kwargs))
    if stated is not None:
        plain_kwargs = {**plain_kwargs, "device": torch.device("cpu")}
    result = func(*plain_args, **plain_kwargs)
    known = {id(_unwrapped(tensor)): tensor for tensor in tensors}

    def wrapped(value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        if id(value) in known:
            return known[id(value)]
        if on_gpu and value.dtype is torch.float64 and not _State.has_float64:
            raise TypeError(f"this device has no float64: {name} at {where()}")
        return Wrapped(value) if on_gpu else value

    return tree_map(wrapped, result)


def _unwrapped(value: Any) -> Any:
    return value.raw if isinstance(value, Wrapped) else value


class _Mode(TorchDispatchMode):
    """Takes operations that create tensors on the device."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if _is_gpu(kwargs.get("device")) or any(isinstance(each, Wrapped) for each in tree_flatten((args, kwargs))[0]):
            return _run(func, args, kwargs)
        return func(*args, **kwargs)


_tensor, _to = torch.tensor, nn.Module.to


def _made(data: Any, *, device: Any = None, **options: Any) -> Tensor:
    made = _tensor(data, **options)
    if not _is_gpu(device):
        return made
    _State.counts.to_device[where()] += 1
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


def counted(work: Callable[[], Any]) -> tuple[Any, Counts]:
    """Do some work; return its result and what happened on the device."""
    _State.counts = Counts()
    result = work()
    return result, _State.counts
