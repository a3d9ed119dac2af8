"""The command that makes corrupted test images."""

from pathlib import Path

from radii.cli.app import app, console, say
from radii.cli.arguments import Data, Whole
from radii.cli.progress import CountingBar
from radii.runs import recipe as recipes


@app.command
def corrupt(dataset: str, /, *, out: Path, seed: Whole = 0, every: Whole = 1, data: Data = None) -> None:
    """Make corrupted copies of a dataset's test images: 15 kinds at 5 severities, radii's own, not a published set.

    Args:
        dataset: The name of a dataset, or a table of its name and fields.
        out: The folder to write to; the same command continues there.
        seed: The seed of what is random in a corruption.
        every: Take every Nth test image, starting with the first.
    """
    from radii import datasets
    from radii.interop.corrupt import GALLERY, corrupt_dataset

    table = recipes.named_table(recipes.parse_value(dataset), "dataset")
    source = datasets.create(table["name"], data=data, **recipes.fields_of(table))
    with CountingBar(console) as bar:
        folder = corrupt_dataset(source, out, seed=seed, every=every, on_image=bar)
    table_text = '{ name = "corrupted", kind = "fog" }'
    step = f"radii certify RUN --dataset '{table_text}' --data {folder}"
    say(f"{folder}: {folder / GALLERY} shows them; next: {step}")
