"""The values of a row of a paper's table as measured here, over one or several seeds, each with its interval."""

import json
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from decimal import Decimal
from pathlib import Path
from statistics import fmean, stdev
from typing import NamedTuple

from radii.papers.table import PaperTable, Reported, Row
from radii.papers.table_corruptions import by_image, corrupted, interval, is_accuracy
from radii.papers.table_runs import Result, is_int8
from radii.reports import protocol
from radii.reports.corruptions import EXACT
from radii.reports.facts import EpochTime, epoch_time
from radii.reports.summary import CONFIDENCE, Summary
from radii.runs import certificates
from radii.runs.certificates import Certificates
from radii.runs.lineage import teachers
from radii.runs.run import Run

HOUR = 3600.0
OF_CERTIFICATION = ("procedure", "parameters", "noise", "every", "most", "images", "split", "label_known")
"""The fields of a header that say how certificates were made, but for the seeds."""


class Measured(NamedTuple):
    """A value, its deviation over seeds where there are several, and its 95 % interval where it has one."""

    value: float
    deviation: float | None = None
    interval: tuple[float, float] | None = None
    exact: bool = True
    """Whether it is the value itself, not a lower bound."""


class Difference(NamedTuple):
    """A value here minus the reported one, with the interval of the former and the rounding of the latter."""

    value: float
    interval: tuple[float, float] | None


def groups(table: PaperTable, results: Iterable[Result]) -> list[list[Result]]:
    """The results that differ in the seed of training alone, together; of corruptions, the kinds of one training."""
    found: dict[str, list[Result]] = {}
    for result in results:
        if table.kind != "corruptions":
            found.setdefault(_made(result), []).append(result)
        elif result.complete:  # a kind of fewer images has no part in a mean
            found.setdefault(_of_kinds(result), []).append(result)
    return list(map(_one_of_each_kind if table.kind == "corruptions" else _one_of_each_seed, found.values()))


def _of_kinds(result: Result) -> str:
    """What the files of all kinds of one training share: the weights, and how they were certified."""
    header = result.certificates.header if result.certificates else {}
    place = result.source if result.run else str(Path(result.source).parent)
    stated = {key: header.get(key) for key in (*OF_CERTIFICATION, "seed")}
    int8 = result.certificates is not None and is_int8(result.certificates)
    return json.dumps([header.get("weights", place), stated, int8, result.budget, result.remark], sort_keys=True)


def _one_of_each_kind(group: list[Result]) -> list[Result]:
    """A kind that was certified by two engines, or that lies in two folders, is one."""
    found = {}
    for result in group:
        header = result.certificates.header if result.certificates else {}
        stated = header.get("evaluated_on", {"file": result.source})
        found[json.dumps(stated, sort_keys=True)] = result
    return list(found.values())


def _one_of_each_seed(group: list[Result]) -> list[Result]:
    """A training that lies in two folders is one."""
    return list({result.seed: result for result in group}.values()) if group[0].recipe else group


def _made(result: Result) -> str:
    """How a result was made, but for the seeds."""
    made, recipe = result.certificates, result.recipe
    header = dict(made.header) if made else {}
    stated: dict[str, object] = (
        {key: header.get(key) for key in OF_CERTIFICATION} if recipe else {"file": result.source}
    )
    # Engines give the same function but for rounding, and `auto` takes the fastest; int8 is another function.
    stated["rows"] = len(made.rows) if made else None  # a file that is not complete is of other images
    stated["int8"] = made is not None and is_int8(made)
    training = {**asdict(recipe), "seed": 0, "dataset": recipe.dataset["name"]} if recipe else {}
    return json.dumps([stated, training, result.remark], sort_keys=True)


def value(table: PaperTable, column: str, group: Sequence[Result], baseline: Sequence[Result] = ()) -> Measured | None:
    """The value of a column for results of one row that differ in their seeds alone; none where it is unknown.

    `baseline` are the results of what a slow-down is relative to.
    """
    if table.kind == "corruptions":
        return _corrupted(table, column, group)
    if column == "teacher_acr":
        return _over_seeds([_acr(Summary(each)) if each else None for each in map(_teacher, group)])
    if column == "slowdown_factor":
        return _slowdown(group, baseline)
    if column in ("acr", "acr_mean"):
        return _over_seeds([_acr(each) for each in _summaries(group)])
    if column == "acr_std":
        return _deviation([each.acr for each in _summaries(group)])
    if (radius := radius_of(column)) is not None:
        return _over_seeds([_accuracy(each, radius) for each in _summaries(group)], most=1.0)
    times = [measured for each in group if each.run and (measured := epoch_time(each.run))]
    return _time(column, times, group, table) if times else None


def radius_of(column: str) -> float | None:
    """The radius that a column of certified accuracies is about."""
    return float(column[1:]) if column[:1] == "r" and column[1:].replace(".", "", 1).isdecimal() else None


def _corrupted(table: PaperTable, column: str, group: Sequence[Result]) -> Measured | None:
    if (found := corrupted(table, column, group)) is None:
        return None
    if is_accuracy(table, column):
        return Measured(found.value, None, interval(table, column, group), found.exact)
    margin = _margin(by_image(table, column, group)) if found.exact else None
    return Measured(found.value, None, _around(found.value, margin), found.exact)


def _summaries(group: Sequence[Result]) -> list[Summary]:
    return [Summary(each.certificates) for each in group if each.certificates]


def _acr(each: Summary) -> Measured | None:
    if (known := each.known_acr) is None:
        return None
    margin = _margin([row.radius if row.correct else 0.0 for row in each.certificates.rows])
    interval = (max(0.0, known.value - margin), known.value + margin) if known.exact and margin is not None else None
    return Measured(known.value, None, interval, known.exact)


def _accuracy(each: Summary, radius: float) -> Measured | None:
    if (known := each.known(radius)) is None:
        return None
    return Measured(known.value, None, each.interval(radius) if known.exact else None, known.exact)


def _deviation(values: Sequence[float]) -> Measured | None:
    return Measured(stdev(values)) if len(values) > 1 else None


def _over_seeds(found: Sequence[Measured | None], most: float = math.inf) -> Measured | None:
    """The mean; its interval has the choice of images, as wide as for one seed, and the choice of seeds.

    It ends at 0 and at `most`, which no value is above.
    """
    known = [each for each in found if each is not None]
    if not known or len(known) < len(found):
        return None
    if len(known) == 1:
        return known[0]
    mean, seeds = fmean(each.value for each in known), _margin([each.value for each in known])
    ends = [each.interval for each in known if each.interval]
    below = mean - fmean(low for low, _ in ends) if ends else 0.0
    above = fmean(high for _, high in ends) - mean if ends else 0.0
    low, high = mean - math.hypot(below, seeds or 0.0), mean + math.hypot(above, seeds or 0.0)
    exact = all(each.exact for each in known)
    return Measured(
        mean, stdev(each.value for each in known), (max(0.0, low), min(most, high)) if exact else None, exact
    )


def _margin(values: Sequence[float]) -> float | None:
    """Half the 95 % interval of a mean; none of a single value, or of equal ones, which do not show how they vary."""
    if len(values) < 2 or not stdev(values):
        return None
    from scipy.special import stdtrit

    count = len(values)
    return float(stdtrit(count - 1, (1 + CONFIDENCE) / 2)) * stdev(values) / math.sqrt(count)


def _time(column: str, times: Sequence[EpochTime], group: Sequence[Result], table: PaperTable) -> Measured | None:
    seconds = fmean(each.seconds for each in times)
    margin = times[0].margin if len(times) == 1 else _margin([each.seconds for each in times])
    found: dict[str, Callable[[], Measured | None]] = {
        "epoch_time_s": lambda: Measured(seconds, None, _around(seconds, margin)),
        "sec_per_epoch": lambda: Measured(seconds, None, _around(seconds, margin)),
        "epoch_time_ci95_s": lambda: None if margin is None else Measured(margin),
        "epochs": lambda: Measured(fmean(each.epochs for each in times)),
        "total_time_h": lambda: _total(group, table),
        "total_hours": lambda: _total(group, table),
    }
    return found[column]() if column in found else None


def _slowdown(group: Sequence[Result], baseline: Sequence[Result]) -> Measured | None:
    mine, theirs = (
        [measured.seconds for each in some if each.run and (measured := epoch_time(each.run))]
        for some in (group, baseline)
    )
    return Measured(fmean(mine) / fmean(theirs)) if mine and theirs else None


def _teacher(result: Result) -> Certificates | None:
    """The certificates of a student's teacher that were made as the student's."""
    path, made = result.run.source("teacher") if result.run else None, result.certificates
    if path is None or made is None:
        return None
    found = [certificates.read(file) for file in sorted(Run(path).certificates.glob("*.tsv"))]
    return next((each for each in found if each.sigma == made.sigma and not protocol.differences([each, made])), None)


def _around(middle: float, margin: float | None) -> tuple[float, float] | None:
    return None if margin is None else (max(0.0, middle - margin), middle + margin)


def _total(group: Sequence[Result], table: PaperTable) -> Measured | None:
    totals = [hours(each.run, taught=table.teacher_time) for each in group if each.run]
    known = [each for each in totals if each is not None]
    return Measured(fmean(known)) if known and len(known) == len(totals) else None


def hours(run: Run, *, taught: bool) -> float | None:
    """The hours that a run trained, with those of its teachers if `taught`; none where a time is unknown."""
    times = [epoch_time(each) for each in (run, *(teachers(run) if taught else ()))]
    known = [each.total for each in times if each is not None]
    return sum(known) / HOUR if len(known) == len(times) else None


def shift_of(table: PaperTable, column: str) -> int:
    """By how many digits the table prints a column larger than it is measured: 2 for shares in per cent."""
    if table.kind == "corruptions":
        return 2 if is_accuracy(table, column) else 0
    return 2 if table.percent and radius_of(column) is not None else 0


def difference(found: Measured, reported: Reported, shift: int = 0) -> Difference | None:
    """What was measured minus what is reported, as far as both are numbers; `shift` is that of the column."""
    if isinstance(reported, str) or not found.exact:
        return None
    printed, half = float(Decimal(reported).scaleb(-shift)), 0.5 * 10.0 ** -(digits_of(reported) + shift)
    gap = round(found.value - printed, EXACT)
    if found.interval is None:
        return Difference(gap, None)
    low, high = found.interval
    return Difference(gap, (low - printed - half, high - printed + half))


def as_precise(row: Row, column: str) -> Reported | None:
    """A reported cell, a whole accuracy with as many digits as the others of its row: the 0 of MACER is a 0.00."""
    reported = row.reported.get(column)
    if not isinstance(reported, int) or radius_of(column) is None:
        return reported
    others = [value for name, value in row.reported.items() if radius_of(name) is not None]
    return Decimal(reported).quantize(Decimal(1).scaleb(-max(map(digits_of, others))))


def digits_of(reported: Reported) -> int:
    """How many decimals a number is printed with."""
    exponent = reported.as_tuple().exponent if isinstance(reported, Decimal) else 0
    return -exponent if isinstance(exponent, int) and exponent < 0 else 0
