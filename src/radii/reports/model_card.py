"""The model card of a run: certified accuracy as plain data, for exports and `radii show --json`, and as Markdown."""

from collections.abc import Mapping, Sequence
from typing import Any

from radii.reports import population, tables
from radii.reports.accuracies import accuracies
from radii.reports.attacks import in_words
from radii.reports.costs import answer_cost, check_in_words, without_noise
from radii.reports.inputs import Entry, begun_files
from radii.reports.metrics import Summary, radii_of
from radii.reports.protocol import describe_certifier, describe_images, describe_noise, label_known, norm_names
from radii.reports.tables import Cell, Table
from radii.reports.text import UNKNOWN, down, markdown_text
from radii.runs import attacks, certificates
from radii.runs.certificates import Certificates
from radii.runs.repeats import repeats
from radii.runs.run import Run
from radii.runs.trust import module_of

FRONT = """---
library_name: radii
pipeline_tag: image-classification
tags:
- certified-robustness
- randomized-smoothing
---
"""
"""The metadata that the hub reads. The owner states the licence."""
MEANING = (
    "A certificate is about the smoothed classifier: no change of an image smaller than its radius changes the answer, "
    "except with the failure probability of the certifier. It says nothing about larger changes, about other "
    "kinds of change, or about images of other data. Never predict from one pass without noise."
)
DIGITS = 4


def certified(run: Run) -> list[dict[str, Any]]:
    """Describe every certificate file of the run's present weights with `describe`."""
    weights = run.weights_digest()
    files = [certificates.read(path) for path in begun_files(run)]
    return [describe(file, files, run) for file in files if file.header.get("weights") == weights]


def describe(file: Certificates, others: Sequence[Certificates] = (), run: Run | None = None) -> dict[str, Any]:
    """Return how a certificate file was made, and the certified accuracy at the radii that were tested, rounded down.

    The average certified radius is null if only some radii were tested; then `average_certified_radius_at_least` is
    a lower bound. `other_settings` counts the ways in which `others` certified the same images and weights.
    `without_noise` is the network's own accuracy, if it was measured in `run`; `answer` is the mean cost of an answer.
    """
    summary, header = Summary(file), file.header
    radii = radii_of([summary]) if summary.tested_radii is None else summary.tested_radii
    acr, cost = summary.known_acr, answer_cost(summary)
    return {
        "certificates": file.name,
        "certifier": file.certifier,
        "parameters": dict(file.parameters),
        "noise": header.get("noise"),
        "norm": None if file.norm is None else file.norm.name,
        "engine": header.get("engine"),
        "dataset": header.get("dataset"),
        "split": header.get("split", "test"),
        "evaluated_on": header.get("evaluated_on"),
        "label_known": None if file.certifier is None else label_known(file),
        "images": summary.images,
        "other_settings": len(repeats(file, others)),
        "certified_accuracy": {f"{radius:g}": _down(summary.at(radius).value) for radius in radii},
        "smoothed_accuracy": _down(summary.clean.value) if summary.decided(0.0) else None,
        "without_noise": plain_accuracy(run) if run and not header.get("evaluated_on") else None,
        "answer": None if cost is None else {"copies": cost.copies, "milliseconds": cost.milliseconds},
        "average_certified_radius": _down(acr.value) if acr and acr.exact else None,
        "average_certified_radius_at_least": _down(acr.value) if acr else None,
    }


def plain_accuracy(run: Run) -> dict[str, Any] | None:
    """Return the accuracy of the network alone, without noise; None if it was not measured."""
    share = without_noise(run)
    return None if share is None else {"accuracy": _down(share.value), "images": share.images}


def markdown(run: Run, repository: str, noise: Mapping[str, Any]) -> str:
    """Write the card of a run for the hub: what it is, the noise to use it with, what was certified and how."""
    code = [name for name in run.recipe.names() if module_of(name)]
    trust = f", trust=[{module_of(code[0])!r}]" if code else ""
    parts = [
        f"{FRONT}\n# {markdown_text(repository.rpartition('/')[2])}",
        f"An image classifier to be used under {_noise_words(noise)} (pixels in [0, 1]), with certified radii. "
        "Made by radii.",
        _training_table(run),
        f"## Use\n\n```sh\nradii pull hf://{repository} --run runs/pulled\nradii verify runs/pulled\n```\n\n"
        f'```python\nimport radii\n\nsmoothed = radii.load("runs/pulled"{trust})\n'
        "radii.predict(smoothed, image)  # pixels in [0, 1], [channel, height, width]\n```",
        f"The recipe names code that is not in this repository: {', '.join(f'`{name}`' for name in code)}."
        if code
        else "",
        f"## Certified accuracy\n\n{_certified_text(run)}",
        _population_text(run),
        f"## What this means\n\n{MEANING}",
    ]
    return "\n\n".join(filter(None, parts)) + "\n"


def _noise_words(noise: Mapping[str, Any]) -> str:
    if noise["name"] == "gaussian":
        return f"Gaussian noise of deviation {noise['sigma']:g}"
    fields = ", ".join(f"{key} {value}" for key, value in noise.items() if key != "name")
    return markdown_text(f"the noise {noise['name']}{f' of {fields}' if fields else ''}")


def _training_table(run: Run) -> str:
    """Return how the model was trained, as a Markdown table."""
    dataset, *model, objective = run.recipe.names()
    names, rows = run.class_names(), run.history()
    fields = {
        "Dataset": dataset,
        "Model": ", ".join(model),
        "Objective": objective,
        "Classes": f"{len(names)}: {', '.join(names)}" if names else "",
        "Epochs": str(len(rows)) if rows else "",
        "Without noise": check_in_words(run.check()) if run.check() else "",
        "Weights, SHA-256": run.weights_digest(),
    }
    return tables.markdown(Table(["", ""], [[Cell(key), Cell(text)] for key, text in fields.items() if text])).strip()


def _certified_text(run: Run) -> str:
    """Return the accuracies of every certificate file of the present weights, how they were made, and the attacks."""
    weights = run.weights_digest()
    files = [certificates.read(path) for path in begun_files(run)]
    entries = [Entry(file.name, Summary(file)) for file in files if file.header.get("weights") == weights]
    if not entries:
        return "Nothing was certified yet."
    norms = norm_names([entry.certificates for entry in entries])
    intro = (
        f"Per cent of all images whose answer is right and certified at each radius ({norms}, pixels in [0, 1]), "
        "rounded down; abstentions count as errors. ACR is the average certified radius."
    )
    attacked = [
        attack for attack in attacks.read_all(run).values() if attack.header["weights"] == weights and attack.rows
    ]
    notes = [_how(entry.certificates) for entry in entries] + [f"Attacked: {in_words(attack)}." for attack in attacked]
    listed = "\n".join(f"- {markdown_text(note)}" for note in notes)
    return f"{intro}\n\n{tables.markdown(accuracies(entries)).strip()}\n\n{listed}"


def _population_text(run: Run) -> str:
    """Return what is proven about answers by one noisy pass each; empty if nothing is."""
    proofs = population.of_runs([(run.recipe.model["name"], run)])
    own = [(name, proof) for name, proof in proofs if proof.header.get("weights") == run.weights_digest()]
    if not own:
        return ""
    return f"## {population.TITLE}\n\n{population.CAPTION}\n\n{tables.markdown(population.table(own)).strip()}"


def _how(file: Certificates) -> str:
    """Describe how a certificate file was made, in one line."""
    known = (describe_images(file), describe_certifier(file), describe_noise(file))
    return f"{file.name}: {'; '.join(text for text in known if text != UNKNOWN)}."


def _down(value: float) -> float:
    return float(down(value, DIGITS))
