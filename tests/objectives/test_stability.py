from typing import Any

import torch
from torch import Tensor, nn

from radii.objectives import Batch, Step
from radii.objectives.gaussian import Gaussian
from radii.objectives.stability import Stability


def test_equals_the_formula(plain: nn.Module, batch: Batch, same_step: Any) -> None:
    def formula(rng: torch.Generator) -> Tensor:
        noise = 0.4 * torch.randn((1, 8, 1, 4, 4), generator=rng, dtype=torch.float64)
        total = torch.zeros((), dtype=torch.float64)
        for number, (image, label) in enumerate(zip(batch.images, batch.labels, strict=True)):
            clean, noisy = plain(image[None])[0], plain((image + noise[0, number])[None])[0]
            weights = clean.exp() / clean.exp().sum()
            total = total + clean.logsumexp(0) - clean[label]
            total = total + 1.5 * sum(weights[c] * (noisy.logsumexp(0) - noisy[c]) for c in range(3))
        return total / 8

    same_step(Stability(sigma=0.4, weight=1.5), plain, batch, 0, formula)


def test_clean_images_are_forwarded_first_and_separately(normed: nn.Module, batch: Batch, record_forwards: Any) -> None:
    seen = record_forwards(normed)
    Stability(sigma=0.4).terms(normed, batch, Step(0, torch.Generator().manual_seed(1)))
    noise = torch.randn((1, *batch.images.shape), generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    expected = [batch.images, batch.images + 0.4 * noise[0]]
    assert [forward.training for forward in seen] == [True, True]
    for forward, images in zip(seen, expected, strict=True):
        torch.testing.assert_close(forward.images, images)


def test_zero_weight_equals_standard_training(plain: nn.Module, batch: Batch) -> None:
    terms = Stability(sigma=0.4, weight=0.0).terms(plain, batch, Step(0, torch.Generator()))
    clean = nn.functional.cross_entropy(plain(batch.images), batch.labels, reduction="none")
    torch.testing.assert_close(sum(terms.values()), clean)


def test_without_noise_stability_is_the_entropy(plain: nn.Module, batch: Batch) -> None:
    """Without noise the stability term is the entropy of the prediction."""
    step = Step(0, torch.Generator().manual_seed(1))
    stable = Stability(sigma=1e-12, weight=1.0).terms(plain, batch, step)
    plainly = Gaussian(sigma=1e-12).terms(plain, batch, step)
    probabilities = plain(batch.images).softmax(1)
    torch.testing.assert_close(stable["cross_entropy"], plainly["cross_entropy"])
    torch.testing.assert_close(stable["stability"], -(probabilities * probabilities.log()).sum(1))
