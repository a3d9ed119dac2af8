"""LeNet: its state dict, its initial weights and its output."""

import torch
import torch.nn.functional as F
from torch import nn

from radii.models import create


def test_lenet_state_dict_of_a_seed() -> None:
    torch.manual_seed(0)
    model = create("lenet")[1]
    torch.manual_seed(0)
    layers = [nn.Conv2d(1, 20, 5), nn.Conv2d(20, 50, 5), nn.Linear(800, 500), nn.Linear(500, 10)]
    keys = [f"{name}.{kind}" for name in ("conv1", "conv2", "fc1", "fc2") for kind in ("weight", "bias")]
    assert list(model.state_dict()) == keys
    expected = [parameter for module in layers for parameter in module.parameters()]
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), expected, strict=True))


def test_lenet_equals_a_functional_implementation() -> None:
    model, images = create("lenet").double(), torch.rand(2, 1, 28, 28, dtype=torch.float64)
    conv1, bias1, conv2, bias2, *linear = model.parameters()
    hidden = F.max_pool2d(F.relu(F.conv2d(images, conv1, bias1)), 2)
    hidden = F.max_pool2d(F.relu(F.conv2d(hidden, conv2, bias2)), 2)
    logits = F.linear(F.relu(F.linear(hidden.flatten(1), *linear[:2])), *linear[2:])
    assert torch.allclose(model(images), logits, atol=1e-12)
