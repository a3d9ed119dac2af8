"""The details of a report, how its numbers were computed: images, certifier, engine, weights, cost and training."""

import math
from collections.abc import Sequence

from radii.reports import protocol
from radii.reports.costs import share_in_words
from radii.reports.inputs import Entry, ReportedRun
from radii.reports.tables import Table, text_table
from radii.reports.text import UNKNOWN, duration

MOST_COLUMNS = 4
"""The most inputs shown as columns; more are shown as rows."""
SHARED = "The same for all inputs"
COMPUTED = "How these numbers were computed"
TRAINING = ("Dataset", "Model", "Objective", "Classes", "Epochs", "Time per epoch", "Training time")


def details(entry: Entry) -> dict[str, str]:
    """Return the details of one input by title, with a dash for what is not recorded."""
    certificates, summary, alone = entry.certificates, entry.summary, entry.without_noise
    samples = summary.samples
    return {
        "Right without noise": UNKNOWN if alone is None else f"{share_in_words(alone)} of {alone.images:,} images",
        "Images": protocol.describe_images(certificates),
        "Certifier": protocol.describe_certifier(certificates),
        "Noise": protocol.describe_noise(certificates),
        "Label": "known, and tested directly" if protocol.label_known(certificates) else UNKNOWN,
        "Engine": str(certificates.header.get("engine", UNKNOWN)),
        "Seed": str(certificates.header.get("seed", UNKNOWN)),
        "Weights": entry.weights or UNKNOWN,
        "Samples per image": UNKNOWN if samples is None else f"{math.ceil(samples / summary.images):,}",
        "Samples in all": UNKNOWN if samples is None else f"{samples:,}",
        "Time per image": duration(summary.seconds / summary.images),
        "Certification time": duration(summary.seconds),
        **dict.fromkeys(TRAINING, UNKNOWN),
        **(_training(entry.run) if entry.run and entry.own else {}),
    }


def _training(run: ReportedRun) -> dict[str, str]:
    dataset, *model, objective = run.recipe.names()
    names, measured = run.class_names(), run.epoch_time
    known = {"Dataset": dataset, "Model": ", ".join(model), "Objective": objective}
    if names:
        known["Classes"] = f"{len(names)}: {', '.join(names)}"
    if measured:
        known["Epochs"] = f"{measured.epochs:,}"
        known["Time per epoch"] = str(measured)
        known["Training time"] = duration(measured.total)
    return known


def details_tables(entries: Sequence[Entry]) -> dict[str, Table]:
    """Return the details of all inputs, as tables by title.

    Up to MOST_COLUMNS inputs are the columns of one table. For more, one table has what they share, and another has a
    row per input with what differs. Details that no input records are left out.
    """
    known = [details(entry) for entry in entries]
    names = [entry.name for entry in entries]
    recorded = [key for key in known[0] if any(values[key] != UNKNOWN for values in known)]
    if len(entries) <= MOST_COLUMNS:
        return {COMPUTED: text_table(["", *names], [[key, *(values[key] for values in known)] for key in recorded])}
    shared = [key for key in recorded if len({values[key] for values in known}) == 1]
    differing = [key for key in recorded if key not in shared]
    tables = {}
    if shared:
        tables[SHARED] = text_table(["", "All inputs"], [[key, known[0][key]] for key in shared])
    if differing:
        rows = [[name, *(values[key] for key in differing)] for name, values in zip(names, known, strict=True)]
        tables[COMPUTED] = text_table(["", *differing], rows)
    return tables
