"""Certify the images of a dataset with any classifier."""

import sys
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from radii import certifiers, datasets
from radii.certification.images import checked_seed, whole
from radii.certification.memory import Choice, certify_samples
from radii.certification.progress import ProgressLine
from radii.datasets import Dataset, Samples, samples_of
from radii.engines import SmoothedClassifier
from radii.reports.results import Results
from radii.runs.certificates import Row
from radii.runs.recipe import fields_of, named_table

OnImage = Callable[[int, Row | None], None]


def certify_dataset(
    classifier: SmoothedClassifier,
    dataset: object,
    procedure: str = "fixed",
    *,
    seed: int,
    every: int = 1,
    max_images: int | None = None,
    out: Path | str | None = None,
    executor: Executor | None = None,
    workers: int | None = None,
    label_known: bool = True,
    progress: bool | OnImage | None = None,
    **fields: Any,
) -> Results:
    """Certify every `every`th image of a dataset, `max_images` at most; `fields` are the certifier's parameters.

    `dataset` is a torch Dataset, a DataLoader that does not shuffle, a pair (images, labels) of arrays or tensors, or
    the name of a dataset, or a table of its name and fields, whose test images are taken. The noise of an image is
    determined by the seed and its number. State the seed before you know any result.

    `out` names a certificate file, *.tsv: the same call continues it where it stopped, while another model, certifier,
    seed or other images are refused. The images are certified by `executor`, by default by `workers` processes of one
    thread each, one per core; a model that other processes cannot have is certified by threads, with a warning. With
    `label_known=False` a certifier that could test the label directly finds the class itself, as a deployed model does.
    `progress` is shown on a terminal by default; a function is called with (number of images, row).

    >>> import torch, radii
    >>> model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 2))
    >>> weights = {"weight": torch.tensor([[1.0] * 4, [-1.0] * 4]), "bias": torch.tensor([-2.0, 2.0])}
    >>> _ = model[1].load_state_dict(weights)
    >>> images, labels = torch.stack([torch.zeros(1, 2, 2), torch.ones(1, 2, 2)]), torch.tensor([1, 0])
    >>> smoothed = radii.SmoothedClassifier(model, sigma=0.25, classes=2)
    >>> results = radii.certify_dataset(smoothed, (images, labels), "sequential", radii=(0.25, 0.5), seed=0, workers=1)
    >>> results.accuracy(0.5)
    1.0
    """
    if not isinstance(classifier, SmoothedClassifier):
        raise ValueError(
            f"the classifier is a {type(classifier).__name__}, expected a radii.SmoothedClassifier: make one of it"
        )
    samples, name, split = _samples(dataset)
    choice = Choice(
        certifier=certifiers.create(procedure, **fields),
        seed=checked_seed(seed),
        every=whole("every", every, 1),
        max_images=None if max_images is None else whole("max_images", max_images, 1),
        label_known=label_known,
        dataset=name,
        split=split,
    )
    path = None if out is None else Path(out)
    wanted = None if workers is None else whole("workers", workers, 1)
    with _display(progress) as on_image:
        found = certify_samples(
            classifier, samples, choice, out=path, workers=wanted, executor=executor, on_image=on_image
        )
    return Results(found, path)


def _samples(given: object) -> tuple[Samples, str, str]:
    """The images, the name of the dataset and of the split, for the record."""
    if isinstance(given, str | Mapping):
        table = named_table(given, "dataset")
        given = datasets.create(table["name"], **fields_of(table))
    if isinstance(given, Dataset):
        return samples_of(given.split("test")), given.name, "test"
    return samples_of(given), "arrays" if isinstance(given, tuple | list) else type(given).__name__, "given"


def _display(progress: bool | OnImage | None) -> Any:
    if callable(progress):
        return nullcontext(progress)
    shown = sys.stderr.isatty() if progress is None else progress
    return ProgressLine() if shown else nullcontext(lambda *_: None)
