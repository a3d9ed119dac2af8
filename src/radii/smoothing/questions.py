"""Questions about the noisy copies of one image. A certifier asks them, a voter answers them.

A question names copies by their stage and number. Stages never share draws, so answers about different stages are
independent.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from radii.errors import ParameterError
from radii.smoothing.addresses import NoiseAddress
from radii.smoothing.logits import SINGLE

Answer = NDArray[Any]


@dataclass(frozen=True)
class Question(ABC):
    """Something about the copies `first` to `first + count` of a stage."""

    stage: int
    first: int
    count: int

    def __post_init__(self) -> None:
        if self.count < 1:
            raise ValueError(f"samples = {self.count}, expected at least 1")

    @abstractmethod
    def answer(self, logits: Tensor) -> Tensor:
        """Answer for some of the copies, from their logits [copy, class]."""

    def gather(self, parts: Sequence[Tensor]) -> Tensor:
        """Combine what `answer` returned for consecutive copies, on their device: by default, add up."""
        return parts[0] if len(parts) == 1 else torch.stack(list(parts)).sum(0)

    @abstractmethod
    def join(self, parts: Sequence[Answer]) -> Answer:
        """Combine the answers for consecutive copies."""

    @abstractmethod
    def check(self, answer: Answer, classes: int) -> None:
        """Raise a ParameterError unless this can be the answer for all copies."""

    def split(self, size: int, block: int) -> list[Self]:
        """Split into parts of whole blocks, about `size` copies each; the last part may be shorter."""
        blocks = -(-self.count // block)
        parts = min(blocks, -(-self.count // size))
        bounds = [number * blocks // parts * block for number in range(parts)] + [self.count]
        return [replace(self, first=self.first + low, count=high - low) for low, high in pairwise(bounds)]

    def _miscounted(self, got: str, expected: str) -> ParameterError:
        return ParameterError(
            f"the classifier gave {got} for {self.count} samples, expected {expected}: it miscounts", "classifier"
        )


@dataclass(frozen=True)
class Votes(Question):
    """How often does each class win? The answer is [class]."""

    def answer(self, logits: Tensor) -> Tensor:
        return _counted(logits.argmax(1), logits.shape[1])

    def join(self, parts: Sequence[Answer]) -> Answer:
        return np.asarray(np.sum(parts, axis=0, dtype=np.int64))

    def check(self, answer: Answer, classes: int) -> None:
        whole = answer.dtype.kind in "iu"
        # The largest is checked too, because a sum of large numbers wraps around.
        good = whole and answer.shape == (classes,) and answer.min() >= 0
        if not (good and answer.max() <= self.count == answer.sum()):
            got = f"{answer.sum()} votes {list(answer.shape)}" if whole else f"{answer.dtype} {list(answer.shape)}"
            raise self._miscounted(got, f"{self.count} votes [{classes}], none below 0")


@dataclass(frozen=True)
class Hits(Question):
    """Which copies does the class `label` win? The answer is [copy], 1 where it does."""

    label: int = 0

    def answer(self, logits: Tensor) -> Tensor:
        return (logits.argmax(1) == self.label).byte()

    def gather(self, parts: Sequence[Tensor]) -> Tensor:
        return torch.cat(list(parts))

    def join(self, parts: Sequence[Answer]) -> Answer:
        return np.concatenate(parts)

    def check(self, answer: Answer, classes: int) -> None:
        if not (answer.dtype == np.uint8 and answer.shape == (self.count,) and answer.max() <= 1):
            raise self._miscounted(f"{answer.dtype} {list(answer.shape)}", f"bytes [{self.count}], 0 or 1")


@dataclass(frozen=True)
class Probabilities(Question):
    """How likely is the class `label` for each copy? The answer is [copy]; without a label, the sums [class].

    Probabilities are the softmax of `sharpness` times the logits. In the sums they are rounded to multiples of 2**-32:
    such sums are exact up to two million copies, so that they do not depend on the order of the copies.
    """

    sharpness: float = 1.0
    label: int | None = None

    def answer(self, logits: Tensor) -> Tensor:
        # A device without double precision has to be waited for here.
        logits = logits.cpu() if logits.device.type in SINGLE else logits
        probabilities = (self.sharpness * logits.double()).softmax(1)
        if self.label is None:
            return (probabilities * 2.0**32).round().sum(0) / 2.0**32
        return probabilities[:, self.label].clone()  # a view would keep the probabilities of all classes in memory

    def gather(self, parts: Sequence[Tensor]) -> Tensor:
        return super().gather(parts) if self.label is None else torch.cat(list(parts))

    def join(self, parts: Sequence[Answer]) -> Answer:
        return np.sum(parts, axis=0) if self.label is None else np.concatenate(parts)

    def check(self, answer: Answer, classes: int) -> None:
        shape = (classes,) if self.label is None else (self.count,)
        most = self.count if self.label is None else 1
        finite = answer.dtype.kind == "f" and answer.size > 0 and bool(np.isfinite(answer).all())
        good = finite and answer.shape == shape and answer.min() >= 0 and answer.max() <= most * (1 + 1e-9)
        if self.label is None:
            good = good and abs(answer.sum() - self.count) <= 1e-4 * self.count
        if not good:
            got = f"probabilities {list(answer.shape)}"
            got += (
                f" from {answer.min():g} to {answer.max():g}, {answer.sum():g} in all" if finite else ", not all finite"
            )
            raise self._miscounted(got, f"{list(shape)} from 0 to {most}")


@dataclass(frozen=True)
class NearTies(Question):
    """For how many copies do the two largest logits differ by less than rounding may move them? The answer is [1].

    `rounding` is a share of the largest logit; both logits may move.
    """

    rounding: float = 0.0

    def answer(self, logits: Tensor) -> Tensor:
        first, second = logits.topk(2, dim=1).values.unbind(1)
        return (first - second <= 2 * self.rounding * logits.abs().amax(1)).sum(0, keepdim=True)

    def join(self, parts: Sequence[Answer]) -> Answer:
        return np.asarray(np.sum(parts, axis=0, dtype=np.int64))

    def check(self, answer: Answer, classes: int) -> None:
        if not (answer.dtype.kind in "iu" and answer.shape == (1,) and 0 <= answer[0] <= self.count):
            raise self._miscounted(f"{answer.tolist()} near ties", f"one number up to {self.count}")


@dataclass(frozen=True)
class FavouredVotes(Votes):
    """How often would each class win, if `label` won every copy that rounding may decide for it? The answer is [class].

    `rounding` is a share of the largest logit; both logits may move.
    """

    label: int = 0
    rounding: float = 0.0

    def answer(self, logits: Tensor) -> Tensor:
        behind = logits.amax(1) - logits[:, self.label]
        near = behind <= 2 * self.rounding * logits.abs().amax(1)
        return _counted(logits.argmax(1).masked_fill(near, self.label), logits.shape[1])


def _counted(labels: Tensor, classes: int) -> Tensor:
    """Count the labels of each class. `bincount` would wait for a GPU twice."""
    counts = torch.zeros(classes, dtype=torch.int64, device=labels.device)
    return counts.scatter_add_(0, labels, torch.ones_like(labels))


class Task(NamedTuple):
    """A question about an image whose noise has this address."""

    image: Tensor
    address: NoiseAddress
    question: Question
