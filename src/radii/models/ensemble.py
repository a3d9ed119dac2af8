"""Ensembles: the mean logits of several networks as one classifier (Horváth, Müller, Fischer & Vechev 2022)."""

from typing import Annotated

import torch
from torch import Tensor, nn

from radii.models.base import InnerModels, Shape, create_inner
from radii.smoothing.normalisation import Normalisation


class Ensemble(nn.Module):
    """Returns the mean of the members' logits.

    With `consensus` K and in eval mode, an image on whose class the first K members agree gets the mean of these K
    only. This differs from the mean of all members, but it is a fixed function of the image, so it can be certified.
    """

    def __init__(self, members: list[nn.Module], consensus: int = 0) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)
        self.consensus = consensus

    def forward(self, images: Tensor) -> Tensor:
        if self.training or not self.consensus:
            return self._mean(images, 0, len(self.members))
        first = torch.stack([member(images) for member in self.members[: self.consensus]])
        classes = first.argmax(-1)
        agree = (classes == classes[0]).all(0)
        if torch._C._get_tracing_state() is not None or torch.compiler.is_compiling():
            # A traced graph cannot leave rows out: compute the same function for all of them.
            rest = self._mean(images, self.consensus, len(self.members))
            return torch.where(agree[:, None], first.mean(0), self._combined(first.mean(0), rest))
        logits = first.mean(0)
        open_rows = (~agree).nonzero()[:, 0]
        if len(open_rows):
            rest = self._mean(images[open_rows], self.consensus, len(self.members))
            logits[open_rows] = self._combined(logits[open_rows], rest)
        return logits

    def _mean(self, images: Tensor, start: int, stop: int) -> Tensor:
        total: Tensor = self.members[start](images)
        for member in self.members[start + 1 : stop]:
            total = total + member(images)
        return total / (stop - start)

    def _combined(self, first: Tensor, rest: Tensor) -> Tensor:
        """Return the mean of all members' logits, from the mean of the first and the mean of the others."""
        share = self.consensus / len(self.members)
        return share * first + (1 - share) * rest


def ensemble(
    shape: Shape,
    classes: int,
    normalisation: Normalisation,
    members: InnerModels,
    consensus: Annotated[int, {"ge": 0}] = 0,
) -> nn.Module:
    """The mean logits of several models, for the images that the members take.

    In a recipe, each of `members` is a model, or the path of a trained run. `consensus` K evaluates the others only
    where the first K disagree; 0 always evaluates all.
    """
    if len(members) < 2:
        raise ValueError(f"model 'ensemble' has {len(members)} members, expected at least 2")
    if consensus >= len(members):
        raise ValueError(f"model 'ensemble': consensus = {consensus}, expected less than the {len(members)} members")
    inputs = {"shape": shape, "classes": classes, "normalisation": normalisation}
    return Ensemble([create_inner(member, **inputs) for member in members], consensus)
