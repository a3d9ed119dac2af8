"""Item 22: a worker of a Dask cluster killed at a random moment."""

import random
import threading
from typing import Any

from radii import certifiers
from radii.certification.certify import CertificationConfig, certify_run
from radii.training.loop import train
from radii.workers.cluster import cluster_executor
from tools.cluster import DaskCluster, dask_cluster, without_times
from tools.processes import RECIPE
from tools.stress.outcome import Effort, Outcome


def killed_workers(effort: Effort) -> Outcome:
    """`radii certify` on a Dask cluster of two worker processes, one of which is killed with -9 at a random moment of
    the work: rows that are lost, doubled, out of order or other than those of one process."""
    run = train(RECIPE, effort.folder / "trained")
    fixed = certifiers.create("fixed", selection=100, estimation=5000)
    config = CertificationConfig(run=run.path, certifier=fixed, every=15, engine="torch")
    path = certify_run(config, workers=1)
    alone, rng, times = without_times(path), random.Random(effort.seed), effort.times(20, 2)
    bad: dict[str, list[str]] = {"results that differ": []}
    with dask_cluster() as cluster, cluster_executor(cluster.address) as executor:
        for number in range(times):
            path.unlink()
            kill = Kill(cluster, rng.randrange(1, len(alone) - 4), rng.random() / 4)
            certify_run(config, executor=executor, on_image=kill)
            kill.timer.join()
            if without_times(path) != alone:
                bad["results that differ"].append(f"run {number}")
    return Outcome({"runs with a killed worker": times, "images in each": len(alone)}, bad)


class Kill:
    """Called with every image: some seconds after some images a worker is killed."""

    def __init__(self, cluster: DaskCluster, after: int, seconds: float) -> None:
        self.left = after
        self.timer = threading.Timer(seconds, cluster.kill, (after,))

    def __call__(self, *_: Any) -> None:
        self.left -= 1
        if self.left == 0:
            self.timer.start()
