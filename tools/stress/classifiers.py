"""Faulty classifiers that must be refused, unusual ones that must not be, and networks that are hard to fold."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import parametrizations

Fault = Callable[[Tensor, Tensor], Tensor]
"""A function of (logits, images) that returns the faulty logits."""


class LastBits(nn.Module):
    """Predict class 0 if a value is finer than float32 can be after noise was added to a grey level."""

    def forward(self, images: Tensor) -> Tensor:
        values = images.flatten(1).double()
        fine = ((values.abs() < 2.0**-9) & ((values * 2.0**32) % 1 != 0)).sum(1)
        return torch.stack([fine - 0.5, 0.5 - fine], 1).float()


class Base(nn.Module):
    """A small network whose logits get a fault."""

    def __init__(self, fault: Fault, seed: int = 0) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 3))
        self.fault = fault

    def forward(self, images: Tensor) -> Tensor:
        return self.fault(self.layers(images), images)


def in_places(places: slice, by: float = 1.0) -> Fault:
    def fault(logits: Tensor, _: Tensor) -> Tensor:
        changed = logits.clone()
        changed[places] = by * changed[places].flip(1)
        return changed

    return fault


def far_only(logits: Tensor, images: Tensor) -> Tensor:
    """Add the mean of the block where noise is strong."""
    far = (images - 0.5).flatten(1).norm(dim=1, keepdim=True) > 2
    return torch.where(far, logits + 0.1 * logits.mean(0), logits)


BY_COMPANY: dict[str, Fault] = {
    "mean over the block": lambda z, _: z - z.mean(0),
    "a thousandth of the block's mean": lambda z, _: z + 1e-3 * z.mean(0),
    "range of the block": lambda z, _: (z * (127 / z.abs().max())).round() / (127 / z.abs().max()),
    "softmax over the wrong axis": lambda z, _: z.softmax(0),
    "rank within the block": lambda z, _: z.argsort(0).argsort(0).float(),
    "the row before": lambda z, _: z + 0.1 * z.roll(1, 0),
    "statistics of the block": lambda z, _: F.batch_norm(z, None, None, training=True),
    "where noise is strong": far_only,
}
BY_PLACE: dict[str, Fault] = {
    "the last row": in_places(slice(-1, None)),
    "the first row": in_places(slice(0, 1)),
    "odd places": in_places(slice(1, None, 2)),
    "every tenth place": in_places(slice(3, None, 10)),
    "the second half": in_places(slice(64, None)),
    "a thousandth in one place": in_places(slice(77, 78), 1e-3),
    "the number of the row": lambda z, _: z + 1e-3 * torch.arange(len(z))[:, None] * torch.tensor([1.0, 0.0, -1.0]),
}
BY_LENGTH: dict[str, Fault] = {
    "more than 64 rows": lambda z, _: z.flip(1) if len(z) > 64 else z,
    "one row": lambda z, _: z.flip(1) if len(z) == 1 else z,
    "the share of a whole block": lambda z, _: z * len(z) / 128,
}
HONEST: dict[str, Fault] = {
    "plain": lambda z, _: z,
    "constant": lambda z, _: torch.zeros_like(z),
    "double": lambda z, _: z.double(),
    "bfloat16": lambda z, _: z.bfloat16(),
    "integers": lambda z, _: (z > 0).long(),
    "log softmax": lambda z, _: z.log_softmax(1),
    "masked": lambda z, _: z.clone().index_fill_(1, torch.tensor(2), -1e9),
    "offset": lambda z, _: 1e6 + z,
}


SHAPE = (3, 8, 8)


class Net(nn.Module):
    """A convolution, two BatchNorms and a linear layer, connected by `wiring`."""

    def __init__(self, wiring: Callable[["Net", Tensor], Tensor] | None = None) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv = nn.Conv2d(3, 3, 3, padding=1)
        self.norm, self.other = (_with_statistics(nn.BatchNorm2d(3), seed) for seed in (1, 2))
        self.last = nn.Linear(3, 4)
        self.wiring = wiring

    def forward(self, images: Tensor) -> Tensor:
        maps = self.norm(self.conv(images)) if self.wiring is None else self.wiring(self, images)
        logits: Tensor = self.last(maps.relu().mean((2, 3)))
        return logits


def _with_statistics(norm: nn.BatchNorm2d, seed: int) -> nn.BatchNorm2d:
    rng = torch.Generator().manual_seed(seed)
    for tensor in (norm.running_mean, norm.running_var, norm.weight.data, norm.bias.data):
        assert tensor is not None
        tensor.copy_(torch.rand(3, generator=rng) + 0.1)
    return norm


class OwnConv(nn.Conv2d):
    def forward(self, input: Tensor) -> Tensor:
        return 2 * super().forward(input).relu()


class OwnNorm(nn.BatchNorm2d):
    def forward(self, input: Tensor) -> Tensor:
        normed: Tensor = super().forward(input)
        return normed.abs()


class OwnPool(nn.MaxPool2d):
    def forward(self, input: Tensor) -> Tensor:
        largest: Tensor = super().forward(-input)
        return -largest


class OwnCall(Net):
    def __call__(self, images: Tensor) -> Tensor:
        logits: Tensor = super().__call__(images)
        return 2 * logits


def patched(change: Callable[[Net], object]) -> Net:
    net = Net()
    change(net)
    return net


def _flip_forward(net: Net) -> None:
    plain = net.forward
    net.forward = lambda images: plain(images).flip(1)  # type: ignore[method-assign]


def _tied(net: Net) -> None:
    extra = net.extra = nn.Conv2d(3, 3, 3, padding=1)
    extra.weight = net.conv.weight
    net.wiring = lambda net, x: net.get_submodule("extra")(net.norm(net.conv(x)))


def _for_tracers_only(net: Net, images: Tensor) -> Tensor:
    """Compute something else for a tracer: what a trace records is not what runs."""
    return net.norm(net.conv(images)) if isinstance(images, Tensor) else net.conv(images)  # type: ignore[no-any-return]


def _caught(net: Net, images: Tensor) -> Tensor:
    try:
        dark = bool(images.mean() < 10)
    except Exception:
        dark = False
    return net.norm(net.conv(images)) if dark else net.conv(images)  # type: ignore[no-any-return]


NETS: dict[str, Callable[[], nn.Module]] = {
    "plain": Net,
    "two norms on one convolution": lambda: Net(lambda n, x: n.norm(n.conv(x)) + n.other(n.conv(x.flip(3)))),
    "one convolution twice in a row": lambda: Net(lambda n, x: n.other(n.conv(n.norm(n.conv(x))))),
    "one norm twice": lambda: Net(lambda n, x: n.norm(n.conv(n.norm(x)))),
    "the convolution's output used twice": lambda: Net(lambda n, x: n.norm(n.conv(x)) + n.conv(x)),
    "the weight used elsewhere": lambda: Net(lambda n, x: n.norm(n.conv(x)) + F.conv2d(x, n.conv.weight, padding=1)),
    "the statistics used elsewhere": lambda: Net(
        lambda n, x: n.norm(n.conv(x)) * n.norm.get_buffer("running_mean").sum()
    ),
    "tied weights": lambda: patched(_tied),
    "hook on the convolution": lambda: patched(lambda n: n.conv.register_forward_hook(lambda *a: 3 * a[2])),
    "hook on the norm": lambda: patched(lambda n: n.norm.register_forward_hook(lambda *a: a[2].abs())),
    "hook before the norm": lambda: patched(lambda n: n.norm.register_forward_pre_hook(lambda *a: (3 * a[1][0],))),
    "hook on the whole": lambda: patched(lambda n: n.register_forward_hook(lambda *a: a[2].flip(1))),
    "hook before the whole": lambda: patched(lambda n: n.register_forward_pre_hook(lambda *a: (a[1][0].flip(3),))),
    "hook on a parent": lambda: nn.Sequential(patched(lambda n: n.register_forward_hook(lambda *a: a[2].flip(1)))),
    "own convolution": lambda: patched(lambda n: setattr(n, "conv", OwnConv(3, 3, 3, padding=1))),
    "own norm": lambda: patched(lambda n: setattr(n, "norm", OwnNorm(3))),
    "own pool": lambda: nn.Sequential(OwnPool(2), Net()),
    "own call": OwnCall,
    "patched forward": lambda: patched(_flip_forward),
    "weight norm": lambda: patched(lambda n: parametrizations.weight_norm(n.conv)),
    "spectral norm": lambda: patched(lambda n: parametrizations.spectral_norm(n.conv)),
    "no running statistics": lambda: patched(
        lambda n: setattr(n, "norm", nn.BatchNorm2d(3, track_running_stats=False))
    ),
    "no affine": lambda: patched(lambda n: setattr(n, "norm", nn.BatchNorm2d(3, affine=False))),
    "no bias": lambda: patched(lambda n: setattr(n, "conv", nn.Conv2d(3, 3, 3, bias=False))),
    "reflected borders": lambda: patched(
        lambda n: setattr(n, "conv", nn.Conv2d(3, 3, 3, padding=1, padding_mode="reflect"))
    ),
    "another way for tracers": lambda: Net(_for_tracers_only),
    "a branch behind a try": lambda: Net(_caught),
}
