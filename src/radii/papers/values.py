"""Values of a table's columns as measured here, with 95 % intervals and their difference to the reported number.

A group of results differs only in the seed of training; for corruptions it has one certificate file for each kind
(CAT-RS, Tables 13 to 25).
"""

import math
from collections.abc import Mapping, Sequence
from decimal import Decimal
from itertools import product
from statistics import fmean, stdev
from typing import NamedTuple

from radii.papers.match import Result
from radii.papers.tables import PaperTable, Reported, Row
from radii.published_datasets import KINDS, SEVERITIES
from radii.reports import protocol
from radii.reports.corruptions import EXACT, MEASURES, PUBLISHED_BLOCK, Corrupted, block_of, groups, mean
from radii.reports.inputs import Entry
from radii.reports.metrics import Share, Summary, Value, epoch_time, mean_margin
from radii.runs.certificates import Certificates
from radii.runs.lineage import teachers
from radii.runs.run import Run

HOUR = 3600.0
Group = Sequence[Result]
Interval = tuple[float, float]
KindAndSeverity = tuple[str, int | None]
"""A kind of corruption and its severity; None where the images have no severity."""


class Measured(NamedTuple):
    """A value, with its deviation over seeds and its 95 % interval where they are known."""

    value: float
    deviation: float | None = None
    interval: Interval | None = None
    exact: bool = True
    """False for a lower bound."""


class Difference(NamedTuple):
    """A value here minus the reported one, with an interval that includes the rounding of the reported one."""

    value: float
    interval: Interval | None


def value(table: PaperTable, column: str, group: Group, baseline: Group = ()) -> Measured | None:
    """Return the value of a column for a group of results; None where it is unknown.

    A slow-down is relative to the results of the `baseline`.
    """
    if table.kind == "corruptions":
        return _corruption_value(table, column, group)
    summaries = [Summary(result.certificates) for result in group if result.certificates]
    if column == "teacher_acr":
        return _over_seeds([_acr(Summary(file)) if file else None for file in map(_teacher_certificates, group)])
    if column in ("acr", "acr_mean"):
        return _over_seeds([_acr(summary) for summary in summaries])
    if column == "acr_std":
        return Measured(stdev(summary.acr for summary in summaries)) if len(summaries) > 1 else None
    if (radius := radius_of(column)) is not None:
        return _over_seeds([_accuracy(summary, radius) for summary in summaries], most=1.0)
    return _time(table, column, group, baseline)


def radius_of(column: str) -> float | None:
    """Return the radius of a column of certified accuracies; None for other columns."""
    return float(column[1:]) if column[:1] == "r" and column[1:].replace(".", "", 1).isdecimal() else None


def _acr(summary: Summary) -> Measured | None:
    if (known := summary.known_acr) is None:
        return None
    margin = _margin([row.radius if row.correct else 0.0 for row in summary.certificates.rows])
    return Measured(known.value, None, _around(known.value, margin) if known.exact else None, known.exact)


def _accuracy(summary: Summary, radius: float) -> Measured | None:
    if (known := summary.known(radius)) is None:
        return None
    return Measured(known.value, None, summary.interval(radius) if known.exact else None, known.exact)


def _teacher_certificates(result: Result) -> Certificates | None:
    """Return the certificates of a student's teacher that were made like the student's."""
    teacher, own = result.trained.sources["teacher"] if result.trained else None, result.certificates
    if teacher is None or own is None:
        return None
    same_sigma = [file for file in teacher.certificates if file.sigma == own.sigma]
    return next((file for file in same_sigma if not protocol.differences([file, own])), None)


def _over_seeds(values: Sequence[Measured | None], most: float = math.inf) -> Measured | None:
    """Return the mean over seeds, with an interval between 0 and `most` for the choice of images and of seeds.

    More seeds do not make the images' part of the interval narrower, because all are certified on the same images.
    """
    known = [measured for measured in values if measured is not None]
    if not known or len(known) < len(values):
        return None
    if len(known) == 1:
        return known[0]
    mean, seeds = fmean(measured.value for measured in known), _margin([measured.value for measured in known])
    ends = [measured.interval for measured in known if measured.interval]
    below = mean - fmean(low for low, _ in ends) if ends else 0.0
    above = fmean(high for _, high in ends) - mean if ends else 0.0
    low, high = mean - math.hypot(below, seeds or 0.0), mean + math.hypot(above, seeds or 0.0)
    exact = all(measured.exact for measured in known)
    deviation = stdev(measured.value for measured in known)
    return Measured(mean, deviation, (max(0.0, low), min(most, high)) if exact else None, exact)


def _margin(values: Sequence[float]) -> float | None:
    """Return half the 95 % interval of a mean; None for a single value, and for equal ones, which show no spread."""
    return mean_margin(values) or None


def _around(middle: float, margin: float | None) -> Interval | None:
    return None if margin is None else (max(0.0, middle - margin), middle + margin)


# Times.


def _time(table: PaperTable, column: str, group: Group, baseline: Group) -> Measured | None:
    """Return the value of a column of times; None for a column that is not one."""
    times = [result.trained.epoch_time for result in group if result.trained and result.trained.epoch_time]
    if not times:
        return None
    seconds = fmean(time.seconds for time in times)
    margin = times[0].margin if len(times) == 1 else _margin([time.seconds for time in times])
    match column:
        case "epoch_time_s" | "sec_per_epoch":
            return Measured(seconds, None, _around(seconds, margin))
        case "epoch_time_ci95_s":
            return None if margin is None else Measured(margin)
        case "epochs":
            return Measured(fmean(time.epochs for time in times))
        case "total_time_h" | "total_hours":
            totals = [hours(result.run, taught=table.teacher_time) for result in group if result.run]
            known = [total for total in totals if total is not None]
            return Measured(fmean(known)) if known and len(known) == len(totals) else None
        case "slowdown_factor":
            others = [result.trained.epoch_time for result in baseline if result.trained]
            usual = [time.seconds for time in others if time]
            return Measured(seconds / fmean(usual)) if usual else None
    return None


def hours(run: Run, *, taught: bool) -> float | None:
    """Return the hours that a run trained, with those of its teachers if `taught`; None where a time is unknown."""
    times = [epoch_time(link) for link in (run, *(teachers(run) if taught else ()))]
    known = [time.total for time in times if time is not None]
    return sum(known) / HOUR if len(known) == len(times) else None


# Corruptions.


def _corruption_value(table: PaperTable, column: str, group: Group) -> Measured | None:
    known = corruption_mean(table, column, group)
    if known is None or not known.exact:
        return Measured(known.value, exact=False) if known else None
    images = by_image(table, column, group)
    if not is_accuracy(table, column):
        return Measured(known.value, None, _around(known.value, _margin(images)))
    # Clopper and Pearson over images, in the widest case: an image is right, or wrong, under all of its corruptions.
    failure = max(result.certificates.failure or 0.0 for result in group if result.certificates)
    return Measured(known.value, None, Share(known.value * len(images), len(images)).interval(failure))


def corruption_mean(table: PaperTable, column: str, group: Group) -> Value | None:
    """Return the ACR or accuracy of a kind of corruption, or the mean over kinds; None if a file is missing."""
    measure, summaries = MEASURES["accuracy" if is_accuracy(table, column) else "ACR"][0], _summaries(table, group)
    return mean([measure(summaries[pair]) if pair in summaries else None for pair in _pairs(table, column)])


def by_image(table: PaperTable, column: str, group: Group) -> list[float]:
    """Return a value for each image before its corruptions; their mean is the value of the column.

    The images were chosen independently, their corruptions were not.
    """
    if (known := corruption_mean(table, column, group)) is None:
        return []
    summaries, accuracy = _summaries(table, group), is_accuracy(table, column)
    pairs, deviations = _pairs(table, column), dict[int, float]()
    for summary in (summaries[pair] for pair in pairs):
        values = {row.index: row.correct * (1.0 if accuracy else row.radius) for row in summary.certificates.rows}
        middle, block = fmean(values.values()), block_of(summary.certificates) or PUBLISHED_BLOCK
        for index, value in values.items():
            image = index % block
            deviations[image] = deviations.get(image, 0.0) + (value - middle) / (len(pairs) * len(values))
    return [known.value + len(deviations) * deviation for deviation in deviations.values()]


def is_accuracy(table: PaperTable, column: str) -> bool:
    """Return whether a column of corruptions holds accuracies in per cent; otherwise it holds radii."""
    return column.casefold().startswith(("acc", "macc")) or table.unit.startswith("percent")


def missing_corruptions(table: PaperTable, group: Group) -> list[str]:
    """Describe the kinds and severities without files or with too few images; empty if nothing is missing."""
    if table.kind != "corruptions":
        return []
    kinds, summaries = _certified_kinds(table, group), _summaries(table, group)
    absent = [kind for kind in KINDS[table.dataset[0]].values() if kind not in kinds]
    short = [pair for pair in _all_pairs(table) if pair[0] in kinds and pair not in summaries]
    empty = [pair for pair in short if _summary_at(kinds[pair[0]], pair[1]) is None]
    missing = {
        "no complete file of": absent,
        "no images of": [_in_words(*pair) for pair in empty],
        "fewer images than of the others of": [_in_words(*pair) for pair in short if pair not in empty],
    }
    return [f"{words} {', '.join(names)}" for words, names in missing.items() if names]


def _in_words(kind: str, severity: int | None) -> str:
    return kind if severity is None else f"{kind} at severity {severity}"


def _pairs(table: PaperTable, column: str) -> list[KindAndSeverity]:
    """Return the kinds and severities that a column is the mean of."""
    columns = KINDS[table.dataset[0]]
    return list(product([columns[column]] if column in columns else columns.values(), _severities(table, column)))


def _all_pairs(table: PaperTable) -> list[KindAndSeverity]:
    return list(dict.fromkeys(pair for column in table.columns() for pair in _pairs(table, column)))


def _severities(table: PaperTable, column: str) -> Sequence[int | None]:
    if column.startswith(("acr_severity", "acc_severity")):
        return [int(column[-1])]
    _, stated, rest = table.images.partition("severity ")
    if stated:
        return [int(rest[0])]
    return SEVERITIES if table.dataset == ("cifar10_c",) else [None]


def _summaries(table: PaperTable, group: Group) -> Mapping[KindAndSeverity, Summary]:
    """Return the summary of each kind and severity that has as many images as the others, or one fewer."""
    kinds = _certified_kinds(table, group)
    summaries = {pair: _summary_at(kinds[pair[0]], pair[1]) for pair in _all_pairs(table) if pair[0] in kinds}
    known = {pair: summary for pair, summary in summaries.items() if summary is not None}
    most = max((summary.images for summary in known.values()), default=0)
    return {pair: summary for pair, summary in known.items() if summary.images >= most - 1}


def _certified_kinds(table: PaperTable, group: Group) -> Mapping[str, Corrupted]:
    entries = [
        Entry(result.source, Summary(result.certificates), folder="files") for result in group if result.certificates
    ]
    known = [entry for entry in entries if entry.corruption in KINDS[table.dataset[0]].values()]
    return {corrupted.kind: corrupted for members in groups(known).values() for corrupted in members}


def _summary_at(corrupted: Corrupted, severity: int | None) -> Summary | None:
    return corrupted.whole if severity is None else corrupted.severities.get(severity)


# Reported numbers.


def shift_of(table: PaperTable, column: str) -> int:
    """Return how many digits the decimal point of a printed value is shifted: 2 for shares in per cent, else 0."""
    if table.kind == "corruptions":
        return 2 if is_accuracy(table, column) else 0
    return 2 if table.percent and radius_of(column) is not None else 0


def difference(measured: Measured, reported: Reported, shift: int = 0) -> Difference | None:
    """Return the measured value minus the reported one; None if one is a lower bound or text."""
    if isinstance(reported, str) or not measured.exact:
        return None
    printed, half = float(Decimal(reported).scaleb(-shift)), 0.5 * 10.0 ** -(digits_of(reported) + shift)
    gap = round(measured.value - printed, EXACT)
    if measured.interval is None:
        return Difference(gap, None)
    low, high = measured.interval
    return Difference(gap, (low - printed - half, high - printed + half))


def as_precise(row: Row, column: str) -> Reported | None:
    """Return a reported cell; a whole accuracy gets as many digits as others in its row: MACER's 0 is 0.00."""
    reported = row.reported.get(column)
    if not isinstance(reported, int) or radius_of(column) is None:
        return reported
    others = [value for name, value in row.reported.items() if radius_of(name) is not None]
    return Decimal(reported).quantize(Decimal(1).scaleb(-max(map(digits_of, others))))


def digits_of(reported: Reported) -> int:
    """Return the number of decimals that a number is printed with."""
    exponent = reported.as_tuple().exponent if isinstance(reported, Decimal) else 0
    return -exponent if isinstance(exponent, int) and exponent < 0 else 0
