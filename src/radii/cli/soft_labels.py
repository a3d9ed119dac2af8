"""radii soft-labels: write a run's votes on every training image, for CAT-RS."""

import shlex
from pathlib import Path

from radii.cli.app import console, printed_warnings, say, suggest
from radii.cli.arguments import Cluster, Data, Trust, Whole, executor_at
from radii.cli.estimates import announce
from radii.cli.progress import CountingBar
from radii.runs.run import Run


def soft_labels(
    run: Path,
    /,
    *,
    samples: Whole = 10_000,
    settle: Whole | None = None,
    seed: Whole = 0,
    engine: str = "auto",
    batch_size: Whole | None = None,
    workers: Whole | None = None,
    cluster: Cluster = None,
    data: Data = None,
    trust: Trust = None,
) -> None:
    """Write the soft labels for `catrs`: the share of a run's votes for each class, on noisy copies of training images.

    The same command continues where it stopped. The values do not depend on the number of workers.

    Args:
        run: A trained run directory, usually plain Gaussian at sigma 0.25.
        samples: The number of noisy copies of each image.
        settle: Stop at an image whose first SETTLE votes (a multiple of 128) are all for one class. Its shares are
            then 1 and 0; more votes could change them a little. By default every image gets all its votes.
        seed: The seed of the noise.
        engine: The engine that runs the forward passes; auto takes the fastest that is installed.
        batch_size: The noisy copies of a forward pass, on which the draws do not depend; by default as many as suit the
            device.
        workers: The number of processes, of one thread each; by default one per core or per GPU.
    """
    from radii.training.soft_labels import soft_labels as write_soft_labels

    with printed_warnings(), executor_at(cluster, workers) as executor, CountingBar(console) as bar:
        path = write_soft_labels(
            Run(run, trust or ()),
            samples=samples,
            settle=settle,
            seed=seed,
            engine=engine,
            batch_size=batch_size,
            data=data,
            workers=workers,
            executor=executor,
            on_image=bar,
            on_estimate=announce(bar, cheaper="--settle 1024, or fewer --samples"),
        )
    say(str(path))
    suggest(f"next: radii train RECIPE --soft-labels {shlex.quote(str(path))} --run RUN")
