"""One step of training in one process: precision, and what the loss is made of."""

import pytest
import torch
from torch import Tensor, nn

from radii import objectives
from radii.fields import from_mapping
from radii.models.denoised import Denoised
from radii.objectives import Batch, Step
from radii.runs.recipe import Training
from radii.training.batches import LocalBatch
from radii.training.precision import make_scaler
from radii.training.step import Loss, gradient_step

BATCH = Batch(torch.rand(8, 1, 8, 8), torch.arange(8) % 3, torch.arange(8))


class Seen(nn.Module):
    """A classifier that notes the type of its hidden values."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.last = nn.Linear(64, 16), nn.Linear(16, 3)
        self.dtypes: set[torch.dtype] = set()

    def forward(self, images: Tensor) -> Tensor:
        hidden = self.first(images.flatten(1))
        self.dtypes.add(hidden.dtype)
        logits: Tensor = self.last(hidden.relu())
        return logits


def step() -> Step:
    return Step(0, torch.Generator().manual_seed(1))


OF_CLASSIFIERS = [name for name in objectives.names() if not objectives.resources_of(name)]
OF_CLASSIFIERS = [name for name in OF_CLASSIFIERS if name not in ("crown_ibp", "denoising")]
"""Those that take any classifier: crown_ibp knows the layers that it bounds."""


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
@pytest.mark.parametrize("name", OF_CLASSIFIERS)
def test_sixteen_bits_apply_to_forward_passes_only(name: str, precision: str) -> None:
    model = Seen()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loss = Loss(objectives.create(name, sigma=0.3), model, precision)
    assert {value.dtype for value in loss(LocalBatch(BATCH), step())[1].values()} == {torch.float32}
    scaler = make_scaler(precision, torch.device("cpu"))
    done = gradient_step(loss, optimizer, LocalBatch(BATCH), step(), scaler=scaler)
    assert model.dtypes == {getattr(torch, precision)}
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    plain = Seen()
    same = gradient_step(
        Loss(objectives.create(name, sigma=0.3), plain),
        torch.optim.SGD(plain.parameters(), lr=0.1),
        LocalBatch(BATCH),
        step(),
    )
    assert plain.dtypes == {torch.float32}
    assert done.loss == pytest.approx(same.loss, rel=0.03)
    assert done.loss != same.loss
    model.dtypes.clear()
    model(BATCH.images)
    assert model.dtypes == {torch.float32}


def test_compiled_model_keeps_names_and_results(monkeypatch: pytest.MonkeyPatch) -> None:
    torch_compile = torch.compile
    monkeypatch.setattr(torch, "compile", lambda call, **_: torch_compile(call, backend="eager"))
    objective = objectives.create("gaussian", sigma=0.3)
    states = []
    for compiled in (False, True):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 3))
        loss = Loss(objective, model, compiled=compiled)
        gradient_step(loss, torch.optim.SGD(model.parameters(), lr=0.1), LocalBatch(BATCH), step())
        assert (model._compiled_call_impl is not None) == compiled
        states.append(model.state_dict())
    assert states[0].keys() == states[1].keys()
    for name, tensor in states[0].items():
        torch.testing.assert_close(states[1][name], tensor)


def test_denoiser_is_trained_in_bfloat16() -> None:
    torch.manual_seed(0)
    model = Denoised(nn.Conv2d(1, 1, 3, padding=1), Seen())
    before = [parameter.clone() for parameter in model.denoiser.parameters()]
    loss = Loss(objectives.create("denoising", sigma=0.3), model, "bfloat16")
    gradient_step(loss, torch.optim.SGD(model.denoiser.parameters(), lr=0.1), LocalBatch(BATCH), step())
    assert all(not torch.equal(a, b) for a, b in zip(before, model.denoiser.parameters(), strict=True))


@pytest.mark.parametrize("field", ["precision", "batch_norm"])
def test_unknown_choices_are_refused(field: str) -> None:
    stated = {"epochs": 1, "images_per_step": 1, "learning_rate": 0.1, field: "half"}
    with pytest.raises(ValueError, match=f"training: {field} = 'half', expected one of"):
        from_mapping(Training, stated, "[training]")
