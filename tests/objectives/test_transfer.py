import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from radii import objectives
from radii.objectives import Batch, Step
from radii.objectives.gaussian import Gaussian
from radii.objectives.transfer import Transfer

SIGMA = 0.3


@pytest.fixture
def teacher() -> nn.Module:
    torch.manual_seed(8)
    return nn.Sequential(nn.Flatten(), nn.BatchNorm1d(16), nn.Linear(16, 3)).double()


def step() -> Step:
    return Step(0, torch.Generator().manual_seed(1))


@pytest.mark.parametrize("match", ["logits", "softmax"])
@pytest.mark.parametrize("label_weight", [0.0, 0.3, 1.0])
def test_equals_the_formula(
    match: str, label_weight: float, plain: nn.Module, teacher: nn.Module, batch: Batch, same_step: Any
) -> None:
    def formula(rng: torch.Generator) -> Tensor:
        noise = SIGMA * torch.randn((1, 8, 1, 4, 4), generator=rng, dtype=torch.float64)
        total = torch.zeros((), dtype=torch.float64)
        for number, (image, label) in enumerate(zip(batch.images, batch.labels, strict=True)):
            noisy = (image + noise[0, number])[None]
            student, target = plain(noisy)[0], copy.deepcopy(teacher).eval()(noisy)[0].detach()
            total = total + label_weight * (student.logsumexp(0) - student[label])
            if match == "softmax":
                student, target = student.exp() / student.exp().sum(), target.exp() / target.exp().sum()
            total = total + (1 - label_weight) * ((student - target) ** 2).sum().sqrt()
        return total / 8

    objective = Transfer(sigma=SIGMA, match=match, label_weight=label_weight, teacher=teacher)
    same_step(objective, plain, batch, 0, formula)


DISTANCES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "l2_squared": lambda student, target: ((student - target) ** 2).sum(),
    "l1": lambda student, target: (student - target).abs().sum(),
    "kl": lambda student, target: (target * (target.log() - student.log())).sum(),
}


@pytest.mark.parametrize("distance", DISTANCES)
def test_other_distances_equal_their_formulas(
    distance: str, plain: nn.Module, teacher: nn.Module, batch: Batch, same_step: Any
) -> None:
    def formula(rng: torch.Generator) -> Tensor:
        noise = SIGMA * torch.randn((1, 8, 1, 4, 4), generator=rng, dtype=torch.float64)
        pairs = [
            (plain(noisy[None])[0].softmax(0), copy.deepcopy(teacher).eval()(noisy[None])[0].detach().softmax(0))
            for noisy in batch.images + noise[0]
        ]
        return torch.stack([DISTANCES[distance](*pair) for pair in pairs]).mean()

    same_step(Transfer(sigma=SIGMA, match="softmax", distance=distance, teacher=teacher), plain, batch, 0, formula)


def test_divergence_of_logits_is_refused(teacher: nn.Module) -> None:
    with pytest.raises(ValueError, match="expected match = 'softmax'"):
        Transfer(sigma=SIGMA, distance="kl", teacher=teacher)


@pytest.mark.parametrize("match", ["logits", "softmax"])
def test_student_equal_to_its_teacher_has_zero_loss(match: str, plain: nn.Module, batch: Batch) -> None:
    terms = Transfer(sigma=SIGMA, match=match, teacher=copy.deepcopy(plain)).terms(plain, batch, step())
    loss = torch.stack(list(terms.values())).sum()
    assert loss == 0
    for gradient in torch.autograd.grad(loss, list(plain.parameters())):
        assert not gradient.any()


def test_label_weight_one_equals_gaussian_training(plain: nn.Module, teacher: nn.Module, batch: Batch) -> None:
    terms = Transfer(sigma=SIGMA, label_weight=1.0, teacher=teacher).terms(plain, batch, step())
    gaussian = Gaussian(sigma=SIGMA).terms(plain, batch, step())
    torch.testing.assert_close(sum(terms.values()), gaussian["cross_entropy"])


def test_teacher_gets_the_same_noise_and_is_not_trained(
    normed: nn.Module, teacher: nn.Module, batch: Batch, record_forwards: Any
) -> None:
    before = copy.deepcopy(teacher.state_dict())
    teacher_forwards, student_forwards = record_forwards(teacher), record_forwards(normed)
    terms = Transfer(sigma=SIGMA, teacher=teacher).terms(normed, batch, step())
    terms["distance"].sum().backward()
    assert [forward.training for forward in teacher_forwards + student_forwards] == [False, True]
    assert torch.equal(teacher_forwards[0].images, student_forwards[0].images)
    assert all(torch.equal(now, before[key]) for key, now in teacher.state_dict().items())
    assert all(parameter.grad is None for parameter in teacher.parameters())
    assert teacher.training


def test_teacher_is_restored_after_an_error(normed: nn.Module, batch: Batch) -> None:
    broken = nn.Sequential(nn.BatchNorm2d(1), nn.Linear(99, 3)).double()
    with pytest.raises(RuntimeError):
        Transfer(sigma=SIGMA, teacher=broken).terms(normed, batch, step())
    assert all(part.training for part in broken.modules())


def test_missing_teacher_error_says_what_it_is() -> None:
    with pytest.raises(LookupError, match="objective 'transfer' needs teacher: the model of a trained run"):
        objectives.create("transfer", sigma=0.5)
