"""The contract of a training method."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, NamedTuple, Self

import torch
from torch import Tensor, nn

from radii.errors import MissingResourceError
from radii.fields import option
from radii.plugins import Component


class Batch(NamedTuple):
    """The data of one optimizer step."""

    images: Tensor
    """[batch, channel, height, width], pixels in [0, 1]."""
    labels: Tensor
    """[batch]."""
    indices: Tensor
    """[batch], position in the training split."""


class Step(NamedTuple):
    """The epoch of a step, the generator of its random numbers, and the share of the training before it."""

    epoch: int
    rng: torch.Generator
    """With training.stream = "philox", a RowGenerator of the batch's images."""
    progress: float = 1.0
    """A share of all steps, from 0 to 1."""


Terms = Mapping[str, Tensor]
"""Weighted summands of the loss, each [batch]."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Objective(Component, ABC):
    """A training method.

    Fields are its hyper-parameters; the loss is the mean over images of the summed terms.
    """

    registry: ClassVar[str] = "objective"

    sigma: float = option(gt=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        for key in self.resources():
            if getattr(self, key) is None and self.needs(key):
                raise MissingResourceError(f"objective {self.name!r} needs {key}: {self.resource_help(key)}", key)

    @abstractmethod
    def terms(self, model: nn.Module, batch: Batch, step: Step) -> Terms:
        """Return the weighted summands of every image's loss, by name."""

    def check_model(self, model: nn.Module) -> None:
        """Raise a ParameterError for a model that the method cannot train; called before any work is done."""

    def needs(self, key: str) -> bool:
        """Return whether these hyper-parameters use a resource."""
        return True

    def to(self, device: torch.device) -> Self:
        """Return the same objective with its tensors and models on a device."""
        values = {key: getattr(self, key) for key in self.resources()}
        moved: dict[str, Any] = {
            key: value.to(device) for key, value in values.items() if isinstance(value, Tensor | nn.Module)
        }
        return replace(self, **moved) if moved else self

    @classmethod
    def resources(cls) -> list[str]:
        """Return the fields that the caller passes as objects."""
        return [f.name for f in fields(cls) if f.metadata.get("resource")]

    @classmethod
    def resource_help(cls, key: str) -> str:
        """Return what an error says about a missing resource: what it is, or how to pass it."""
        return f"pass it as `{key}`"


def ramp(epoch: int, warmup_epochs: int) -> float:
    """Return the share of the full strength in this epoch: it rises linearly over the warm-up, then stays 1."""
    return min(1.0, (epoch + 1) / warmup_epochs) if warmup_epochs else 1.0


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Return the cross-entropy of every copy against its image's label: [copy, batch]."""
    flat = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.repeat(len(logits)), reduction="none")
    return flat.view(logits.shape[:2])


def smoothed_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Return minus the log of the label's mean probability over the copies, which attacks maximise: [batch]."""
    likelihood = logits.softmax(-1).mean(0).gather(1, labels[:, None]).squeeze(1)
    return -likelihood.clamp(min=1e-20).log()


def divergence(targets: Tensor, log_probabilities: Tensor) -> Tensor:
    """Return KL(targets || probabilities) over the last axis; gradients also reach the targets, zeros included."""
    log_targets = targets.clamp(min=torch.finfo(targets.dtype).tiny).log()
    return (targets * (log_targets - log_probabilities)).sum(-1)
