"""Merge BatchNorm into the convolutions before it, and pool without indices: the same function, faster."""

import copy
import operator
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.nn.modules import module as torch_module
from torch.nn.utils.fusion import fuse_conv_bn_eval

from radii.smoothing.forward import channels_last, evaluating, without_tf32
from radii.smoothing.logits import check_logits, same_up_to_rounding

FOLDING = 16.0
"""How much more rounding a folded model may show than a moved row: the weights of every layer are rounded once more."""


def folded(model: nn.Module, probe: Tensor | None = None) -> nn.Module:
    """Copy a model in eval mode, with BatchNorm merged into the convolution before it where it is safe.

    On a CPU it is channels last, and 2x2 pooling is done without indices.

    Both have to be torch's own, called once, with weights that nothing else uses; a model with hooks, or with a forward
    or call that tracing would miss, is not folded. Nor is one whose logits on `probe` change when folded.
    """
    try:
        plain = copy.deepcopy(model).eval().requires_grad_(False)
        plain = channels_last(plain) if _is_on_cpu(plain) else plain
    except (RuntimeError, TypeError):  # weights that are computed in a hook cannot be copied, nor can locks
        return model
    fast = _fold(plain) if _is_all_traced(plain) else plain
    return fast if fast is plain or probe is None or _same(model, fast, probe) else plain


def _same(model: nn.Module, fast: nn.Module, probe: Tensor) -> bool:
    with evaluating(model), torch.inference_mode(), without_tf32():
        expected = check_logits(model(probe), len(probe))
        logits = fast(probe)
    return logits.shape == expected.shape and same_up_to_rounding(logits, expected, FOLDING)


def _is_all_traced(model: nn.Module) -> bool:
    """Return whether tracing captures all that a call of the model does: tracing drops hooks and patched methods."""
    if torch_module._has_any_global_hook():
        return False
    return not any(
        module.training
        or module._forward_hooks
        or module._forward_pre_hooks
        or "forward" in vars(module)
        or type(module).__call__ is not nn.Module.__call__
        for module in model.modules()
    )


class _OwnTracer(fx.Tracer):
    """Traces the calls of its own thread: torch.fx patches the modules of the whole process meanwhile."""

    def __init__(self) -> None:
        super().__init__()
        self._thread = threading.get_ident()

    def call_module(self, m: nn.Module, forward: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        if threading.get_ident() != self._thread:
            return forward(*args, **kwargs)
        return super().call_module(m, forward, args, kwargs)

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Any]) -> Any:
        if threading.get_ident() != self._thread:
            return attr_val
        return super().getattr(attr, attr_val, parameter_proxy_cache)


_TRACING = threading.RLock()
"""Held while tracing: two traces at once would undo each other's patches."""


def _fold(plain: nn.Module) -> nn.Module:
    try:
        with _TRACING:
            graph = fx.GraphModule(plain, _OwnTracer().trace(plain), type(plain).__name__)
    except Exception:  # a model whose forward branches on data cannot be traced; it stays as it is
        return plain
    _fold_batch_norms(graph)
    for name, module in list(graph.named_modules()):
        if type(module) is nn.MaxPool2d and _halves(module) and _is_on_cpu(plain):
            _replace(graph, name, _HalvingPool())
    graph.delete_all_unused_submodules()
    graph.recompile()
    return graph


def _fold_batch_norms(graph: fx.GraphModule) -> None:
    modules = dict(graph.named_modules())
    own = _called_once(graph, modules)
    for node in list(graph.graph.nodes):
        norm = modules.get(node.target) if node.op == "call_module" else None
        before = node.args[0] if node.args else None
        if not isinstance(before, fx.Node) or before.op != "call_module" or len(before.users) > 1:
            continue
        convolution = modules[str(before.target)]
        if type(norm) is nn.BatchNorm2d and type(convolution) is nn.Conv2d and {norm, convolution} <= own:
            fused = fuse_conv_bn_eval(convolution, norm)
            _replace(graph, str(before.target), channels_last(fused) if _is_on_cpu(fused) else fused)
            node.replace_all_uses_with(before)
            graph.graph.erase_node(node)


def _called_once(graph: fx.GraphModule, modules: dict[str, nn.Module]) -> set[nn.Module]:
    """Return the modules with one call, on one input, whose tensors nothing else holds or reads."""
    nodes = list(graph.graph.nodes)
    calls = Counter(modules[node.target] for node in nodes if node.op == "call_module")
    plainly = {
        modules[node.target]
        for node in nodes
        if node.op == "call_module" and len(node.args) == 1 and not node.kwargs and calls[modules[node.target]] == 1
    }
    owners = Counter(id(tensor) for module in modules.values() for tensor in _tensors(module))
    read = {id(operator.attrgetter(node.target)(graph)) for node in nodes if node.op == "get_attr"}
    return {
        module
        for module in plainly
        if all(owners[id(tensor)] == 1 and id(tensor) not in read for tensor in _tensors(module))
        and getattr(module, "running_mean", module) is not None
    }


def _tensors(module: nn.Module) -> list[Tensor]:
    held = [*module._parameters.values(), *module._buffers.values()]
    return [tensor for tensor in held if tensor is not None]


def _is_on_cpu(model: nn.Module) -> bool:
    return all(tensor.device.type == "cpu" for tensor in (*model.parameters(), *model.buffers()))


class _HalvingPool(nn.Module):
    """2x2 max pooling in rows of whole vectors: torch's max_pool2d also computes indices, which are not needed."""

    def forward(self, maps: Tensor) -> Tensor:
        count, channels, height, width = maps.shape
        even = maps[:, :, : height // 2 * 2, : width // 2 * 2].permute(0, 2, 3, 1)
        pairs = even.reshape(count, height // 2, 2, width // 2, 2 * channels)
        rows = torch.maximum(pairs[:, :, 0], pairs[:, :, 1])
        return torch.maximum(rows[..., :channels], rows[..., channels:]).permute(0, 3, 1, 2)


def _halves(pool: nn.MaxPool2d) -> bool:
    settings = (pool.kernel_size, pool.stride, pool.padding, pool.dilation, pool.ceil_mode, pool.return_indices)
    return settings == (2, 2, 0, 1, False, False)


def _replace(root: nn.Module, path: str, module: nn.Module) -> None:
    parent, _, name = path.rpartition(".")
    setattr(operator.attrgetter(parent)(root) if parent else root, name, module)
