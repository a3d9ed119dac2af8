"""Certification by the workers of a Dask cluster, compared with one worker and with the pool of this machine."""

import tempfile
import time
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

from benchmarks.timing import machine
from radii import certifiers
from radii.certification.certify import CertificationConfig, certify_run
from radii.runs import recipe
from radii.training.loop import train
from radii.workers.cluster import cluster_executor
from tools.cluster import dask_cluster

IMAGES = 200
SAMPLES = (1_500, 10_000)
"""Short images, a seventh of a second each, and those of the results."""
WARM = 20
"""Images before the clock starts: processes start and load the model meanwhile."""


def measure(data: Path | None = None) -> dict[str, Any]:
    """Measure images per second of two Dask workers, of one, and of two processes of this machine, in turn."""
    with tempfile.TemporaryDirectory() as folder:
        wanted = recipe.read(recipe.find("mnist/gaussian-0.50"), ["training.epochs=1"])
        run = train(wanted, Path(folder) / "lenet", data=data)
        by_samples = [_of_samples(run.path, samples, data) for samples in SAMPLES]
    return {"machine": machine(), "by_samples": by_samples}


def _of_samples(run: Path, samples: int, data: Path | None) -> dict[str, Any]:
    certifier = certifiers.create("fixed", selection=100, estimation=samples)
    config = CertificationConfig(run=run, certifier=certifier, every=50, max_images=IMAGES, engine="torch", data=data)
    rates = {"one Dask worker": _on_dask(config, 1), "two Dask workers": _on_dask(config, 2)}
    rates["two processes"] = _rate(config, None)
    return {
        "samples": samples + 100,
        "images_per_second": rates,
        "speed_up": rates["two Dask workers"] / rates["one Dask worker"],
        "over_the_pool": rates["two Dask workers"] / rates["two processes"],
    }


def _on_dask(config: CertificationConfig, workers: int) -> float:
    with dask_cluster(workers) as cluster, cluster_executor(cluster.address) as executor:
        return _rate(config, executor)


def _rate(config: CertificationConfig, executor: Executor | None) -> float:
    """Return images per second after the first ones."""
    moments: list[float] = []
    path = certify_run(config, workers=2, executor=executor, on_image=lambda *_: moments.append(time.perf_counter()))
    path.unlink()
    return (IMAGES - WARM) / (moments[-1] - moments[WARM])
