from typing import Any

import torch
from torch import Tensor, nn

from radii.objectives import Batch
from radii.objectives.gaussian import Gaussian


def test_equals_the_formula(plain: nn.Module, batch: Batch, same_step: Any) -> None:
    def formula(rng: torch.Generator) -> Tensor:
        noise = 0.4 * torch.randn((3, 8, 1, 4, 4), generator=rng, dtype=torch.float64)
        total = torch.zeros((), dtype=torch.float64)
        for number, (image, label) in enumerate(zip(batch.images, batch.labels, strict=True)):
            for one in noise[:, number]:
                logits = plain((image + one)[None])[0]
                total = total + logits.logsumexp(0) - logits[label]
        return total / 24

    same_step(Gaussian(sigma=0.4, copies=3), plain, batch, 0, formula)
