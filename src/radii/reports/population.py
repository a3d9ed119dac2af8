"""Proofs about a population, apart from certificates of images: as sentences, as data and as a table."""

from collections.abc import Sequence
from typing import Any

from radii.reports.inputs import is_present
from radii.reports.protocol import describe_images, evaluated_on, norm_name
from radii.reports.tables import Table, text_table
from radii.reports.text import UNKNOWN, down, radius_text, rounded_down
from radii.runs.certificates import Certificates
from radii.runs.population import Population, read
from radii.runs.population import files as population_files
from radii.runs.repeats import repeats
from radii.runs.run import Run
from radii.smoothing.norms import L2

LIMITS = (
    "nothing is promised about one picture, nor to somebody who may ask again and again, nor about pictures of another "
    "kind than these"
)
TITLE = "One noisy pass a request"
CAPTION = (
    "Each request is answered by one noisy pass with fresh, secret noise. Of pictures like these, at least the proven "
    "share is answered rightly under any change of that length that does not know the noise of the request; "
    f"{LIMITS}. The failure probability is of all lengths of a file together. These numbers do not compare with the "
    "certified accuracy of votes."
)


def in_words(population: Population) -> list[str]:
    """Return sentences on what is proven at every radius, and on what is not promised."""
    if not population.proven:
        return [f"nothing is proven yet: {population.missing} images have no votes"]
    norm = norm_name(population.certificates)
    proven = [
        f"of pictures like these, one noisy pass a request answers at least {down(accuracy, 1, 2)} % rightly under any "
        f"change of {norm} length up to {radius_text(radius)} that does not know the noise of the request"
        for radius, accuracy in population.proven.items()
    ]
    together = " for all radii together" if len(population.radii) > 1 else ""
    settings = (
        f"failure {population.failure:g}{together}; {describe_images(population.certificates)}, "
        f"{population.votes} votes each; {down(population.accuracy, 1, 2)} % of the votes are right without an attack"
    )
    return [*proven, f"{settings}; {LIMITS}"]


def describe(population: Population, others: Sequence[Certificates] = ()) -> dict[str, Any]:
    """Return what is proven as plain data, rounded down, for exports and JSON."""
    header = population.header
    return {
        "population": population.certificates.name,
        "proven_one_pass_accuracy": {
            f"{radius:g}": rounded_down(accuracy) for radius, accuracy in population.proven.items()
        },
        "failure": population.failure,
        "one_pass_accuracy_without_attack": rounded_down(population.accuracy),
        "images": population.images,
        "missing": population.missing,
        "votes": population.votes,
        "noise": header.get("noise"),
        "norm": norm_name(population.certificates),
        "engine": header.get("engine"),
        "dataset": header.get("dataset"),
        "split": header.get("split", "test"),
        "evaluated_on": header.get("evaluated_on"),
        "other_settings": len(repeats(population.certificates, others)),
        "limits": LIMITS,
    }


def proven(run: Run) -> list[dict[str, Any]]:
    """Describe the finished proofs about a population for the present weights of a run with `describe`."""
    own = present_proofs(run)
    return [describe(proof, [other.certificates for other in own]) for proof in own if proof.proven]


def present_proofs(run: Run) -> list[Population]:
    """Read the proofs about a population for the present function of a run."""
    return [file for file in map(read, population_files(run)) if is_present(run, file.header)]


def of_runs(runs: Sequence[tuple[str, Run]]) -> list[tuple[str, Population]]:
    """Return the finished proofs about a population in runs, each with a name that says which run and weights."""
    named = []
    for name, run in runs:
        for file in map(read, population_files(run)):
            old = run.finished and not is_present(run, file.header)
            if file.proven:
                marks = [evaluated_on(file.certificates), "of a function that the run no longer is" if old else ""]
                named.append((f"{name} ({words})" if (words := ", ".join(filter(None, marks))) else name, file))
    return named


def _length(radius: float, population: Population) -> str:
    norm = norm_name(population.certificates)
    return radius_text(radius) if norm == L2.name else f"{radius_text(radius)} ({norm})"


def table(populations: Sequence[tuple[str, Population]]) -> Table:
    """Return a table with a row for every proof and radius."""
    head = ("Run", "Length", "Proven, %", "Without attack, %", "Failure", "Images and votes", "Engine")
    rows = [
        (
            name,
            _length(radius, population),
            down(accuracy, 1, 2),
            down(population.accuracy, 1, 2),
            f"{population.failure:g}",
            f"{population.images:,} × {population.votes}",  # noqa: RUF001
            str(population.header.get("engine", UNKNOWN)),
        )
        for name, population in populations
        for radius, accuracy in population.proven.items()
    ]
    return text_table(head, rows)
