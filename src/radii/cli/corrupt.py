"""radii corrupt: write corrupted copies of a dataset's test images."""

from pathlib import Path

from radii.cli.app import console, say
from radii.cli.arguments import Data, Whole, command
from radii.cli.estimates import announce_rest
from radii.cli.progress import CountingBar
from radii.runs import recipe as recipes


def corrupt(dataset: str, /, *, out: Path, seed: Whole = 0, every: Whole = 1, data: Data = None) -> None:
    """Write corrupted copies of a dataset's test images: 15 kinds at 5 severities, radii's own, not a published set.

    Args:
        dataset: The dataset: a name, or a table of name and fields.
        out: The folder to write to. The same command continues there.
        seed: The seed of the random parts of a corruption.
        every: Take every Nth test image, starting with the first.
    """
    from radii import datasets
    from radii.datasets.corrupted import GALLERY, corrupt_dataset

    spec = recipes.named_table(recipes.parse_value(dataset), "dataset")
    source = datasets.create(spec["name"], data=data, **recipes.fields_of(spec))
    with CountingBar(console) as bar:
        folder = corrupt_dataset(source, out, seed=seed, every=every, on_image=announce_rest(bar, "--every 10"))
    example = command("certify", "RUN", dataset='{ name = "corrupted", kind = "fog" }', data=folder)
    say(f"{folder}: {folder / GALLERY} shows them; next: {example}")
