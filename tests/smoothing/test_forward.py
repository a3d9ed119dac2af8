"""Forward passes of noisy copies: shapes, splitting, and models with batch statistics."""

import torch
from torch import nn

from radii.smoothing.forward import logits_of


def test_logits_of_copies_keep_their_axes() -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(9, 5))
    copies = torch.rand(4, 2, 1, 3, 3)
    logits = logits_of(model, copies)
    assert logits.shape == (4, 2, 5)
    torch.testing.assert_close(logits[3, 1], model(copies[3, 1:2])[0])


def counted(layers: list[nn.Module]) -> tuple[nn.Sequential, list[int]]:
    torch.manual_seed(0)
    model = nn.Sequential(*layers).double()
    sizes: list[int] = []
    model.register_forward_pre_hook(lambda _, inputs: sizes.append(len(inputs[0])))
    return model, sizes


def test_splitting_many_inputs_gives_the_same_results() -> None:
    model, sizes = counted([nn.Flatten(), nn.Linear(4, 3)])
    copies = torch.rand(4, 300, 1, 2, 2, dtype=torch.float64)
    found = []
    for logits in (logits_of(model, copies), model(copies.flatten(0, 1)).view(4, 300, 3)):
        found.append((logits, *torch.autograd.grad(logits.square().sum(), list(model.parameters()))))
    assert sizes == [256, 256, 256, 256, 176, 1200]
    for ours, whole in zip(*found, strict=True):
        torch.testing.assert_close(ours, whole, rtol=1e-12, atol=1e-12)


def test_models_with_batch_statistics_are_not_split() -> None:
    norm = nn.BatchNorm1d(4)
    model, sizes = counted([nn.Flatten(), norm])
    copies = torch.rand(4, 300, 1, 2, 2, dtype=torch.float64)
    logits_of(model, copies)
    assert sizes == [1200]
    assert norm.num_batches_tracked == 1
    logits_of(model.eval(), copies)
    assert len(sizes) == 1 + 5
    norm.running_mean = norm.running_var = None  # as with track_running_stats=False
    logits_of(model, copies)
    assert sizes[-1] == 1200
