"""Forward passes made cheap: one interface, several engines.

A certificate is about the function that ran, so the engine is part of its record and the one that deployment uses.
"""

import copy
import importlib.util
import io
import operator
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from radii.fields import meant
from radii.smoothing.noise import generator

Model = TypeVar("Model", bound=nn.Module)


@dataclass(frozen=True)
class Job:
    """What an engine is made for."""

    model: nn.Module
    """In eval mode, BatchNorm folded."""
    shape: tuple[int, int, int]
    sigma: float
    batch_size: int
    artefact: Path
    """Where an engine with a state of its own keeps it."""
    pictures: Callable[[], Tensor]
    """Training images to calibrate on: [image, channel, height, width]."""


def prepare(job: Job, engine: str) -> tuple[str, nn.Module]:
    """The engine and the model in its form. `auto` is the fastest installed one that agrees with plain torch."""
    if engine == "auto":
        return _fastest(job)
    if engine not in ENGINES:
        raise LookupError(f"there is no engine {engine!r}{meant(engine, ('auto', *ENGINES))}")
    form = ENGINES[engine](job)
    if (share := agreement(job, form)) < 0.9:
        raise ValueError(f"the engine {engine!r} gives plain torch's class on {share:.0%} of a probe: use another")
    return engine, form


def _fastest(job: Job) -> tuple[str, nn.Module]:
    """Timed on the probe; engines that take long to make, or change the function, must be asked for by name."""
    forms = {"torch": job.model}
    if importlib.util.find_spec("openvino") and next(job.model.parameters()).device.type == "cpu":
        form = _openvino(job)
        if agreement(job, form) == 1.0:
            forms["openvino"] = form
    name = min(forms, key=lambda name: _seconds(forms[name], _probe(job))) if len(forms) > 1 else "torch"
    return name, forms[name]


def _seconds(form: nn.Module, probe: Tensor) -> float:
    seconds = []
    with torch.inference_mode():
        for _ in range(5):
            began = time.perf_counter()
            form(probe)
            seconds.append(time.perf_counter() - began)
    return min(seconds)


def _probe(job: Job) -> Tensor:
    """A block of grey under the noise of the job."""
    noise = torch.randn((job.batch_size, *job.shape), generator=generator("cpu", 0))
    on_device = (0.5 + job.sigma * noise).to(next(job.model.parameters()).device)
    return on_device.contiguous(memory_format=torch.channels_last)


def agreement(job: Job, form: nn.Module) -> float:
    """The share of a probe block on which an engine and plain torch give one class."""
    probe = _probe(job)
    with torch.inference_mode():
        return float((form(probe).argmax(1) == job.model(probe).argmax(1)).double().mean())


def folded(model: nn.Module) -> nn.Module:
    """A copy in eval mode, channels last, with every BatchNorm that follows a convolution merged into it."""
    fast = channels_last(copy.deepcopy(model).eval().requires_grad_(False))
    try:
        graph = fx.symbolic_trace(fast)
    except Exception:  # a model whose forward branches on data cannot be traced; it stays as it is
        return fast
    modules = dict(graph.named_modules())
    for node in list(graph.graph.nodes):
        norm = modules.get(node.target) if node.op == "call_module" else None
        before = node.args[0] if node.args else None
        if not isinstance(norm, nn.BatchNorm2d) or not isinstance(before, fx.Node) or len(before.users) > 1:
            continue
        convolution = modules.get(str(before.target)) if before.op == "call_module" else None
        if isinstance(convolution, nn.Conv2d):
            _replace(graph, str(before.target), channels_last(fuse_conv_bn_eval(convolution, norm)))
            node.replace_all_uses_with(before)
            graph.graph.erase_node(node)
    for name, module in list(graph.named_modules()):
        if isinstance(module, nn.MaxPool2d) and _halves(module):
            _replace(graph, name, _HalvingPool())
    graph.delete_all_unused_submodules()
    graph.recompile()
    return graph


class _HalvingPool(nn.Module):
    """The largest of every 2x2 pixels, in rows of whole vectors: torch's own keeps indices that nobody asks for."""

    def forward(self, maps: Tensor) -> Tensor:
        count, channels, height, width = maps.shape
        even = maps[:, :, : height // 2 * 2, : width // 2 * 2].permute(0, 2, 3, 1)
        pairs = even.reshape(count, height // 2, 2, width // 2, 2 * channels)
        rows = torch.maximum(pairs[:, :, 0], pairs[:, :, 1])
        return torch.maximum(rows[..., :channels], rows[..., channels:]).permute(0, 3, 1, 2)


def _halves(pool: nn.MaxPool2d) -> bool:
    settings = (pool.kernel_size, pool.stride, pool.padding, pool.dilation, pool.ceil_mode, pool.return_indices)
    return settings == (2, 2, 0, 1, False, False)


def channels_last(model: Model) -> Model:
    """The model with its weights laid out as convolutions on a CPU are fastest on."""
    return model.to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]


def _replace(root: nn.Module, path: str, module: nn.Module) -> None:
    parent, _, name = path.rpartition(".")
    setattr(operator.attrgetter(parent)(root) if parent else root, name, module)


def _plain(job: Job) -> nn.Module:
    return job.model


def _compiled(job: Job) -> nn.Module:
    import torch._inductor.config as inductor

    inductor.freezing = True
    return _Blocks(torch.compile(job.model), job.batch_size)


def _openvino(job: Job) -> nn.Module:
    return _Blocks(_request(_converted(job)), job.batch_size)


def _openvino_int8(job: Job) -> nn.Module:
    import nncf
    import openvino

    file = job.artefact.with_suffix(".xml")
    if not file.is_file():
        noisy = job.pictures()
        noisy = noisy + job.sigma * torch.randn(noisy.shape, generator=generator("cpu", 1))
        blocks = nncf.Dataset([block.numpy() for block in noisy.split(job.batch_size) if len(block) == job.batch_size])
        with redirect_stdout(io.StringIO()):  # it draws progress bars of its own
            quantised = nncf.quantize(_converted(job), blocks, subset_size=len(noisy) // job.batch_size)
        openvino.save_model(quantised, file, compress_to_fp16=False)
    return _Blocks(_request(openvino.Core().read_model(file)), job.batch_size)


def _converted(job: Job) -> Any:
    if not importlib.util.find_spec("openvino"):
        raise LookupError("the engine 'openvino' is not installed: pip install 'radii[openvino]'")
    import openvino

    example = torch.zeros(job.batch_size, *job.shape)
    return openvino.convert_model(job.model, example_input=example, input=[list(example.shape)])


def _request(model: Any) -> Callable[[Tensor], Tensor]:
    """A model compiled by OpenVINO, in the precision it was given."""
    import openvino

    settings = {
        "INFERENCE_PRECISION_HINT": "f32",  # or a machine with bf16 units would silently use them
        "INFERENCE_NUM_THREADS": torch.get_num_threads(),
        "PERFORMANCE_HINT": "LATENCY",
        "ENABLE_CPU_PINNING": False,  # or the workers of several processes would share one core
    }
    request = openvino.Core().compile_model(model, "CPU", settings).create_infer_request()
    return lambda images: torch.from_numpy(request.infer([images.contiguous().numpy()], share_inputs=True)[0].copy())


class _Blocks(nn.Module):
    """A compiled function of one block size and layout; a shorter block is filled up."""

    def __init__(self, function: Callable[[Tensor], Tensor], block: int) -> None:
        super().__init__()
        self.function = function
        self.block = block

    def forward(self, images: Tensor) -> Tensor:
        missing = (0, 0) * 3 + (0, self.block - len(images))
        rows_first = F.pad(images.permute(0, 2, 3, 1), missing) if missing[-1] else images.permute(0, 2, 3, 1)
        return self.function(rows_first.contiguous().permute(0, 3, 1, 2))[: len(images)]


ENGINES: dict[str, Callable[[Job], nn.Module]] = {
    "torch": _plain,
    "compile": _compiled,
    "openvino": _openvino,
    "openvino_int8": _openvino_int8,
}
