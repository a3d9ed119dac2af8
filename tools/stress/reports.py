"""Items 11 to 13: a report prints only what was measured."""

import csv
import io
import random
from fractions import Fraction
from typing import Any

from radii.reports.accuracies import accuracies, csv_text, latex
from radii.reports.inputs import Entry
from radii.reports.metrics import Summary, in_words
from radii.reports.page.notes import notes
from radii.reports.tables import markdown
from radii.reports.text import down, up
from radii.runs.certificates import Certificates, Row
from tools.stress.outcome import Effort, Outcome

RADII = (0.0, 0.1, 0.25, 0.3, 0.5, 0.75, 1.0)
DASHES = {"", "–", "--"}  # noqa: RUF001


def dashes(effort: Effort) -> Outcome:
    """Random certificate files of all certifiers as report.csv, Markdown and LaTeX: only radii that were tested may
    have a number, what follows from a larger radius must be marked as a bound, and the rest must be a dash; likewise
    ACR, clean accuracy and abstentions."""
    rng, wrong, cells = random.Random(effort.seed), [], 0
    for _ in range(files := effort.times(2_000, 100)):
        entry = _entry(rng)
        known = entry.summary.tested_radii
        (line,) = csv.DictReader(io.StringIO(csv_text([entry])))
        table = accuracies([entry])
        text = latex([entry])
        for radius, shown in zip(table.head[3:-1], table.rows[0][3:-1], strict=True):
            cells += 1
            wrong += _claims(entry, known, float(radius), shown.text)
            exact = known is None or float(radius) in known
            wrong += [] if bool(line[f"r{radius}"]) == exact else [f"report.csv, r{radius}"]
        wrong += _unknown(entry, line)
        wrong += ["a dash of the table that is missing in LaTeX"] * (_dashes(table.rows[0]) != _latex_dashes(text))
    return Outcome({"files": files, "cells of radii": cells}, {"numbers that were not measured": wrong})


def unlike(effort: Effort) -> Outcome:
    """Random pairs of certificate files that differ in certifier, budget, failure, images or seed, or have few images:
    the report must say so, and mark none of them as best."""
    rng, silent, bold = random.Random(effort.seed), [], []
    for _ in range(pairs := effort.times(2_000, 100)):
        change = rng.choice(list(CHANGES))
        made = _made(200, {"procedure": "fixed", "parameters": {"failure": 0.001, "estimation": 1000}, "seed": 0}, rng)
        entries = [_named("a", made), _named("b", CHANGES[change](made))]
        silent += [] if any(word in " ".join(notes(entries)) for word in WORDS[change]) else [change]
        marked = "**" in markdown(accuracies(entries)) or "textbf" in latex(entries)
        bold += [change] if marked and change != "seed" else []
    counts = {"pairs": pairs, "kinds of difference": len(CHANGES)}
    return Outcome(counts, {"differences that are not mentioned": silent, "bests across them": bold})


def rounding(effort: Effort) -> Outcome:
    """Printed shares and radii against exact fractions, in tables and in the summary line of a command: shares and
    radii are never rounded up, abstentions never down."""
    rng, wrong = random.Random(effort.seed), []
    for _ in range(numbers := effort.times(100_000, 2_000)):
        value, digits, shift = _number(rng), rng.randrange(7), rng.choice((0, 2))
        scaled = Fraction(repr(value)) * 10**shift
        lower, upper = Fraction(down(value, digits, shift)), Fraction(up(value, digits, shift))
        wrong += [] if lower <= scaled <= upper and upper - lower <= Fraction(1, 10**digits) else [repr(value)]
    for _ in range(lines := effort.times(2_000, 100)):
        entry = _entry(rng)
        share = in_words(entry.summary).partition(" images, ")[2].partition("%")[0]
        radius = (entry.summary.tested_radii or (0.0,))[0]
        hits = sum(row.correct and row.radius >= radius for row in entry.certificates.rows)
        exact = Fraction(100 * hits, len(entry.certificates.rows))
        wrong += [] if exact - Fraction(1, 10) < Fraction(share) <= exact else [in_words(entry.summary)]
    return Outcome({"numbers": numbers, "lines": lines}, {"rounded up": wrong})


def _headers(rng: random.Random) -> dict[str, Any]:
    radii = sorted(rng.sample(RADII, rng.randint(1, 4)))
    parameters = {
        "sequential": {"radii": radii, "failure": 0.001},
        "fixed": {"radius": rng.choice((None, *RADII)), "failure": 0.001},
        "planned": {"radius": None},
        "soft": {"radius": None},
        "prediction": {},
    }
    procedure = rng.choice(list(parameters))
    return {"procedure": procedure, "parameters": parameters[procedure], "sigma": 0.5}


def _made(images: int, header: dict[str, Any], rng: random.Random) -> Certificates:
    rows = [Row(number, number % 10, *_answer(number % 10, rng), 1.0) for number in range(images)]
    return Certificates("random", rows, header)


def _answer(label: int, rng: random.Random) -> tuple[int, float]:
    return rng.choice([(label, rng.choice(RADII)), (label, rng.random()), ((label + 1) % 10, 0.3), (-1, 0.0)])


def _entry(rng: random.Random) -> Entry:
    header, images = _headers(rng), rng.randint(1, 30)
    entry = _named("a", _made(images, header, rng))
    asked = entry.summary.tested_radii
    if asked is None:
        return entry
    # A certifier of some radii returns only those.
    rows = [_moved(row, max([r for r in asked if r <= row.radius], default=None)) for row in entry.certificates.rows]
    return _named("a", Certificates("random", rows, header))


def _moved(row: Row, radius: float | None) -> Row:
    if radius is None or row.prediction < 0:
        return Row(row.index, row.label, -1, 0.0, 1.0)
    return Row(row.index, row.label, row.prediction, radius, 1.0)


def _named(name: str, made: Certificates) -> Entry:
    return Entry(name, Summary(made))


def _claims(entry: Entry, asked: tuple[float, ...] | None, radius: float, text: str) -> list[str]:
    """Return what a cell states that does not follow from the rows."""
    hits = sum(row.correct and row.radius >= radius for row in entry.certificates.rows)
    value = text.removeprefix("≥ ")
    if asked is None or radius in asked:
        sound = value == text and text not in DASHES
    else:
        sound = text in DASHES if not hits else text.startswith("≥ ")
    if sound and value not in DASHES:
        sound = Fraction(value) <= Fraction(100 * hits, len(entry.certificates.rows))
    return [] if sound else [f"{text} at {radius} of {entry.certificates.header}"]


def _unknown(entry: Entry, line: dict[str, str]) -> list[str]:
    """Return cells of report.csv with a number that a certifier of some radii cannot know."""
    asked, known = entry.summary.tested_radii, entry.certificates.certifier == "sequential"
    wrong = [] if asked is None or not line["acr"] else ["acr"]
    wrong += ["clean"] if asked is not None and 0.0 not in asked and line["clean"] else []
    return wrong + (["abstained"] if line["abstained"] and (known or (asked is not None and 0.0 not in asked)) else [])


def _dashes(cells: Any) -> int:
    return sum(cell.text in DASHES for cell in cells)


def _latex_dashes(text: str) -> int:
    (line,) = [line for line in text.splitlines() if line.startswith("a & ")]
    return sum(cell.strip() == "--" for cell in line.removesuffix(r"\\").split("&"))


def _number(rng: random.Random) -> float:
    return rng.choice((rng.random(), rng.randint(0, 500) / rng.randint(500, 10_000), rng.random() * 4, 0.0, 1.0))


def _with(**header: Any) -> Any:
    return lambda made: Certificates("other", made.rows, {**made.header, **header})


CHANGES: dict[str, Any] = {
    "failure": _with(parameters={"failure": 0.01, "estimation": 1000}),
    "budget": _with(parameters={"failure": 0.001, "estimation": 2000}),
    "certifier": _with(procedure="soft"),
    "images": lambda made: Certificates("other", made.rows[:-1], made.header),
    "few images": lambda made: Certificates("other", made.rows[:3], made.header),
    "seed": _with(seed=1),
}
WORDS = {
    "failure": ["failure probabilities differ"],
    "budget": ["certifiers or their budgets differ"],
    "certifier": ["certifiers or their budgets differ"],
    "images": ["on different images"],
    "few images": ["on different images"],
    "seed": ["seeds differ"],
}
