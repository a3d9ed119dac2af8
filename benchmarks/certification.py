"""The cost of certification, compared with ART, a plain loop, and a matrix product on the same machine."""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

import radii
from benchmarks import art, plain, sample_cost, timing
from benchmarks.timing import machine, take_turns
from radii import certifiers, engines, models
from radii.certification.certify import CertificationConfig, certify_run
from radii.engines import EngineSpec, SmoothedClassifier, folded, prepare
from radii.runs import certificates, recipe
from radii.runs.run import Run
from radii.smoothing.addresses import NoiseAddress
from radii.smoothing.noise import Gaussian
from radii.training.loop import train

SAMPLES = 2_560
MULTIPLY_ADDS = {"cifar_resnet20": 40_813_184, "lenet": 2_293_000}
"""Per image, convolutions and linear layers."""
OWN = "own module in Python"
"""A classifier that is made of an nn.Module, as users do, with the default engine."""


def measure(data: Path | None = None) -> dict[str, Any]:
    """Measure every number of the certification table, in one run."""
    logs = sample_cost.published_logs()
    with tempfile.TemporaryDirectory() as folder:
        return {
            "machine": machine(),
            "lenet": _forwards("lenet", (1, 28, 28), Path(folder), rounds=7),
            "cifar_resnet20": _forwards("cifar_resnet20", (3, 32, 32), Path(folder), rounds=5),
            "memory": _memory(),
            "sample_cost": sample_cost.measure_logs(logs),
            "mnist": _mnist(Path(folder), data),
        }


def _forwards(name: str, shape: tuple[int, int, int], folder: Path, rounds: int) -> dict[str, Any]:
    """Return samples per second of every engine, of a plain loop and of ART, and the share of a matrix product's
    speed."""
    torch.manual_seed(0)
    model = models.create(name).eval()
    weights = folder / f"{name}.safetensors"
    save_file({key: value.contiguous() for key, value in model.state_dict().items()}, weights)
    image = torch.rand(shape)
    square = torch.rand(2048, 2048)
    turns: dict[str, Any] = {
        "plain loop": lambda: plain.votes(model, image, 0.25, SAMPLES, 1000),
        "matrix product": lambda: square @ square,
    }
    spec = EngineSpec(
        folded(model), shape, Gaussian(0.25), 128, folder / f"{name}-int8", lambda: torch.rand(1024, *shape)
    )
    for engine in engines.names():
        turns[engine] = _votes(SmoothedClassifier(prepare(spec, engine)[1], sigma=0.25, classes=10), image)
    turns[OWN] = _votes(radii.SmoothedClassifier(models.create(name), sigma=0.25, classes=10), image)
    seconds = take_turns(turns, rounds)
    rates = {key: SAMPLES / value for key, value in seconds.items() if key != "matrix product"}
    rates["art"] = art.peer(name, weights, shape, 0.25, 10_000, 2)["samples_per_second"]
    product = 2048**3 / seconds["matrix product"]
    ours = {key: rates[key] for key in (*engines.names(), OWN)}
    return {
        "samples_per_second": rates,
        "over_art": {key: rate / rates["art"] for key, rate in ours.items()},
        "over_plain_loop": {key: rate / rates["plain loop"] for key, rate in ours.items()},
        "share_of_matrix_product": {key: rate * MULTIPLY_ADDS[name] / product for key, rate in ours.items()},
    }


def _votes(classifier: SmoothedClassifier, image: torch.Tensor) -> Any:
    return lambda: classifier.votes(image, SAMPLES, NoiseAddress(0))


def _memory() -> dict[str, float]:
    """Return peak memory above the model's for 100,000 samples of a LeNet image, in a separate process."""
    code = "from benchmarks.certification import _peak; _peak()"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return {"peak_megabytes": json.loads(done.stdout)}


def _peak() -> None:
    classifier = SmoothedClassifier(folded(models.create("lenet")), sigma=0.25, classes=10)
    image = torch.rand(1, 28, 28)
    classifier.votes(image, 1, NoiseAddress(0))
    before = timing.start_of_peak()
    classifier.votes(image, 100_000, NoiseAddress(0))
    print(json.dumps(timing.peak_megabytes() - before))


def _mnist(folder: Path, data: Path | None) -> dict[str, Any]:
    """Return certified accuracy at sigma of 500 MNIST images with a trained LeNet: `sequential`, and ART at a fixed
    n."""
    wanted = recipe.read(recipe.find("mnist/gaussian-0.50"), ["training.epochs=3"])
    run = train(wanted, folder / "lenet", data=data)
    config = CertificationConfig(
        run=run.path, certifier=certifiers.create("sequential", radii=(0.5,)), every=20, data=data
    )
    began = time.perf_counter()
    path = certify_run(config, workers=2)
    seconds = time.perf_counter() - began
    rows = certificates.read(path).rows
    peer = art.peer("lenet", run.weights_file, (1, 28, 28), 0.5, 100_000, 3)
    art_seconds = 500 * 100_100 / peer["samples_per_second"]
    workers = _workers(run, data)
    return {
        "images": len(rows),
        "seconds": seconds,
        "art_seconds_extrapolated_from_3_images": art_seconds,
        "speed_up": art_seconds / seconds,
        "certified_accuracy": sum(row.correct and row.radius >= 0.5 for row in rows) / len(rows),
        "samples_per_image": sum(row.samples or 0 for row in rows) / len(rows),
        "art_peak_megabytes": peer["peak_megabytes"],
        "workers": workers,
        "fixed_over_art": workers["2 workers"] / peer["samples_per_second"],
    }


def _workers(run: Run, data: Path | None) -> dict[str, float]:
    """Return samples per second of one worker and of two, one thread each, fixed n, without the start of the
    processes."""
    rates = {}
    for workers in (1, 2):
        for path in run.certificates.glob("fixed-*"):
            path.unlink()
        moments: list[float] = []
        certifier = certifiers.create("fixed", selection=100, estimation=20_000)
        config = CertificationConfig(run=run.path, certifier=certifier, every=200, data=data)
        certify_run(config, workers=workers, on_image=lambda *_, moments=moments: moments.append(time.perf_counter()))
        images = len(moments) - 2 - workers
        rates[f"{workers} workers"] = 20_100 * images / (moments[-1] - moments[workers + 1])
    return {**rates, "speed_up": rates["2 workers"] / rates["1 workers"]}
