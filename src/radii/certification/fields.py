"""The fields of the certifiers as types, so that an editor completes them and a type checker refuses others."""

from collections.abc import Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Literal, TypedDict

from radii.runs.certificates import OnImage


class CertifierFields(TypedDict, total=False):
    """The fields of every certifier."""

    failure: float


class FixedFields(CertifierFields, total=False):
    """The fields of `fixed`."""

    selection: int
    estimation: int
    bound: Literal["top", "top_two"]
    radius: float | None


class SequentialFields(CertifierFields, total=False):
    """The fields of `sequential`."""

    radii: Sequence[float]
    most_samples: int
    futility: float
    pilot: int


class PlannedFields(CertifierFields, total=False):
    """The fields of `planned`."""

    tolerance: float
    pilot: int
    most_samples: int


class SoftFields(CertifierFields, total=False):
    """The fields of `soft`."""

    selection: int
    estimation: int
    bound: Literal["bernstein", "hoeffding", "betting"]
    sharpness: float


class PredictionFields(CertifierFields, total=False):
    """The fields of `prediction`."""

    samples: int


FIELDS: dict[str, type] = {
    "fixed": FixedFields,
    "sequential": SequentialFields,
    "planned": PlannedFields,
    "soft": SoftFields,
    "prediction": PredictionFields,
}
"""The fields of each certifier, by its name."""


class DatasetOptions(TypedDict, total=False):
    """The options of `certify_dataset` besides the certifier's fields."""

    every: int
    max_images: int | None
    out: Path | str | None
    executor: Executor | None
    workers: int | None
    label_known: bool
    progress: bool | OnImage | None


class FixedOptions(FixedFields, DatasetOptions, total=False):
    """The options of `certify_dataset` with `fixed`."""


class SequentialOptions(SequentialFields, DatasetOptions, total=False):
    """The options of `certify_dataset` with `sequential`."""


class PlannedOptions(PlannedFields, DatasetOptions, total=False):
    """The options of `certify_dataset` with `planned`."""


class SoftOptions(SoftFields, DatasetOptions, total=False):
    """The options of `certify_dataset` with `soft`."""


class PredictionOptions(PredictionFields, DatasetOptions, total=False):
    """The options of `certify_dataset` with `prediction`."""
