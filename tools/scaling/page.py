"""docs/scaling.md: measured costs, priced tables, and simulated workers."""

import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks import sample_cost
from radii import certifiers
from tools.scaling import costs, prices
from tools.scaling.workers import Machines, Simulation, simulate

PAGE = Path(__file__).parents[2] / "docs" / "scaling.md"
IMAGENET = 50_000
WORKERS = 1_000
WEIGHTS = 102e6
"""Bytes of ResNet-50."""
NETWORK = 1.25e9
"""Bytes per second of the machine that sends them: 10 Gbit/s."""
SEQUENTIAL = certifiers.create("sequential", radii=(0.5,))

HEAD = """# Beyond these machines, on paper and by simulation

Written by `scripts/simulate`. Costs of a sample are measured; machines, prices and the network are stated; the time of
many workers is simulated with the code that hands out the work (`radii.workers.scheduler`): only the
forward passes and the clock are not real.

What was run on real hardware: one machine with two cores, its pool of processes, and a Dask cluster of two worker
processes on it (docs/performance.md, docs/reliability.md). What was not: CUDA, several GPUs, nccl, more than one
machine, more than two workers at a time, MPI and Parsl. Everything below about those is untested.
"""
COSTS = """## What a sample costs

One core: processor time of one thread, {capability}, engine {engine}, the least of three rounds, measured here. One
GPU: the median time of an image in the fastest published log (ResNet-110, 100,100 samples; the log does not name the
GPU), scaled to other networks by their multiply-adds, at most four times as fast: stated, not measured.

{table}
"""
TABLES = """## The tables of the papers

Time and price to certify every row of a table once, with 100,100 samples an image, without training: the whole test
split, 500 images of ImageNet, 500 of each kind of CIFAR-10-C. Every row is taken to be LeNet on MNIST and
Fashion-MNIST, ResNet-50 on ImageNet and ResNet-110 elsewhere, and a table of two datasets to be all of its first.
A core-hour is {core:.2f} dollars and a GPU-hour {gpu:.2f} dollars, stated. Work is shared out perfectly here,
after {start:.0f} s of start; the simulation below says how far that holds.

{table}
"""
SIMULATION = """## A thousand workers on ImageNet's 50,000 images

The probability of the label of an image is drawn from the seven published CIFAR-10 logs (sigma 0.50), since there is
no such log of ImageNet. ResNet-50; a message takes 5 ms each way, handing out a task and writing its row 1 ms of one
process, the start {start:.0f} s. "Share" is the work over the time of all workers: of a perfect speed-up. Whole images:
each image is one task, in order, as a plain map over an executor would have it.

{table}

`sequential` needs {mean:,.0f} samples an image on average and 100,000 for some: without spreading blocks the last of
those decide the time. Draws differ a little from simulation to simulation; certificates of real models do not. `fixed`
takes the same for every image, 50 images a worker: whole images lose at most one of them, a fiftieth.
"""
LIMITS = """## What becomes the limit

- The tail of single images: above, without spreading. With it, an image asks for its next samples only after a look,
  so the last image takes as many rounds as it has looks, about {latency:.0f} ms of messages each.
- Handing out: one process hands out about 1,000 tasks a second, as Dask's scheduler does. A task is at least 0.1 s of
  work where an image has that much, so some hundred workers are kept busy by cheap images, and thousands by dear ones.
  A thousand GPUs on `sequential` are beyond that, as the table shows: images are too cheap for them.
- Start: {start:.0f} s a worker. A table that takes less than ten minutes on its machines is better done on fewer.
- Weights: from a shared filesystem they are read by all workers at once. Without one, the process that certifies
  sends them: {weights:.0f} MB to each of 1,000 workers at 10 Gbit/s take {sending:.0f} s until the last has them.
- Images: a worker that cannot read them gets each with its task, {image:.1f} MB for ImageNet: {images:.0f} GB in all.
- The writer: a row is about 150 bytes and one write; 50,000 rows take less than the tasks that made them.
"""


def text() -> str:
    """The whole page."""
    parts = [HEAD, _costs(), _tables(), _simulation(), _limits()]
    return "\n".join(parts)


def _table(header: list[str], rows: list[list[str]]) -> str:
    return "\n".join("| " + " | ".join(line) + " |" for line in [header, ["---"] * len(header), *rows])


def _costs() -> str:
    measured = json.loads(costs.FILE.read_text())
    core, gpu = prices.Machine("", 1), prices.Machine("", 1, gpu=True)
    rows = [
        [name, f"{1 / seconds:,.0f}", f"{1 / gpu.seconds(name):,.0f}" if name in prices.MULTIPLY_ADDS else "-"]
        for name, seconds in measured["seconds_per_sample"].items()
    ]
    assert core.seconds("LeNet") == measured["seconds_per_sample"]["LeNet"]
    table = _table(["network", "samples per second, one core", "one GPU"], rows)
    return COSTS.format(capability=measured["machine"]["capability"], engine=measured["engine"], table=table)


def _tables() -> str:
    rows = []
    for table in prices.tables():
        hours = [(machine, table.hours(machine)) for machine in prices.MACHINES]
        rows.append([table.name, *(f"{_time(hour)}, ${machine.price(hour):,.2f}" for machine, hour in hours)])
    header = ["table", *(machine.name for machine in prices.MACHINES)]
    return TABLES.format(core=prices.CORE_PRICE, gpu=prices.GPU_PRICE, start=prices.START, table=_table(header, rows))


def _time(hours: float) -> str:
    if hours < 1:
        return f"{hours * 60:.1f} min"
    return f"{hours:,.1f} h" if hours < 48 else f"{hours / 24:,.0f} d"


def probabilities() -> NDArray[np.float64]:
    """The probability of the label of 50,000 images, from the published logs."""
    rng = np.random.default_rng(0)
    logs = [sample_cost.label_probabilities(log, rng) for log in sample_cost.published_logs()]
    return rng.permutation(np.concatenate(logs))[:IMAGENET]


def _simulation() -> str:
    images, core, gpu = probabilities(), prices.Machine("", 1), prices.Machine("", 1, gpu=True)
    rows, found = [], []
    for name, machine in (("`sequential`, radius 0.5, cores", core), ("`sequential`, radius 0.5, GPUs", gpu)):
        machines = Machines(WORKERS, machine.seconds("ResNet-50"), prices.START)
        spread, whole = (simulate(SEQUENTIAL, images, machines, 128, each) for each in (False, True))
        found.append(spread)
        rows.append([name, *_cells(spread), *_cells(whole)])
    header = ["1,000 workers", "share, blocks spread", "time", "share, whole images", "time"]
    return SIMULATION.format(start=prices.START, table=_table(header, rows), mean=found[0].samples / IMAGENET)


def _cells(found: Simulation) -> list[str]:
    return [f"{found.share:.2f}", _time(found.seconds / 3600)]


def _limits() -> str:
    image = 3 * 224 * 224 * 4 / 1e6
    return LIMITS.format(
        latency=2 * Machines(1, 1, 1).latency * 1000,
        start=prices.START,
        weights=WEIGHTS / 1e6,
        sending=WORKERS * WEIGHTS / NETWORK,
        image=image,
        images=image * IMAGENET / 1000,
    )
