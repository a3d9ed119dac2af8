"""BatchNorm merged into the convolutions before it, and pooling without indices: the same function, faster."""

import copy
import operator
from typing import TypeVar

import torch
from torch import Tensor, fx, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

Model = TypeVar("Model", bound=nn.Module)


def folded(model: nn.Module) -> nn.Module:
    """A copy in eval mode, channels last, with every BatchNorm that follows a convolution merged into it."""
    fast = channels_last(copy.deepcopy(model).eval().requires_grad_(False))
    try:
        graph = fx.symbolic_trace(fast)
    except Exception:  # a model whose forward branches on data cannot be traced; it stays as it is
        return fast
    _fold_batch_norms(graph)
    for name, module in list(graph.named_modules()):
        if isinstance(module, nn.MaxPool2d) and _halves(module):
            _replace(graph, name, _HalvingPool())
    graph.delete_all_unused_submodules()
    graph.recompile()
    return graph


def _fold_batch_norms(graph: fx.GraphModule) -> None:
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


class _HalvingPool(nn.Module):
    """The largest of every 2x2 pixels, in rows of whole vectors: torch's own keeps indices that nothing here reads."""

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
