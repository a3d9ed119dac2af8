"""The contract of every objective."""

import copy
from collections.abc import Callable
from typing import Any, cast

import pytest
import torch
from torch import Tensor, nn

from radii import objectives, plugins
from radii.fields import settings_of
from radii.models.denoised import Denoised
from radii.objectives import Batch, Objective, Step

TABLE: dict[str, dict[str, Any]] = {
    "standard": {},
    "gaussian": {"copies": 1},
    "stability": {"weight": 2.0},
    "smoothadv": {"copies": 4, "attack": "pgd", "steps": 10, "radius": 1.0, "warmup_epochs": 10, "update_on": "all"},
    "macer": {
        "copies": 16,
        "weight": 12.0,
        "margin": 8.0,
        "sharpness": 16.0,
        "start_epoch": 0,
        "sharpen_classification": False,
    },
    "consistency": {
        "copies": 2,
        "weight": 10.0,
        "entropy_weight": 0.5,
        "attack_steps": 0,
        "attack_radius": 1.0,
        "warmup_epochs": 10,
        "agreement": "kl",
        "gaussian_start": 0.0,
        "weight_ramp": 0.0,
    },
    "smoothmix": {
        "copies": 2,
        "steps": 4,
        "step_size": 0.5,
        "weight": 5.0,
        "mix_step": 0,
        "warmup_epochs": 10,
    },
    "catrs": {
        "copies": 4,
        "steps": 4,
        "radius": 1.0,
        "double_at": 0,
        "weight": 1.0,
        "accept_by": "model",
        "standardise": "rms_each_step",
        "label_term": "lowest",
        "mask": True,
        "over_copies": "max",
        "target": "soft_labels",
    },
    "transfer": {"match": "logits", "label_weight": 0.0, "distance": "l2"},
    "denoising": {"stability": 0.1, "stability_start": 0.0},
    "crown_ibp": {"radius": 0.1, "norm": "linf", "ramp_epochs": 20, "clean_weight": 0.0, "linear_weight": 0.0},
}
"""Every objective with its fields and their defaults: recipes and published settings rely on them."""

TRAINING_FORWARDS = {"stability": 2, "smoothmix": 2, "catrs": 2}
"""Forwards in train mode in a step, where it is not one; BatchNorm's running statistics count them."""

VARIANTS: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name in objectives.names()),
    ("gaussian", {"copies": 3}),
    ("smoothadv", {"attack": "ddn"}),
    ("smoothadv", {"copies": 1}),
    ("smoothadv", {"update_on": "first"}),
    ("macer", {"sharpen_classification": True, "sharpness": 2.0}),
    ("consistency", {"attack_steps": 3}),
    ("consistency", {"copies": 1}),
    ("consistency", {"agreement": "mse"}),
    ("smoothmix", {"mix_step": 1}),
    ("smoothmix", {"mix_step": 1, "steps": 1, "copies": 1}),
    ("catrs", {"accept_by": "soft_labels"}),
    ("catrs", {"standardise": "std_once"}),
    ("catrs", {"copies": 1, "steps": 1}),
    ("catrs", {"label_term": "none", "mask": False}),
    ("catrs", {"label_term": "all", "mask": False}),
    ("catrs", {"over_copies": "mean", "target": "hard_label"}),
    ("catrs", {"target": "mean_prediction"}),
    ("transfer", {"match": "softmax", "label_weight": 0.3}),
    ("transfer", {"distance": "l2_squared"}),
    ("transfer", {"distance": "l1"}),
    ("transfer", {"distance": "kl", "match": "softmax"}),
    ("denoising", {"stability": 0.0}),
    ("crown_ibp", {"norm": "l2", "linear_weight": 0.5, "clean_weight": 0.3}),
    ("crown_ibp", {"linear_weight": 1.0}),
]


def denoised(classifier: nn.Module) -> nn.Module:
    """The classifier behind a denoiser with BatchNorm, which alone is trained."""
    torch.manual_seed(13)
    layers = [nn.Conv2d(1, 2, 3, padding=1), nn.BatchNorm2d(2), nn.Softplus(), nn.Conv2d(2, 1, 3, padding=1)]
    return Denoised(nn.Sequential(*layers).double(), classifier)


def feed_forward(_: nn.Module) -> nn.Module:
    """A sequence of layers that can be bounded."""
    torch.manual_seed(14)
    layers = [nn.Conv2d(1, 3, 3), nn.MaxPool2d(2), nn.ReLU(), nn.Flatten(), nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 3)]
    return nn.Sequential(*layers).double()


MODELS: dict[str, Callable[[nn.Module], nn.Module]] = {"denoising": denoised, "crown_ibp": feed_forward}
"""Make the model that an objective trains from a classifier, where that is not the classifier itself."""


def trained_by(name: str, classifier: nn.Module) -> nn.Module:
    return MODELS[name](classifier) if name in MODELS else classifier


def forwards_counted(model: nn.Module) -> dict[bool, int]:
    """The forwards in train mode that BatchNorm has counted, where it is trained and where it is frozen."""
    norms = [module for module in model.modules() if isinstance(module, nn.BatchNorm2d)]
    return {norm.weight.requires_grad: int(norm.num_batches_tracked or 0) for norm in norms}


def teacher() -> nn.Module:
    torch.manual_seed(11)
    layers = [nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(8, 3)]
    return nn.Sequential(*layers).double()


def soft_labels() -> Tensor:
    return torch.rand((20, 3), generator=torch.Generator().manual_seed(12)).softmax(1)


RESOURCES: dict[str, Callable[[], Any]] = {
    "teacher": teacher,
    "soft_labels": soft_labels,
    "tape": lambda: None,
}
"""Test objects for the resources; an objective that needs another one fails here until it is added."""


def make(name: str, fields: dict[str, Any]) -> Objective:
    resources = {key: RESOURCES[key]() for key in objectives.resources_of(name)}
    return objectives.create(name, sigma=0.3, **fields, **resources)


def step(epoch: int = 20) -> Step:
    return Step(epoch, torch.Generator().manual_seed(2))


def state(*modules: nn.Module) -> list[bool]:
    flags = [module.training for whole in modules for module in whole.modules()]
    return flags + [parameter.requires_grad for whole in modules for parameter in whole.parameters()]


of_variants = pytest.mark.parametrize(
    ("name", "fields"),
    VARIANTS,
    ids=["-".join([name, *map(str, fields.values())]) for name, fields in VARIANTS],
)


def test_every_objective_has_its_fields_and_defaults() -> None:
    assert set(objectives.names()) == set(TABLE)
    for name, fields in TABLE.items():
        objective = make(name, {})
        stated = {f.name: getattr(objective, f.name) for f in settings_of(type(objective))}
        assert stated == {"sigma": 0.3, **fields}


@of_variants
def test_terms_are_finite_and_one_for_each_image(
    name: str, fields: dict[str, Any], normed: nn.Module, batch: Batch
) -> None:
    for term in make(name, fields).terms(trained_by(name, normed), batch, step()).values():
        assert term.shape == (len(batch.images),)
        assert term.dtype == torch.float64
        assert term.isfinite().all()


@of_variants
def test_float32_single_image(name: str, fields: dict[str, Any], normed: nn.Module, batch: Batch) -> None:
    objective, model = make(name, fields), trained_by(name, normed)
    for module in (model, getattr(objective, "teacher", model)):
        module.float()
    one = Batch(batch.images[:1].float(), batch.labels[:1], batch.indices[:1])
    for term in objective.terms(model, one, step()).values():
        assert term.shape == (1,)
        assert term.dtype == torch.float32
        assert term.isfinite().all()


@of_variants
def test_same_generator_state_gives_same_terms(
    name: str, fields: dict[str, Any], normed: nn.Module, batch: Batch
) -> None:
    objective, model = make(name, fields), trained_by(name, normed)
    twin = copy.deepcopy(model)
    first = objective.terms(model, batch, step())
    torch.manual_seed(99)
    second = objective.terms(twin, batch, step())
    assert {key: term.tolist() for key, term in first.items()} == {k: t.tolist() for k, t in second.items()}


@of_variants
def test_model_and_inputs_are_unchanged(name: str, fields: dict[str, Any], normed: nn.Module, batch: Batch) -> None:
    objective = make(name, fields)
    normed[1].eval()  # type: ignore[index]
    normed[0].bias.requires_grad_(False)  # type: ignore[index]
    model = trained_by(name, normed)
    normed[3].train()  # type: ignore[index]
    modules = [model, *(m for m in vars(objective).values() if isinstance(m, nn.Module))]
    before, inputs = state(*modules), [tensor.clone() for tensor in batch]
    objective.terms(model, batch, step())
    assert state(*modules) == before
    assert all(parameter.grad is None for module in modules for parameter in module.parameters())
    assert all(torch.equal(now, then) for now, then in zip(batch, inputs, strict=True))
    assert not batch.images.requires_grad
    assert batch.images.grad is None


class Fragile(nn.Module):
    """Fails in one of its forwards."""

    def __init__(self, inner: nn.Module, fails_at: int) -> None:
        super().__init__()
        self.inner, self.left = inner, fails_at

    def forward(self, images: Tensor) -> Tensor:
        self.left -= 1
        if self.left < 0:
            raise RuntimeError("broken forward")
        logits: Tensor = self.inner(images)
        return logits


@of_variants
def test_model_is_restored_after_an_error_in_any_forward(
    name: str, fields: dict[str, Any], normed: nn.Module, batch: Batch
) -> None:
    objective, fragile = make(name, fields), Fragile(normed, 1000)
    whole = trained_by(name, fragile)
    objective.terms(whole, batch, step())
    forwards = 1000 - fragile.left
    assert forwards or fields == {"stability": 0.0} or name == "crown_ibp"
    for fails_at in range(forwards):
        fragile.left = fails_at
        before = state(whole)
        with pytest.raises(RuntimeError, match="broken forward"):
            objective.terms(whole, batch, step())
        assert state(whole) == before


@of_variants
def test_gradients_reach_every_parameter(name: str, fields: dict[str, Any], plain: nn.Module, batch: Batch) -> None:
    model = trained_by(name, plain)
    terms = make(name, fields).terms(model, batch, step())
    torch.stack([term.mean() for term in terms.values()]).sum().backward()
    for parameter in getattr(model, "denoiser", model).parameters():
        assert parameter.grad is not None
        assert parameter.grad.isfinite().all()
        assert parameter.grad.abs().max() > 0


@of_variants
def test_batchnorm_tracks_the_forwards_in_train_mode(
    name: str, fields: dict[str, Any], normed: nn.Module, batch: Batch
) -> None:
    model = trained_by(name, normed)
    make(name, fields).terms(model, batch, step())
    if name == "crown_ibp":
        return  # it has no bounds of BatchNorm
    assert forwards_counted(model) == {True: TRAINING_FORWARDS.get(name, 1)} | ({False: 0} if name in MODELS else {})


OUT_OF_RANGE = [
    (name, f.name, wrong)
    for name in objectives.names()
    for f in settings_of(plugins.find("objectives", name, Objective))
    for wrong in cast(
        list[Any],
        [-1] * (f.limits.get("ge") is not None)
        + [0] * (f.limits.get("ge") == 1 or f.limits.get("gt") == 0)
        + [7] * (f.limits.get("le") is not None)
        + ["nonsense"] * (f.limits.get("choices") is not None),
    )
]


@pytest.mark.parametrize(("name", "field", "wrong"), OUT_OF_RANGE)
def test_field_out_of_range_is_named_with_its_value(name: str, field: str, wrong: Any) -> None:
    sigma = {} if field == "sigma" else {"sigma": 0.3}
    with pytest.raises(ValueError, match=rf"objective '{name}': {field} = {wrong!r}, expected "):
        objectives.create(name, **sigma, **{field: wrong})


def test_every_number_and_choice_has_a_range() -> None:
    for name in objectives.names():
        unguarded = [
            f.name
            for f in settings_of(plugins.find("objectives", name, Objective))
            if not any(limit is not None for limit in f.limits.values()) and not isinstance(f.default, bool)
        ]
        assert unguarded == []
