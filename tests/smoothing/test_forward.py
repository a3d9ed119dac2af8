"""Forward passes of noisy copies: shapes, splitting, and models with batch statistics."""

import subprocess
import sys

import pytest
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


SETTINGS = """
import torch
from radii.provenance import rounding_environment
from radii.smoothing.forward import tf32, without_tf32

if "{api}" == "newer":
    torch.backends.cuda.matmul.fp32_precision = "tf32"
    torch.backends.cudnn.conv.fp32_precision = "ieee"
rounding_environment("torch", torch.device("cpu"), 128)
before = tf32()
torch.cuda.is_available = lambda: True
with without_tf32():
    within = tf32()
print(before, within, tf32() == before)
"""


@pytest.mark.parametrize(
    ("api", "before"),
    [("older", {"matmul": False, "conv": True}), ("newer", {"matmul": True, "conv": False})],
)
def test_tf32_is_read_and_switched_off_by_either_setting(api: str, before: dict[str, bool]) -> None:
    """In a process of its own: torch does not forget that the newer setting was used."""
    command = [sys.executable, "-c", SETTINGS.format(api=api)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stdout == f"{before} {dict.fromkeys(before, False)} True\n", done.stderr[-500:]
