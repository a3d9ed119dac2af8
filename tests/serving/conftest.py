"""Models to serve: a linear one in memory, whose true radius is known, and the run that the session trained."""

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from starlette.testclient import TestClient
from torch import Tensor, nn

from radii.certifiers.base import Certifier
from radii.certifiers.prediction import Prediction
from radii.certifiers.sequential import Sequential
from radii.datasets import Preparation
from radii.engines import SmoothedClassifier
from radii.serving.model import Mode, ModelConfig, ServedModel, load_model
from radii.serving.routes import Api
from radii.serving.service import Service

SIGMA = 0.25
SHAPE = (1, 2, 2)

MakeModel = Callable[..., ServedModel]
MakeService = Callable[..., Service]


def linear() -> nn.Module:
    """Return a model of two classes, split by the plane where the pixels' sum is 2."""
    model = nn.Sequential(nn.Flatten(), nn.Linear(4, 2))
    weight = torch.tensor([[1.0] * 4, [-1.0] * 4])
    model[1].load_state_dict({"weight": weight, "bias": torch.tensor([-2.0, 2.0])})
    return model


def at_distance(distance: float) -> torch.Tensor:
    """Return a picture of class 0 so far from the plane."""
    return torch.full(SHAPE, 0.5 + distance / 2)


class Slow(nn.Module):
    """A linear model that takes a while, or waits until it may go on."""

    def __init__(self, seconds: float = 0.0) -> None:
        super().__init__()
        self.inner = linear()
        self.seconds = seconds
        self.gate = threading.Event()
        self.gate.set()
        self.broken = False

    def forward(self, images: Tensor) -> Tensor:
        self.gate.wait(30)
        time.sleep(self.seconds)
        if self.broken:
            raise RuntimeError("out of order at /secret/path")
        logits: Tensor = self.inner(images)
        return logits


def client_of(api: Api, base_url: str = "http://127.0.0.1:8000", **options: bool) -> TestClient:
    """Return a client of the interface in this process, which calls it by this address."""
    return TestClient(api.app(), base_url, **options)  # type: ignore[arg-type]


@pytest.fixture
def make_model() -> MakeModel:
    """Make a linear model to serve: `base` replaces its forward passes."""

    def make(
        mode: Mode = "certificate",
        base: nn.Module | None = None,
        failure: float = 0.001,
        radii: tuple[float, ...] = (0.25,),
        weights: str = "w",
        most_samples: int = 10_000,
    ) -> ServedModel:
        classifier = SmoothedClassifier(base or linear(), sigma=SIGMA, classes=2, engine="torch")
        certifier: Certifier | None = None
        if mode == "certificate":
            certifier = Sequential(radii=radii, failure=failure, most_samples=most_samples)
        elif mode == "vote":
            certifier = Prediction(samples=128, failure=failure)
        header: dict[str, Any] = {
            "mode": mode,
            "procedure": certifier and certifier.name,
            "norm": "l2",
            "weights": weights,
        }
        header |= {"engine": "torch", "noise": classifier.noise.describe(), "prepared": "as they are"}
        preparation = Preparation("as they are", lambda _: torch.zeros(SHAPE))
        return ServedModel(
            "plane", mode, classifier, certifier, SHAPE, ("above", "below"), preparation, ("digits", {}), header
        )

    return make


@pytest.fixture
def make_service(make_model: MakeModel) -> Iterator[MakeService]:
    """Start services that end with the test."""
    services: list[Service] = []

    def make(model: ServedModel | None = None, **options: object) -> Service:
        services.append(Service(model or make_model(), **{"workers": 1, **options}))  # type: ignore[arg-type]
        return services[-1]

    yield make
    for service in services:
        service.close()


@pytest.fixture(scope="session")
def digits_model(trained_digits: Path) -> ServedModel:
    """The trained run, to certify a radius of 0.1."""
    return load_model(ModelConfig(run=trained_digits, radii=(0.1,), engine="torch"))


@pytest.fixture(scope="module")
def api(digits_model: ServedModel) -> Iterator[Api]:
    """The HTTP interface of the trained run."""
    service = Service(replace(digits_model), workers=1)
    yield Api(service)
    service.close()
