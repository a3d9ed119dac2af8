"""The baseline of every ratio: an eager model and a plain training loop."""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional as F


def lenet() -> nn.Module:
    """LeNet as it is usually written."""
    return nn.Sequential(
        nn.Conv2d(1, 20, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(20, 50, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(800, 500),
        nn.ReLU(),
        nn.Linear(500, 10),
    )


def training_step(model: nn.Module, images: Tensor, labels: Tensor, sigma: float, batch: int) -> Callable[[], None]:
    """Return a function that makes a step of Gaussian training, or of standard training if sigma is 0."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)
    chosen = _cycle(len(images), batch)

    def step() -> None:
        indices = next(chosen)
        inputs = images[indices]
        if sigma:
            inputs = inputs + sigma * torch.randn_like(inputs)
        loss = F.cross_entropy(model(inputs), labels[indices])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def _cycle(count: int, batch: int) -> Iterator[Tensor]:
    while True:
        yield from torch.randperm(count)[: count - count % batch].view(-1, batch)


def votes(model: nn.Module, image: Tensor, sigma: float, samples: int, batch: int) -> Tensor:
    """Count the classes of noisy copies: repeat the image, add noise, run the model, take the largest logit."""
    counts = torch.zeros(10, dtype=torch.long)
    with torch.no_grad():
        for start in range(0, samples, batch):
            copies = image.repeat(min(batch, samples - start), 1, 1, 1)
            winners = model(copies + sigma * torch.randn_like(copies)).argmax(1)
            counts += torch.bincount(winners, minlength=10)
    return counts
