"""The paper tables as numbers of forward passes, and what these take on stated machines."""

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from radii.published_datasets import SIZES
from tools.scaling import costs

TABLES = Path(__file__).parents[2] / "tables"
TEST_IMAGES = {
    **{name: SIZES[name].test for name in ("mnist", "fashion_mnist", "cifar10", "cifar100", "svhn")},
    "imagenet": 500,
    "cifar10_c": 15 * 500,
    "mnist_c": 15 * SIZES["mnist_c"].test,
}
"""Images of a row: the test split; of ImageNet and of each of 15 kinds of CIFAR-10-C 500, as in the papers."""
NETWORK = {"mnist": "LeNet", "fashion_mnist": "LeNet", "mnist_c": "LeNet", "imagenet": "ResNet-50"}
MULTIPLY_ADDS = {"LeNet": 2.293e6, "ResNet-110": 2.53e8, "ResNet-50": 4.09e9}
SAMPLES = costs.SELECTION_AND_ESTIMATION
CORE_PRICE = 0.05
GPU_PRICE = 1.50
"""US dollars per hour, stated, not quoted."""
START = 20.0
"""Seconds until a worker has imported torch and loaded a model."""


@dataclass(frozen=True)
class Machine:
    name: str
    workers: int
    gpu: bool = False

    def seconds(self, network: str) -> float:
        """Per sample and worker."""
        if not self.gpu:
            return costs.on_a_core()[network]
        # A small network does not fill a GPU: none is taken to be more than four times as fast as ResNet-110.
        return costs.on_a_gpu() * max(MULTIPLY_ADDS[network] / MULTIPLY_ADDS["ResNet-110"], 0.25)

    def price(self, hours: float) -> float:
        return hours * self.workers * (GPU_PRICE if self.gpu else CORE_PRICE)


MACHINES = (
    Machine("1 core", 1),
    Machine("1 GPU", 1, gpu=True),
    Machine("8 GPUs", 8, gpu=True),
    Machine("64 GPUs", 64, gpu=True),
    Machine("1,000 cores", 1000),
)


@dataclass(frozen=True)
class Table:
    name: str
    work: tuple[tuple[str, int], ...]
    """Networks, with the images that are certified with each."""

    def hours(self, machine: Machine) -> float:
        """Perfectly shared out, and the start."""
        seconds = sum(images * SAMPLES * machine.seconds(network) for network, images in self.work)
        return (seconds / machine.workers + START) / 3600


def tables() -> Iterator[Table]:
    """The tables of certified results; every row that has numbers is one model."""
    for path in sorted(TABLES.glob("*-*.toml"), key=_order):
        content = tomllib.loads(path.read_text())
        rows = [row for row in content["rows"] if row.get("status") != "missing"]
        if content["kind"] in ("certified", "spread", "corruptions") and rows:
            first = content["dataset"] if isinstance(content["dataset"], str) else content["dataset"][0]
            yield Table(path.stem, ((NETWORK.get(first, "ResNet-110"), len(rows) * TEST_IMAGES[first]),))


def _order(path: Path) -> tuple[str, int]:
    paper, _, number = path.stem.rpartition("-")
    return paper, int(number)
