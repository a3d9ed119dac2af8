"""BatchNorm over the images of all processes, on CPUs and GPUs."""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from radii.errors import ParameterError

CPU = torch.device("cpu")


class SynchronisedBatchNorm(_BatchNorm):
    """BatchNorm over the images of all ranks on a CPU; torch's SyncBatchNorm runs on GPUs only.

    Every rank has to make the same forward passes in train mode. A rank that is not `counted` adds no images.
    """

    counted: bool = True

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() < 2:
            raise ValueError(f"expected images or vectors of a batch, got {input.dim()} dimensions")

    def forward(self, input: Tensor) -> Tensor:
        if not self.training:
            return super().forward(input)
        mean, variance, count = self._statistics(input)
        if self.track_running_stats:
            self._track(mean.detach(), variance.detach(), count)
        scale = (variance + self.eps).rsqrt()
        if self.weight is not None:
            scale = scale * self.weight
        shift = -mean * scale if self.bias is None else self.bias - mean * scale
        channels = (1, -1, *(1 for _ in input.shape[2:]))
        return input * scale.view(channels).to(input.dtype) + shift.view(channels).to(input.dtype)

    def _statistics(self, input: Tensor) -> tuple[Tensor, Tensor, float]:
        """Return mean and variance of every channel over all ranks, and the number of values in a channel."""
        axes = [axis for axis in range(input.dim()) if axis != 1]
        wide = input.float() if input.dtype in (torch.bfloat16, torch.float16) else input
        variance, mean = torch.var_mean(wide, axes, correction=0)
        count = float(input.numel() // input.shape[1]) if self.counted else 0.0
        gathered = _AllGather.apply(torch.cat([mean, variance, mean.new_tensor([count])]))  # type: ignore[no-untyped-call]
        means, variances = gathered[:, :-1].unflatten(1, (2, -1)).unbind(1)
        counts = gathered[:, -1:].detach()
        total = float(counts.sum())
        shares = counts / total
        overall = (shares * means).sum(0)
        return overall, (shares * (variances + (means - overall).square())).sum(0), total

    def _track(self, mean: Tensor, variance: Tensor, count: float) -> None:
        assert self.running_mean is not None
        assert self.running_var is not None
        assert self.num_batches_tracked is not None
        self.num_batches_tracked.add_(1)
        rate = 1 / float(self.num_batches_tracked) if self.momentum is None else self.momentum
        self.running_mean.lerp_(mean, rate)
        self.running_var.lerp_(variance * (count / max(count - 1, 1)), rate)


class _AllGather(torch.autograd.Function):
    """Stack the vectors of all ranks as rows; the gradient of a rank's own vector is summed over all ranks."""

    @staticmethod
    def forward(_: Any, own: Tensor) -> Tensor:
        rows = [torch.empty_like(own) for _ in range(dist.get_world_size())]
        dist.all_gather(rows, own.contiguous())
        return torch.stack(rows)

    @staticmethod
    def backward(_: Any, gradient: Tensor) -> Tensor:
        total = gradient.contiguous()
        dist.all_reduce(total)
        return total[dist.get_rank()]


SYNCHRONISED = (SynchronisedBatchNorm, nn.SyncBatchNorm)


def synchronise(model: nn.Module, device: torch.device = CPU) -> None:
    """Replace every BatchNorm of a model by a synchronised one with the same weights and statistics.

    On CUDA it is torch's SyncBatchNorm, which also counts the substitute image of a rank that has none in a step.
    """
    layer_type = nn.SyncBatchNorm if device.type == "cuda" else SynchronisedBatchNorm
    for parent in list(model.modules()):
        for name, child in parent.named_children():
            if isinstance(child, _BatchNorm) and not isinstance(child, SYNCHRONISED):
                setattr(parent, name, _synchronised(name, child, layer_type))


def _synchronised(
    name: str, norm: _BatchNorm, layer_type: type[SynchronisedBatchNorm] | type[nn.SyncBatchNorm]
) -> _BatchNorm:
    if type(norm) not in (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d):
        raise ParameterError(
            f"the layer {name!r} is a {type(norm).__name__}, which cannot be synchronised: use batch_norm = 'local'"
        )
    layer = layer_type(norm.num_features, norm.eps, norm.momentum, norm.affine, norm.track_running_stats)
    layer.__dict__.update({key: norm.__dict__[key] for key in ("_parameters", "_buffers", "training")})
    return layer
