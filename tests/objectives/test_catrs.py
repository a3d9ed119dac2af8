import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from radii import objectives
from radii.objectives import Batch, Step
from radii.objectives import catrs as module
from radii.objectives.catrs import CatRs
from radii.objectives.gaussian import Gaussian

SIGMA = 0.3


@pytest.fixture
def soft_labels() -> Tensor:
    """Soft labels of 20 training images; some classes have no votes."""
    votes = torch.rand((20, 3), generator=torch.Generator().manual_seed(12))
    votes[::3, 0] = 0
    return votes / votes.sum(1, keepdim=True)


def divergence(target: Tensor, logits: Tensor) -> Tensor:
    total = torch.zeros((), dtype=torch.float64)
    for share, logarithm in zip(target, logits.log_softmax(0), strict=True):
        if share > 0:
            total = total + share * (share.log() - logarithm)
    return total


def attacked_noise(
    model: nn.Module, image: Tensor, noise: Tensor, target: Tensor, copies: int, each_step: bool
) -> Tensor:
    steps, radius = 3, 0.9
    point = noise.clone()
    for number in range(steps):
        leaf = point.clone().requires_grad_()
        (gradient,) = torch.autograd.grad(divergence(target, model((image + leaf)[None])[0]) / copies, leaf)
        point = point + 2 * radius / steps * gradient / (gradient.norm() + 1e-8)
        if (point - noise).norm() > radius:
            point = noise + radius * (point - noise) / (point - noise).norm()
        if each_step:
            point = noise.mean() + (noise**2).mean().sqrt() * (point - point.mean()) / (point**2).mean().sqrt()
        elif number == steps - 1:
            point = noise.mean() + noise.std() * (point - point.mean()) / point.std()
    return point


ABLATIONS: dict[str, dict[str, Any]] = {
    "as published": {},
    "8b": {"label_term": "none", "mask": False},
    "8c": {"label_term": "all", "mask": False},
    "8d": {"mask": False},
    "9a": {"over_copies": "mean"},
    "9b": {"target": "mean_prediction"},
    "9c": {"target": "hard_label"},
}
"""The rows of the paper's Tables 8 and 9 but for 8a, which is weight = 0."""


# One copy's divergence from its own prediction has no gradient: the attack would follow rounding.
@pytest.mark.parametrize(
    ("ablation", "copies", "accept_by", "standardise"),
    [
        (ablation, *others)
        for ablation in ABLATIONS
        for others in [(1, "model", "rms_each_step"), (3, "model", "std_once"), (3, "soft_labels", "rms_each_step")]
        if (ablation, others[0]) != ("9b", 1)
    ],
)
def test_equals_the_formula(
    ablation: str,
    copies: int,
    accept_by: str,
    standardise: str,
    plain: nn.Module,
    batch: Batch,
    soft_labels: Tensor,
    same_step: Any,
) -> None:
    counts: list[int] = []
    fields = ABLATIONS[ablation]
    votes = [soft_labels[int(index)].double() for index in batch.indices]

    def target_of(number: int, label: Tensor, predictions: list[Tensor]) -> Tensor:
        kind = fields.get("target", "soft_labels")
        mean = torch.stack(predictions).mean(0)
        return {"soft_labels": votes[number], "mean_prediction": mean, "hard_label": torch.eye(3).double()[label]}[kind]

    def formula(rng: torch.Generator) -> Tensor:
        noise = SIGMA * torch.randn((copies, 8, 1, 4, 4), generator=rng, dtype=torch.float64)
        losses, confidence, targets = [], [], []
        for number, (image, label) in enumerate(zip(batch.images, batch.labels, strict=True)):
            logits = [plain((image + one)[None])[0] for one in noise[:, number]]
            losses.append(sorted((one.logsumexp(0) - one[label] for one in logits), key=Tensor.item))
            right = sum(int(one.argmax()) == int(label) for one in logits) / copies
            confidence.append(right if accept_by == "model" else float(votes[number][label]))
            targets.append(target_of(number, label, [one.detach().softmax(0) for one in logits]))
        trials = torch.full((8,), float(copies), dtype=torch.float64)
        drawn = torch.binomial(trials, torch.tensor(confidence, dtype=torch.float64), generator=rng)
        total = torch.zeros((), dtype=torch.float64)
        for number, image in enumerate(batch.images):
            counted = max(1, int(drawn[number]))
            counts.append(counted)
            kept = {"lowest": counted, "all": copies, "none": 0}[fields.get("label_term", "lowest")]
            total = total + sum(losses[number][:kept]) / copies
            if counted == copies or not fields.get("mask", True):
                worst = []
                for one in noise[:, number]:
                    point = attacked_noise(plain, image, one, targets[number], copies, standardise == "rms_each_step")
                    worst.append(divergence(targets[number], plain((image + point)[None])[0]))
                mean = fields.get("over_copies") == "mean"
                total = total + 1.7 * (sum(worst) / copies if mean else max(worst, key=Tensor.item))
        return total / 8

    objective = CatRs(
        sigma=SIGMA,
        copies=copies,
        steps=3,
        radius=0.9,
        weight=1.7,
        accept_by=accept_by,
        standardise=standardise,
        soft_labels=soft_labels,
        **fields,
    )
    same_step(objective, plain, batch, 0, formula)
    assert copies in counts
    assert copies == 1 or min(counts) < copies


def step() -> Step:
    return Step(0, torch.Generator().manual_seed(1))


def parts_of(objective: CatRs, model: nn.Module, batch: Batch) -> tuple[list[Tensor], list[Tensor]]:
    terms = list(objective.terms(model, batch, step()).values())
    return terms, list(torch.autograd.grad(torch.stack(terms).sum(), list(model.parameters())))


def test_attacking_only_confident_images_gives_the_same_loss(
    plain: nn.Module, batch: Batch, soft_labels: Tensor, record_forwards: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    objective = CatRs(sigma=SIGMA, soft_labels=soft_labels)
    seen = record_forwards(plain)
    some = parts_of(objective, plain, batch)
    monkeypatch.setattr(module, "is_batch_independent", lambda _: False)
    everything = parts_of(objective, plain, batch)
    assert len(seen) == 12
    assert 0 < len(seen[5].images) < len(seen[11].images) == 32
    for actual, expected in zip(some, everything, strict=True):
        torch.testing.assert_close(actual, expected, rtol=1e-12, atol=1e-14)


class UserDefined(nn.Module):
    """A user-defined layer that uses the whole batch."""

    def forward(self, features: Tensor) -> Tensor:
        return features - features.mean(0)


def test_user_defined_layer_gets_every_image(
    plain: nn.Module, batch: Batch, soft_labels: Tensor, record_forwards: Any
) -> None:
    model = nn.Sequential(plain, UserDefined())
    seen = record_forwards(model)
    CatRs(sigma=SIGMA, soft_labels=soft_labels).terms(model, batch, step())
    assert [len(forward.images) for forward in seen] == [32] * 6


def test_radius_doubles_at_the_stated_epoch(plain: nn.Module, batch: Batch, soft_labels: Tensor) -> None:
    def worst(epoch: int, **settings: Any) -> Tensor:
        objective = CatRs(sigma=SIGMA, soft_labels=soft_labels, **settings)
        return objective.terms(plain, batch, Step(epoch, torch.Generator().manual_seed(1)))["worst_case"]

    assert torch.equal(worst(2, radius=0.5, double_at=3), worst(2, radius=0.5))
    assert torch.equal(worst(3, radius=0.5, double_at=3), worst(3, radius=1.0))
    assert not torch.equal(worst(3, radius=0.5), worst(3, radius=1.0))


def test_no_confident_images_means_no_second_forward(
    plain: nn.Module, batch: Batch, soft_labels: Tensor, record_forwards: Any
) -> None:
    wrong = batch._replace(labels=(plain(batch.images).argmax(1) + 1) % 3)
    seen = record_forwards(plain)
    terms = CatRs(sigma=1e-3, soft_labels=soft_labels).terms(plain, wrong, step())
    assert len(seen) == 1
    assert not terms["worst_case"].any()


def test_all_images_confident_counts_every_copy(plain: nn.Module, batch: Batch) -> None:
    """One-hot soft labels accept all copies; without an attack the worst case is the loss of the worst copy."""
    certain = torch.zeros(20, 3)
    certain[batch.indices, batch.labels] = 1
    objective = CatRs(sigma=SIGMA, copies=3, radius=0.0, accept_by="soft_labels", soft_labels=certain)
    terms = objective.terms(plain, batch, step())
    gaussian = Gaussian(sigma=SIGMA, copies=3).terms(plain, batch, step())["cross_entropy"]
    torch.testing.assert_close(terms["lowest_cross_entropy"], gaussian)
    assert (terms["worst_case"] >= gaussian - 1e-12).all()
    assert (terms["worst_case"] <= 3 * gaussian + 1e-12).all()


def test_every_image_contributes_to_batch_statistics(
    normed: nn.Module, batch: Batch, soft_labels: Tensor, record_forwards: Any
) -> None:
    fresh = copy.deepcopy(normed)
    seen = record_forwards(normed)
    CatRs(sigma=SIGMA, copies=2, steps=3, soft_labels=soft_labels).terms(normed, batch, step())
    assert [forward.training for forward in seen] == [True, False, False, False, True]
    noise = SIGMA * torch.randn((2, *batch.images.shape), generator=step().rng, dtype=torch.float64)
    torch.testing.assert_close(seen[0].images, (batch.images + noise).flatten(0, 1))
    attacked = seen[4].images.unflatten(0, (2, 8)) - batch.images
    assert (attacked - noise).flatten(2).norm(dim=2).min() > 0.1, "all images are attacked, not only the confident ones"
    for forward in (seen[0], seen[4]):
        fresh(forward.images)
    assert torch.equal(normed[1].running_mean, fresh[1].running_mean)  # type: ignore[index]
    assert torch.equal(normed[1].running_var, fresh[1].running_var)  # type: ignore[index]


def test_missing_soft_labels_error_says_how_to_make_them() -> None:
    with pytest.raises(LookupError, match="'catrs' needs soft_labels: the shares of votes that a trained run gives"):
        objectives.create("catrs", sigma=0.5)


def test_soft_labels_are_needed_only_where_they_are_used() -> None:
    objectives.create("catrs", sigma=0.5, target="hard_label")
    with pytest.raises(LookupError, match="'catrs' needs soft_labels"):
        objectives.create("catrs", sigma=0.5, target="mean_prediction", accept_by="soft_labels")


def test_settings_that_may_leave_no_loss_are_refused(soft_labels: Tensor) -> None:
    for fields in ({}, {"mask": False, "weight": 0.0}):
        with pytest.raises(ValueError, match="expected mask = false and a weight > 0"):
            objectives.create("catrs", sigma=0.5, label_term="none", soft_labels=soft_labels, **fields)
