"""The vision transformer, compared with an implementation patch by patch and head by head."""

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor

from radii.models import create
from radii.models.base import Shape

Weights = Mapping[str, Tensor]


def test_vit_equals_a_functional_implementation() -> None:
    shape: Shape = (2, 16, 24)
    model, images = create("vit", shape=shape).double()[1], torch.rand(1, *shape, dtype=torch.float64)
    weights: Weights = dict(model.named_parameters())
    cells = [
        images[0, channel, 2 * row + i, 3 * column + j]
        for row in range(8)
        for column in range(8)
        for i in range(2)
        for j in range(3)
        for channel in range(2)
    ]
    patches = torch.stack(cells).view(64, 12) @ weights["embedding.weight"].T + weights["embedding.bias"]
    tokens = torch.cat([weights["class_token"][0], patches]) + weights["position"][0]
    for layer in range(7):
        tokens = vit_layer(tokens, weights, f"layers.{layer}.")
    logits = linear(layer_norm(tokens[0], weights, "head.0"), weights, "head.1")
    assert torch.allclose(model(images)[0], logits, atol=1e-10)


def vit_layer(tokens: Tensor, weights: Weights, prefix: str) -> Tensor:
    normed = layer_norm(tokens, weights, f"{prefix}attention.0")
    joint = linear(normed, weights, f"{prefix}attention.1.queries_keys_values")
    queries, keys, values = (joint[:, 384 * n : 384 * (n + 1)] for n in range(3))
    heads = [slice(32 * head, 32 * (head + 1)) for head in range(12)]
    mixed = [(queries[:, h] @ keys[:, h].T / 384**0.5).softmax(1) @ values[:, h] for h in heads]
    tokens = tokens + linear(torch.cat(mixed, 1), weights, f"{prefix}attention.1.output")
    hidden = F.gelu(linear(layer_norm(tokens, weights, f"{prefix}perceptron.0"), weights, f"{prefix}perceptron.1"))
    return tokens + F.gelu(linear(hidden, weights, f"{prefix}perceptron.3"))


def layer_norm(tokens: Tensor, weights: Weights, name: str) -> Tensor:
    return F.layer_norm(tokens, (384,), weights[f"{name}.weight"], weights[f"{name}.bias"])


def linear(values: Tensor, weights: Weights, name: str) -> Tensor:
    return F.linear(values, weights[f"{name}.weight"], weights[f"{name}.bias"])


def test_fast_vit_trains_in_bfloat16_as_in_float32() -> None:
    torch.manual_seed(0)
    model = create("fast_vit", shape=(3, 16, 16), width=32, layers=2)
    images, target = torch.rand(6, 3, 16, 16), torch.randn(6, 10)

    def gradients(half: bool) -> tuple[Tensor, Tensor]:
        model.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=half):
            logits = model(images)
        (logits.float() * target).sum().backward()
        return logits.float().detach(), torch.cat([weight.grad.flatten() for weight in model.parameters()])  # type: ignore[union-attr]

    (exact, exact_gradient), (half, half_gradient) = gradients(False), gradients(True)
    assert torch.allclose(half, exact, atol=0.05)
    assert F.cosine_similarity(half_gradient, exact_gradient, dim=0) > 0.995
