"""What a sample costs: processor time measured here on one core, by the published logs on a GPU."""

import json
import statistics
import tempfile
import time
from functools import cache
from pathlib import Path
from typing import Any

import torch

from benchmarks import sample_cost
from benchmarks.timing import machine
from radii import models
from radii.engines import EngineSpec, SmoothedClassifier, folded, prepare
from radii.runs import certificates
from radii.smoothing.addresses import NoiseAddress
from radii.smoothing.noise import Gaussian
from radii.workers.voter import one_thread

FILE = Path(__file__).with_name("costs.json")
NETWORKS: dict[str, tuple[str, tuple[int, int, int], int]] = {
    "LeNet": ("lenet", (1, 28, 28), 16),
    "ResNet-20": ("cifar_resnet20", (3, 32, 32), 4),
    "ResNet-110": ("cifar_resnet110", (3, 32, 32), 1),
    "ResNet-50": ("resnet50", (3, 224, 224), 1),
}
"""Name, images, and the blocks that are timed."""
ENGINE = "openvino"
SELECTION_AND_ESTIMATION = 100_100
ROUNDS = 3


def measure() -> dict[str, Any]:
    """Processor seconds per sample on one thread, the least of some rounds, of every network."""
    with tempfile.TemporaryDirectory() as folder, one_thread():
        found = {name: _seconds(*network, Path(folder)) for name, network in NETWORKS.items()}
    return {"machine": machine(), "engine": ENGINE, "seconds_per_sample": found, "gpu_seconds_per_sample": _logged()}


def _seconds(name: str, shape: tuple[int, int, int], blocks: int, folder: Path) -> float:
    torch.manual_seed(0)
    size = 32 if name == "resnet50" else 128
    model = folded(models.create(name).eval())
    spec = EngineSpec(model, shape, Gaussian(0.5), size, folder / name, lambda: torch.rand(size, *shape))
    classifier = SmoothedClassifier(
        prepare(spec, ENGINE)[1], sigma=0.5, classes=_classes(model, shape), batch_size=size
    )
    image = torch.rand(shape)
    classifier.votes(image, size, NoiseAddress(0))
    return min(_time(classifier, image, blocks * size) for _ in range(ROUNDS)) / (blocks * size)


def _classes(model: torch.nn.Module, shape: tuple[int, int, int]) -> int:
    return int(model(torch.zeros(1, *shape)).shape[1])


def _time(classifier: SmoothedClassifier, image: torch.Tensor, samples: int) -> float:
    began = time.process_time()
    classifier.votes(image, samples, NoiseAddress(0))
    return time.process_time() - began


def _logged() -> float:
    """Seconds per sample of ResNet-110 on the GPU of the fastest published log."""
    medians = [
        statistics.median(row.seconds for row in certificates.read(log).rows) for log in sample_cost.published_logs()
    ]
    return min(medians) / SELECTION_AND_ESTIMATION


@cache
def _measured() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(FILE.read_text())
    return found


def on_a_core() -> dict[str, float]:
    """The measured seconds per sample on one core, by network."""
    found: dict[str, float] = _measured()["seconds_per_sample"]
    return found


def on_a_gpu() -> float:
    """Seconds per sample of ResNet-110 on the GPU of the fastest published log."""
    return float(_measured()["gpu_seconds_per_sample"])
