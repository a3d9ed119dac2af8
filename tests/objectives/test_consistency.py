from typing import Any

import pytest
import torch
from torch import Tensor, nn

from radii.objectives import Batch, Step
from radii.objectives.consistency import Consistency
from radii.objectives.gaussian import Gaussian

SIGMA = 0.3


def attacked_by(
    model: nn.Module, image: Tensor, label: Tensor, noises: list[Tensor], steps: int, radius: float
) -> Tensor:
    adversary = image.clone()
    for _ in range(steps):
        leaf = adversary.clone().requires_grad_()
        mean = torch.stack([model((leaf + noise)[None])[0].softmax(0) for noise in noises]).mean(0)
        (gradient,) = torch.autograd.grad(-torch.log(mean[label]) / 8, leaf)
        adversary = adversary + 2 * radius / steps * gradient / (gradient.norm() + 1e-8)
        if (adversary - image).norm() > radius:
            adversary = image + (adversary - image) * radius / (adversary - image).norm()
        adversary = adversary.clamp(0, 1)
    return adversary


@pytest.mark.parametrize(("copies", "attack_steps", "epoch"), [(1, 0, 0), (3, 0, 0), (1, 4, 9), (3, 4, 1)])
def test_equals_the_formula(
    copies: int, attack_steps: int, epoch: int, plain: nn.Module, batch: Batch, same_step: Any
) -> None:
    def formula(rng: torch.Generator) -> Tensor:
        noise = SIGMA * torch.randn((copies, 8, 1, 4, 4), generator=rng, dtype=torch.float64)
        total = torch.zeros((), dtype=torch.float64)
        for number, (image, label) in enumerate(zip(batch.images, batch.labels, strict=True)):
            noises = list(noise[:, number])
            if attack_steps:
                radius = 0.8 * min(1.0, (epoch + 1) / 5)
                image = attacked_by(plain, image, label, noises, attack_steps, radius)
            predictions = [plain((image + one)[None])[0].softmax(0) for one in noises]
            mean = sum(predictions, torch.zeros(3, dtype=torch.float64)) / copies
            for one in predictions:
                total = total - torch.log(one[label]) / copies
                total = total + 4.0 * sum(mean[c] * torch.log(mean[c] / one[c]) for c in range(3)) / copies
            total = total + 0.7 * sum(-mean[c] * torch.log(mean[c]) for c in range(3))
        return total / 8

    objective = Consistency(
        sigma=SIGMA,
        copies=copies,
        weight=4.0,
        entropy_weight=0.7,
        attack_steps=attack_steps,
        attack_radius=0.8,
        warmup_epochs=5,
    )
    same_step(objective, plain, batch, epoch, formula)


def test_mse_is_the_squared_distance_of_the_first_two_predictions(
    plain: nn.Module, batch: Batch, same_step: Any
) -> None:
    def formula(rng: torch.Generator) -> Tensor:
        noise = SIGMA * torch.randn((3, 8, 1, 4, 4), generator=rng, dtype=torch.float64)
        total = torch.zeros((), dtype=torch.float64)
        for number, (image, label) in enumerate(zip(batch.images, batch.labels, strict=True)):
            predictions = [plain((image + one)[None])[0].softmax(0) for one in noise[:, number]]
            total = total - sum(torch.log(one[label]) for one in predictions) / 3
            total = total + 4.0 * sum((predictions[0][c] - predictions[1][c]) ** 2 for c in range(3))
        return total / 8

    objective = Consistency(sigma=SIGMA, copies=3, weight=4.0, entropy_weight=0.0, agreement="mse")
    same_step(objective, plain, batch, 0, formula)
    with pytest.raises(ValueError, match="copies = 1, agreement = 'mse' needs at least 2"):
        Consistency(sigma=SIGMA, copies=1, agreement="mse")


def step(epoch: int = 20) -> Step:
    return Step(epoch, torch.Generator().manual_seed(1))


def test_identical_copies_have_no_agreement_loss(plain: nn.Module, batch: Batch) -> None:
    assert Consistency(sigma=1e-12).terms(plain, batch, step())["agreement"].abs().max() < 1e-12
    assert Consistency(sigma=0.5, copies=1).terms(plain, batch, step())["agreement"].abs().max() < 1e-12
    assert Consistency(sigma=0.5).terms(plain, batch, step())["agreement"].max() > 0.1


def test_zero_weights_equal_gaussian_training(plain: nn.Module, batch: Batch) -> None:
    terms = Consistency(sigma=SIGMA, weight=0.0, entropy_weight=0.0).terms(plain, batch, step())
    gaussian = Gaussian(sigma=SIGMA, copies=2).terms(plain, batch, step())
    torch.testing.assert_close(sum(terms.values()), gaussian["cross_entropy"])


def test_attack_of_zero_radius_gives_the_same_loss(plain: nn.Module, batch: Batch) -> None:
    quiet = Consistency(sigma=SIGMA).terms(plain, batch, step())
    attacked = Consistency(sigma=SIGMA, attack_steps=3, attack_radius=0.0).terms(plain, batch, step())
    for name, term in quiet.items():
        torch.testing.assert_close(attacked[name], term)


def test_underflowing_probabilities_give_finite_gradients(plain: nn.Module, batch: Batch) -> None:
    with torch.no_grad():
        plain[3].weight.mul_(1000)  # type: ignore[index]
    plain.float()
    terms = Consistency(sigma=SIGMA).terms(plain, batch._replace(images=batch.images.float()), step())
    gradients = torch.autograd.grad(sum(terms.values()).sum(), list(plain.parameters()))  # type: ignore[union-attr]
    assert all(gradient.isfinite().all() for gradient in gradients)


def test_attacks_run_in_eval_mode_and_training_is_one_forward(
    normed: nn.Module, batch: Batch, record_forwards: Any
) -> None:
    seen = record_forwards(normed)
    Consistency(sigma=SIGMA, attack_steps=2).terms(normed, batch, step())
    assert [forward.training for forward in seen] == [False, False, True]


def test_weights_rise_over_a_share_of_the_training(plain: nn.Module, batch: Batch) -> None:
    def terms(progress: float, ramp: float = 0.5) -> dict[str, Tensor]:
        objective = Consistency(sigma=SIGMA, weight_ramp=ramp)
        return dict(objective.terms(plain, batch, step()._replace(progress=progress)))

    full = terms(1.0, ramp=0.0)
    assert terms(0.0)["agreement"].abs().max() == 0
    assert terms(0.0)["entropy"].abs().max() == 0
    torch.testing.assert_close(terms(0.25)["agreement"], full["agreement"] / 2)
    torch.testing.assert_close(terms(0.75)["agreement"], full["agreement"])
    torch.testing.assert_close(terms(0.25)["cross_entropy"], full["cross_entropy"])


def test_training_may_begin_with_one_copy_as_gaussian_training(plain: nn.Module, batch: Batch) -> None:
    objective = Consistency(sigma=SIGMA, weight_ramp=0.2, gaussian_start=0.4)
    early = dict(objective.terms(plain, batch, step()._replace(progress=0.39)))
    gaussian = Gaussian(sigma=SIGMA).terms(plain, batch, step())
    torch.testing.assert_close(early["cross_entropy"], gaussian["cross_entropy"], rtol=0, atol=0)
    assert early["agreement"].abs().max() == early["entropy"].abs().max() == 0

    full = Consistency(sigma=SIGMA).terms(plain, batch, step())
    for progress, share in ((0.4, 0.0), (0.5, 0.5), (0.6, 1.0), (1.0, 1.0)):
        later = objective.terms(plain, batch, step()._replace(progress=progress))
        assert later.keys() == early.keys()
        torch.testing.assert_close(later["agreement"], share * full["agreement"])
        torch.testing.assert_close(later["cross_entropy"], full["cross_entropy"])


def test_beginning_and_ramp_at_their_ends(plain: nn.Module, batch: Batch) -> None:
    def agreement(progress: float, **fields: float) -> Tensor:
        terms = Consistency(sigma=SIGMA, **fields).terms(plain, batch, step()._replace(progress=progress))  # type: ignore[arg-type]
        return terms["agreement"]

    full = agreement(1.0)
    assert agreement(1 - 1e-9, gaussian_start=1.0).abs().max() == 0
    torch.testing.assert_close(agreement(0.5, weight_ramp=1.0), full / 2)
    torch.testing.assert_close(agreement(0.5, weight_ramp=5e-324), full)
    assert agreement(0.0, weight_ramp=5e-324).abs().max() == 0
    torch.testing.assert_close(agreement(5e-324, gaussian_start=5e-324), full)
    for field in ("gaussian_start", "weight_ramp"):
        for wrong in (-0.1, 1.1, float("nan"), float("inf")):
            with pytest.raises(ValueError, match=field):
                Consistency(sigma=SIGMA, **{field: wrong})  # type: ignore[arg-type]


def test_beginning_and_ramp_are_shares_of_one_training() -> None:
    with pytest.raises(ValueError, match="gaussian_start = 0.6 and weight_ramp = 0.5.*at most 1 together"):
        Consistency(sigma=SIGMA, gaussian_start=0.6, weight_ramp=0.5)
