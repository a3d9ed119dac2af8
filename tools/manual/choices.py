"""What "How to choose" says in numbers: from results/, docs/performance.md, the papers' tables and published logs."""

import csv
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

import numpy as np

from benchmarks.archive import Archive
from benchmarks.sample_cost import (
    NOISE,
    SAMPLES,
    Numbers,
    fixed_accuracy,
    label_probabilities,
    published_logs,
    simulate,
)
from radii.certifiers.fixed import Fixed
from radii.certifiers.planned import PILOT_ERROR, Planned, plan
from radii.certifiers.prediction import Prediction
from radii.certifiers.sequential import Sequential
from radii.reports.text import down, up
from radii.smoothing.bounds import binomial_lower, binomial_upper

ROOT = Path(__file__).parents[2]
SIGMAS = ("0.25", "0.50", "1.00")
RADII = tuple(f"r{number / 4:.2f}" for number in range(10))
SHARE = 1 / 3
"""The rule: the smallest sigma that is at least this share of the wanted radius."""
CAPS = (100_000, 30_000, 10_000, 3_000)
TARGETS = (0.25, 0.5)
METHODS = "mnist/six-epochs"
NAMES = {"smoothmix-to-lenet": "transfer from SmoothMix", "smoothadv": "SmoothAdv", "smoothmix": "SmoothMix"}
NAMES |= {"gaussian": "Gaussian", "stability": "Stability", "consistency": "Consistency"}
NAMES |= {"macer": "MACER", "catrs": "CAT-RS"}


class Method(NamedTuple):
    """A run: what it reached and what an epoch of it takes."""

    name: str
    acr: float
    seconds: float


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [head, ["---"] * len(head), *rows])


@cache
def published() -> dict[tuple[str, str], dict[str, dict[str, float]]]:
    """Return certified accuracy in per cent by dataset and method, sigma, and radius, as the papers print it."""
    found: dict[tuple[str, str], dict[str, dict[str, float]]] = {}
    with (ROOT / "docs" / "data" / "sigma.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            shares = {radius: float(row[radius]) for radius in RADII if row[radius]}
            found.setdefault((row["dataset"], row["method"]), {})[row["sigma"]] = shares
    return found


def sigma_for(radius: float) -> str:
    """Return the sigma that the rule takes, of those that were published."""
    return next((sigma for sigma in SIGMAS if float(sigma) >= SHARE * radius - 1e-9), SIGMAS[-1])


def sigma_table() -> str:
    """Return certified accuracy of Gaussian training at each radius, the best sigma in bold."""
    rows = []
    for (dataset, method), by_sigma in published().items():
        if method == "Gaussian":
            rows += [_sigma_row(dataset, sigma, by_sigma) for sigma in SIGMAS]
    return table(["dataset", "sigma", *(radius[1:] for radius in RADII)], rows)


def _sigma_row(dataset: str, sigma: str, by_sigma: dict[str, dict[str, float]]) -> list[str]:
    cells = []
    for radius in RADII:
        shares = {each: by_sigma[each].get(radius) for each in SIGMAS}
        share = shares[sigma]
        best = max(value for value in shares.values() if value is not None) if share is not None else None
        cells.append("" if share is None else f"**{share:g}**" if share == best and share else f"{share:g}")
    return [dataset, sigma, *cells]


def losses() -> list[float]:
    """Return the points that the rule loses against the best sigma, for every dataset, method and radius above 0."""
    return [
        round(max(shares) - by_sigma[sigma_for(float(radius[1:]))][radius], 1)
        for by_sigma in published().values()
        for radius in RADII[1:]
        if radius in by_sigma[SIGMAS[0]] and max(shares := [by_sigma[sigma][radius] for sigma in SIGMAS])
    ]


def rule() -> str:
    """Describe in a sentence what the rule costs."""
    lost = losses()
    kept = sum(value == 0 for value in lost)
    return (
        f"Over {len(lost)} combinations of four datasets, three methods and the radii above, it takes the best of the\n"
        f"three sigmas in {kept}, and loses {up(fmean(lost), 1)} points of certified accuracy on average, "
        f"{up(max(lost), 1)} at worst."
    )


@cache
def probabilities() -> tuple[Numbers, ...]:
    """Return the probability of every image's label in the published logs; RADII_LOGS names their folder."""
    rng = np.random.default_rng(0)
    return tuple(label_probabilities(path, rng) for path in published_logs())


def cap_table() -> str:
    """Return what fewer samples per image cost `sequential`, on the published logs."""
    rng, rows = np.random.default_rng(1), []
    for cap in CAPS:
        found = [_capped(radius, cap, rng) for radius in TARGETS]
        cells = [cell for samples, lost in found for cell in (f"{samples:,.0f}", f"{max(lost, 0.0):.1f}")]
        rows.append([f"{cap:,}", *cells])
    return table(["`most_samples`", "samples at 0.25", "points lost", "samples at 0.5", "points lost"], rows)


def _capped(radius: float, cap: int, rng: np.random.Generator) -> tuple[float, float]:
    """Return the mean samples, and the certified accuracy lost against 100,000 samples for every image."""
    tests = Sequential(radii=(radius,), most_samples=cap).tests(NOISE)
    samples, accuracies, fixed = [], [], []
    for shares in probabilities():
        proven, spent = simulate(tests, shares, rng)
        samples.append(spent.mean())
        accuracies.append(np.mean(proven > 0))
        fixed.append(fixed_accuracy(shares, radius, 0.001))
    return float(np.mean(samples)), 100 * float(np.mean(fixed) - np.mean(accuracies))


def planned_table() -> str:
    """Return what `planned` takes and keeps, against 100,000 samples for every image."""
    rng, rows = np.random.default_rng(2), []
    for tolerance in (0.005, 0.01, 0.05):
        samples, kept = _planned(tolerance, rng)
        rows.append([f"{tolerance:g}", f"{samples:,.0f}", f"{down(kept, 1, 2)} %"])
    return table(["`tolerance`", "mean samples", "share of the ACR that is kept"], rows)


def _planned(tolerance: float, rng: np.random.Generator) -> tuple[float, float]:
    shares = np.concatenate([each[rng.choice(len(each), 400, replace=False)] for each in probabilities()])
    certifier, found = Planned(tolerance=tolerance), [(0.0, 0.0)] * len(shares)
    for number, share in enumerate(shares):
        found[number] = _planned_image(certifier, float(share), rng)
    whole = np.array([_radius(rng.binomial(SAMPLES, share), SAMPLES) for share in shares])
    return float(np.mean([spent for spent, _ in found])), float(np.mean([gain for _, gain in found]) / whole.mean())


def _planned_image(certifier: Planned, share: float, rng: np.random.Generator) -> tuple[float, float]:
    hits = int(rng.binomial(certifier.pilot, share))
    interval = tuple(bound(hits, certifier.pilot, PILOT_ERROR) for bound in (binomial_lower, binomial_upper))
    samples = plan(NOISE, interval, certifier.tolerance, certifier.most_samples, certifier.failure)
    return certifier.pilot + samples, _radius(rng.binomial(samples, share), samples) if samples else 0.0


def _radius(hits: int, samples: int) -> float:
    return max(0.0, float(NOISE.radius(binomial_lower(int(hits), samples, 0.001))))


@cache
def methods() -> list[Method]:
    """Return the runs of one budget with all methods, the cheapest first; an epoch's seconds are those of the
    benchmark."""
    archive = Archive(ROOT)
    speeds = archive.speeds("MNIST, LeNet")
    found = []
    for key, name in NAMES.items():
        row = speeds["transfer" if key.startswith("smoothmix-to") else key]
        found.append(Method(name, archive.summary(f"{METHODS}/{key}").acr, float(row["seconds per epoch"])))
    return sorted(found, key=lambda method: method.seconds)


def method_table() -> str:
    first = methods()[0].seconds
    rows = [[each.name, down(each.acr, 3), f"{each.seconds:.1f}", f"{each.seconds / first:.1f}"] for each in methods()]
    return table(["method", "ACR after six epochs", "seconds per epoch", "over Gaussian"], rows)


def engine_table() -> str:
    """Return samples per second of every engine, from docs/performance.md."""
    rows = _speeds()
    return table(["model", "engine", "samples per second", "over a plain loop"], rows)


def _speeds() -> list[list[str]]:
    page = (ROOT / "docs" / "performance.md").read_text()
    lines = page.partition("## scripts/bench certification")[2].partition("\n## ")[0].splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.count("|") == 7]
    return [[row[0], f"`{row[1]}`", row[2], row[4]] for row in cells[2:] if row[1] not in ("plain loop", "art")]


def costs() -> dict[str, str]:
    """Return the samples per image of each certifier: its own number, or the mean that was measured."""
    measured = _second_cells(ROOT / "docs" / "performance.md") | _second_cells(ROOT / "docs" / "choosing.md")
    fixed = Fixed()
    return {
        "prediction": f"{Prediction().samples:,}",
        "one": measured["radius 0.5"],
        "grid": measured["grid to 1.75"],
        "planned": measured["0.01"],
        "fixed": f"{fixed.selection + fixed.estimation:,}",
    }


def _second_cells(page: Path) -> dict[str, str]:
    """Return the second cell of every row of a page's tables, by the first."""
    rows = [line.split("|") for line in page.read_text().splitlines() if line.startswith("|")]
    return {row[1].strip(): row[2].strip() for row in rows if len(row) > 3}
