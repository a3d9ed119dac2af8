"""radii soft-labels: write a run's votes on every training image, for CAT-RS."""

from pathlib import Path

from radii.cli.app import console, printed_warnings, say, suggest
from radii.cli.arguments import BatchSize, Cluster, Data, Engine, Trust, Whole, Workers, command, executor_at
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
    engine: Engine = "auto",
    batch_size: BatchSize = None,
    workers: Workers = None,
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
    suggest(f"next: {command('train', 'RECIPE', soft_labels=path, run='RUN')}")
