"""The model card of a run: certified accuracy as plain data, for exports and `radii show --json`, and as Markdown."""

from collections.abc import Mapping, Sequence
from typing import Any

from radii.reports import population, tables
from radii.reports.accuracies import accuracies
from radii.reports.attacks import in_words
from radii.reports.costs import answer_cost, check_in_words
from radii.reports.inputs import Entry, present_attacks, present_certificates
from radii.reports.metrics import Summary, radii_of, without_noise
from radii.reports.protocol import describe_certifier, describe_images, describe_noise, label_known, norm_names
from radii.reports.tables import text_table
from radii.reports.text import UNKNOWN, markdown_text, rounded_down
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


def certified(run: Run) -> list[dict[str, Any]]:
    """Describe every certificate file of a run's present weights with `describe`."""
    files = present_certificates(run)
    return [describe(file, files, run) for file in files]


def describe(file: Certificates, others: Sequence[Certificates] = (), run: Run | None = None) -> dict[str, Any]:
    """Return how a certificate file was made, and its certified accuracy at the tested radii, rounded down.

    The average certified radius is None if only some radii were tested; then `average_certified_radius_at_least` is
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
        "certified_accuracy": {f"{radius:g}": rounded_down(summary.at(radius).value) for radius in radii},
        "smoothed_accuracy": rounded_down(summary.clean.value) if summary.decided(0.0) else None,
        "without_noise": plain_accuracy(run) if run and not header.get("evaluated_on") else None,
        "answer": cost and cost._asdict(),
        "average_certified_radius": rounded_down(acr.value) if acr and acr.exact else None,
        "average_certified_radius_at_least": rounded_down(acr.value) if acr else None,
    }


def plain_accuracy(run: Run) -> dict[str, Any] | None:
    """Return the accuracy of the network alone, without noise; None if it was not measured."""
    share = without_noise(run)
    return None if share is None else {"accuracy": rounded_down(share.value), "images": share.images}


def markdown(run: Run, repository: str, noise: Mapping[str, Any]) -> str:
    """Write the model card of a run for the hub: the noise to use it with, what was certified and how."""
    code = [name for name in run.recipe.names() if module_of(name)]
    trust = f", trust=[{module_of(code[0])!r}]" if code else ""
    sections = [
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
    return "\n\n".join(filter(None, sections)) + "\n"


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
    return tables.markdown(text_table(["", ""], [(key, text) for key, text in fields.items() if text])).strip()


def _certified_text(run: Run) -> str:
    """Return the table of the present weights' certificates, how they were made, and the attacks on them."""
    files = present_certificates(run)
    if not files:
        return "Nothing was certified yet."
    intro = (
        f"Per cent of all images whose answer is right and certified at each radius ({norm_names(files)}, pixels in "
        "[0, 1]), rounded down; abstentions count as errors. ACR is the average certified radius."
    )
    table = accuracies([Entry(file.name, Summary(file)) for file in files])
    notes = [*map(_how, files), *(f"Attacked: {in_words(attack)}." for attack in present_attacks(run).values())]
    listed = "\n".join(f"- {markdown_text(note)}" for note in notes)
    return f"{intro}\n\n{tables.markdown(table).strip()}\n\n{listed}"


def _population_text(run: Run) -> str:
    """Return the section about answers by one noisy pass each; empty if nothing is proven about them."""
    proofs = [(run.recipe.model["name"], proof) for proof in population.present_proofs(run) if proof.proven]
    if not proofs:
        return ""
    return f"## {population.TITLE}\n\n{population.CAPTION}\n\n{tables.markdown(population.table(proofs)).strip()}"


def _how(file: Certificates) -> str:
    """Describe how a certificate file was made, in one line."""
    known = (describe_images(file), describe_certifier(file), describe_noise(file))
    return f"{file.name}: {'; '.join(text for text in known if text != UNKNOWN)}."
