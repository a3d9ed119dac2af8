"""Run a model in 16-bit floating point, for the torch engines that use it."""

import copy

import torch
from torch import Tensor, nn

from radii.smoothing.forward import channels_last


class Half(nn.Module):
    """Runs a copy of a model in 16-bit floating point; its logits are 16-bit too, so that comparisons allow for it."""

    def __init__(self, model: nn.Module, dtype: torch.dtype) -> None:
        super().__init__()
        self.model = channels_last(copy.deepcopy(model).to(dtype))
        self.dtype = dtype

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.model(images.to(self.dtype))
        return logits
