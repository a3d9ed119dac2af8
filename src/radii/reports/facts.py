"""The facts behind a certified accuracy, as text: which images, which certifier, which cost."""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from radii.reports import protocol
from radii.reports.entries import Entry
from radii.reports.summary import CONFIDENCE, UNKNOWN
from radii.runs.certificates import Certificates
from radii.runs.run import Run

COMPONENTS = ("Dataset", "Model", "Objective", "Classes")
TIMES = ("Epochs", "Time per epoch", "Training time")


class EpochTime(NamedTuple):
    """How long an epoch of training took: the mean, and half its 95 % interval over the epochs."""

    seconds: float
    margin: float | None
    epochs: int
    total: float


def facts(entry: Entry) -> dict[str, str]:
    """What is known of one input; an unrecorded fact is a dash."""
    made, summary = entry.certificates, entry.summary
    samples = summary.samples
    return {
        "Images": choice(made),
        "Certifier": certifier(made),
        "Label": "known, and tested directly" if protocol.label_known(made) else UNKNOWN,
        "Engine": str(made.header.get("engine", UNKNOWN)),
        "Seed": str(made.header.get("seed", UNKNOWN)),
        "Weights": entry.weights or UNKNOWN,
        "Samples per image": UNKNOWN if samples is None else f"{math.ceil(samples / summary.images):,}",
        "Samples in all": UNKNOWN if samples is None else f"{samples:,}",
        "Time per image": duration(summary.seconds / summary.images),
        "Certification time": duration(summary.seconds),
        **_training(entry.run if entry.own else None),
    }


def choice(made: Certificates) -> str:
    """Which images were certified, as text."""
    count, header, wanted = len(made.rows), made.header, protocol.chosen(made)
    if wanted is None:
        return _inferred(sorted(row.index for row in made.rows))
    every, total, most = header["every"], header["images"], header.get("most")
    images = f"{total:,} {header.get('split', 'test')} images{_of_another(made)}"
    if most is not None and most <= wanted:
        # Many test sets are sorted, by class or by who wrote a digit.
        words = f"the first {most:,} of {images if every == 1 else f'{_every(every)} of {images}'} (may be biased)"
    else:
        words = f"all {images}" if every == 1 else f"{_every(every)} of {images} ({wanted:,})"
    return words if count == wanted else f"{words}, {count:,} of them so far"


def _of_another(made: Certificates) -> str:
    return f" of {protocol.evaluated(made)}" if "evaluated_on" in made.header else ""


def bias(made: Certificates, class_names: Sequence[str] = ()) -> str:
    """A warning if the images cover less than half of the classes although they could cover all; empty otherwise."""
    labels = {label for row in made.rows for label in (row.label, row.prediction, *row.counts)}
    classes, seen, count = max(len(class_names), max(labels) + 1), len({row.label for row in made.rows}), len(made.rows)
    if count < classes or 2 * seen >= classes:
        return ""
    return f"the {count:,} images are of {seen} of {classes} classes: a biased choice, which says little of the others"


def _inferred(indices: Sequence[int]) -> str:
    count, first, last = len(indices), indices[0], indices[-1]
    strides = {b - a for a, b in pairwise(indices)}
    if len(strides) != 1:
        return f"{count:,} image{'s' * (count > 1)}"
    stride = strides.pop()
    what = "images" if stride == 1 else f"{_every(stride)} image,"
    return f"{what} {first:,} to {last:,} ({count:,})"


def _every(number: int) -> str:
    endings = {1: "st", 2: "nd", 3: "rd"}
    ending = "th" if number % 100 in (11, 12, 13) else endings.get(number % 10, "th")
    return f"every {number}{ending}"


def certifier(made: Certificates) -> str:
    """The certifier with its parameters."""
    if made.certifier is None:
        return UNKNOWN
    stated = ", ".join(f"{key} {_plain(value)}" for key, value in made.parameters.items() if value is not None)
    return f"{made.certifier}: {stated}" if stated else made.certifier


def _plain(value: Any) -> str:
    if isinstance(value, list | tuple):
        return " ".join(map(_plain, value))
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _training(run: Run | None) -> dict[str, str]:
    if run is None:
        return dict.fromkeys((*COMPONENTS, *TIMES), UNKNOWN)
    recipe, measured = run.recipe, epoch_time(run)
    names = run.class_names()
    classes = f"{len(names)}: {', '.join(names)}" if names else UNKNOWN
    dataset, *model, objective = recipe.names()
    known = dict(zip(COMPONENTS, [dataset, ", ".join(model), objective, classes], strict=True))
    if measured is None:
        return {**known, **dict.fromkeys(TIMES, UNKNOWN)}
    return {
        **known,
        "Epochs": f"{measured.epochs:,}",
        "Time per epoch": per_epoch(measured),
        "Training time": duration(measured.total),
    }


def epoch_time(run: Run) -> EpochTime | None:
    """How long the epochs of a run took, where it has trained any."""
    seconds = [float(row["seconds"]) for row in run.history()]
    if not seconds:
        return None
    count, total = len(seconds), math.fsum(seconds)
    mean = total / count
    if count == 1:
        return EpochTime(mean, None, count, total)
    from scipy.special import stdtrit

    deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in seconds) / (count - 1))
    margin = float(stdtrit(count - 1, (1 + CONFIDENCE) / 2)) * deviation / math.sqrt(count)
    return EpochTime(mean, margin, count, total)


def per_epoch(measured: EpochTime) -> str:
    """The time of an epoch, with its 95 % interval where there were several."""
    return duration(measured.seconds) + ("" if measured.margin is None else f" ± {measured.margin:.2g} s")


def duration(seconds: float) -> str:
    """A duration as text."""
    if seconds < 100:
        return f"{seconds:.3g} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60} min"
