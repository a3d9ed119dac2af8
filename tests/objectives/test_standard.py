from typing import Any

import torch
from torch import Tensor, nn

from radii.objectives import Batch
from radii.objectives.standard import Standard


def test_is_cross_entropy_of_clean_images_and_draws_no_noise(plain: nn.Module, batch: Batch, same_step: Any) -> None:
    def formula(rng: torch.Generator) -> Tensor:
        del rng
        total = torch.zeros((), dtype=torch.float64)
        for image, label in zip(batch.images, batch.labels, strict=True):
            logits = plain(image[None])[0]
            total = total + logits.logsumexp(0) - logits[label]
        return total / 8

    same_step(Standard(sigma=0.4), plain, batch, 0, formula)
