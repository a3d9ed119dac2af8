"""A model in numbers of 16 bits, shared by the engines of torch that use them."""

import copy

import torch
from torch import Tensor, nn

from radii.smoothing.forward import channels_last


class Half(nn.Module):
    """Runs a copy of a model in numbers of 16 bits; its logits have them too, so that comparisons know."""

    def __init__(self, model: nn.Module, dtype: torch.dtype) -> None:
        super().__init__()
        self.model = channels_last(copy.deepcopy(model).to(dtype))
        self.dtype = dtype

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.model(images.to(self.dtype))
        return logits
