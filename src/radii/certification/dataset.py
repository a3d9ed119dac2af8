"""Certify the images of a dataset with any classifier."""

from concurrent.futures import Executor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Unpack, overload

from radii.certification.certify import RowStore, certify_missing, environment_of
from radii.certification.fields import (
    DatasetOptions,
    FixedOptions,
    PlannedOptions,
    PredictionOptions,
    SequentialOptions,
    SoftOptions,
)
from radii.certification.memory import Memory, dataset_certification, display, worker_count
from radii.certification.predict import certifier_of
from radii.certifiers import Certifier
from radii.engines import SmoothedClassifier
from radii.reports.results import Results
from radii.runs import resume
from radii.runs.certificates import Certificates, OnImage


@overload
def certify_dataset(
    classifier: SmoothedClassifier,
    dataset: object,
    procedure: Literal["fixed"] = "fixed",
    *,
    seed: int,
    **options: Unpack[FixedOptions],
) -> Results: ...


@overload
def certify_dataset(
    classifier: SmoothedClassifier,
    dataset: object,
    procedure: Literal["sequential"],
    *,
    seed: int,
    **options: Unpack[SequentialOptions],
) -> Results: ...


@overload
def certify_dataset(
    classifier: SmoothedClassifier,
    dataset: object,
    procedure: Literal["planned"],
    *,
    seed: int,
    **options: Unpack[PlannedOptions],
) -> Results: ...


@overload
def certify_dataset(
    classifier: SmoothedClassifier,
    dataset: object,
    procedure: Literal["soft"],
    *,
    seed: int,
    **options: Unpack[SoftOptions],
) -> Results: ...


@overload
def certify_dataset(
    classifier: SmoothedClassifier,
    dataset: object,
    procedure: Literal["prediction"],
    *,
    seed: int,
    **options: Unpack[PredictionOptions],
) -> Results: ...


@overload
def certify_dataset(
    classifier: SmoothedClassifier,
    dataset: object,
    procedure: str | Certifier,
    *,
    seed: int,
    **options: Unpack[DatasetOptions],
) -> Results: ...


def certify_dataset(
    classifier: SmoothedClassifier,
    dataset: object,
    procedure: str | Certifier = "fixed",
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

    A certifier of your own is passed as an object.

    `dataset` is a torch Dataset, a DataLoader that does not shuffle, a pair (images, labels) of arrays or tensors, or
    the name of a dataset, or a table of its name and fields; its test images are taken. The seed and the number of an
    image determine its noise. Choose the seed before you see any result.

    `out` names a certificate file, *.tsv: the same call continues it where it stopped, while another model, certifier,
    seed or other images are refused. `executor` counts the votes; by default `workers` processes of one thread each
    do, one per core. A model that cannot be pickled runs in threads, with a warning. With `label_known=False` a
    certifier that could test the label directly finds the class itself, as a deployed model does. `progress` is shown
    on a terminal by default; a function is called with (number of images, row).

    With a model on a GPU, each GPU has a worker. If GPUs admit one process each, leave the model on the CPU and name
    them by RADII_DEVICE=cuda: this process then stays off them.

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
    path = None if out is None else Path(out)
    certification = dataset_certification(
        classifier,
        dataset,
        certifier_of(procedure, fields),
        seed=seed,
        every=every,
        max_images=max_images,
        out=path,
        label_known=label_known,
    )
    count = worker_count(certification, workers, executor)
    with ExitStack() as held:
        store: RowStore = Memory()
        if path is not None:
            environment = environment_of(certification.classifier)
            request = certification.request(certification.chosen)
            store = held.enter_context(resume.open_named(path, request, environment))
        on_image, on_work = held.enter_context(display(progress))
        certify_missing(replace(certification, on_work=on_work), store, certification.chosen, count, executor, on_image)
        return Results(Certificates(path.stem if path else "certificates", store.rows(), certification.header), path)
