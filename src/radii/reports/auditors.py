"""The page for auditors: claims, how they were tested and on which data, how to check them, and limits."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

from radii import disk
from radii.errors import ParameterError
from radii.reports.attacks import in_words as attack_in_words
from radii.reports.inputs import begun_files, present_attacks, present_certificates
from radii.reports.model_card import MEANING, describe
from radii.reports.population import in_words as population_in_words
from radii.reports.population import present_proofs
from radii.reports.protocol import describe_certifier, describe_images, describe_noise
from radii.reports.report import write_files
from radii.reports.text import down, render
from radii.runs.certificates import Certificates
from radii.runs.run import Run

FILE = "auditors.html"
SIGNATURE = "signature.json"
TEMPLATE = Path(__file__).with_name("auditors.html")

LIMITS = (
    "A certificate is about the length of a change in pixel space, in the norm that it names. It says nothing about "
    "other changes: rotation, weather, another camera, another object.",
    "It is about the model's answer, not about the truth: a wrong answer can be certified too. Certified accuracy "
    "counts only answers that are right.",
    "Certified accuracy is a share of the images that were tested. It holds for other images as far as these are a "
    "random sample of them.",
    "Every certificate is wrong with the stated failure probability. Several certificates of the same images with "
    "other settings are several chances to be wrong; each table says how many there are.",
    "Certificates are computed in floating point. They hold for the function as the engine computes it; the engine, "
    "its version and the kind of machine are recorded.",
    "A digest shows that a file is the one that was tested. It does not show that the training data were good, lawful "
    "or free of bias.",
    "A log that its operator keeps can be written anew by its operator. Digests that clients got with their answers, "
    "or that were noted elsewhere, show that.",
)


class Pointer(NamedTuple):
    """An article or section of a framework, its topic, and the sections of the page about it."""

    place: str
    topic: str
    here: str


POINTERS = (
    Pointer("EU AI Act, article 15 (1)", "an appropriate level of accuracy, robustness and cybersecurity", "Claims"),
    Pointer(
        "EU AI Act, article 15 (3)", "levels and metrics of accuracy, declared to users", "Claims; How it was tested"
    ),
    Pointer("EU AI Act, article 15 (4)", "resilience to errors, faults and inconsistencies", "Claims; Limits"),
    Pointer(
        "EU AI Act, article 15 (5)",
        "resilience to attempts to alter outputs, such as adversarial examples",
        "Claims; Attacks",
    ),
    Pointer("NIST AI RMF 1.0, MAP 2.3", "integrity of testing, and its documentation", "How it was tested; Data"),
    Pointer("NIST AI RMF 1.0, MEASURE 2.1", "test sets, metrics and tools are documented", "How it was tested; Data"),
    Pointer("NIST AI RMF 1.0, MEASURE 2.3", "performance is measured, and its conditions are stated", "Claims; Limits"),
    Pointer("NIST AI RMF 1.0, MEASURE 2.4", "behaviour in production is monitored", "Answers of servers"),
    Pointer(
        "NIST AI RMF 1.0, MEASURE 2.5", "validity and reliability are shown, limits are documented", "Claims; Limits"
    ),
    Pointer("NIST AI RMF 1.0, MEASURE 2.7", "security and resilience are evaluated and documented", "Claims; Attacks"),
    Pointer("NIST AI RMF 1.0, MANAGE 4.1", "monitoring after deployment", "Answers of servers"),
)


@dataclass(frozen=True)
class ServedAnswers:
    """Counts of the answers in a server's evidence, and the outcome of checking its log."""

    name: str
    lines: int
    answers: int
    unanswered: int
    head: str
    claims: Mapping[str, int]
    """Answers by mode and outcome."""
    problems: Sequence[str] = ()
    """What is wrong with the log."""


def write_page(runs: Sequence[Run], out: Path, served: Sequence[ServedAnswers] = (), command: str = "") -> Path:
    """Write the page about runs, and about answers that were served with them, to a folder; return the page."""
    if not runs:
        raise ParameterError("The page for auditors is about runs. Name at least one.", "inputs")
    page = render(
        TEMPLATE,
        runs=[_run(run) for run in runs],
        served=served,
        limits=LIMITS,
        meaning=MEANING,
        pointers=POINTERS,
        command=command,
        time=datetime.now(UTC).isoformat(timespec="seconds"),
        version=metadata.version("radii"),
    )
    return write_files(out, {FILE: page}, FILE)


def _run(run: Run) -> dict[str, Any]:
    files, recipe = present_certificates(run), run.recipe
    signed = f"{SIGNATURE} is there: check it with the signer's public key"
    return {
        "name": run.name,
        "properties": {
            "model": recipe.model["name"],
            "trained on": recipe.dataset["name"],
            "method": recipe.objective["name"],
            "weights, SHA-256": run.weights_digest(),
            "recipe, SHA-256": disk.digest(run.recipe_file),
            "signature": signed if (run.path / SIGNATURE).is_file() else "none",
        },
        "certificates": [_claim(file, files) for file in files],
        "others": len(begun_files(run)) - len(files),
        "population": [sentence for proof in present_proofs(run) for sentence in population_in_words(proof)],
        "attacks": [f"{path.name}: {attack_in_words(attack)}" for path, attack in present_attacks(run).items()],
    }


def _claim(file: Certificates, others: Sequence[Certificates]) -> dict[str, Any]:
    """Return what one certificate file claims, and how it was made and on which data."""
    described, header = describe(file, others), file.header
    shares = {radius: f"{down(value, 2, 2)} %" for radius, value in described["certified_accuracy"].items()}
    tested = {
        "certifier": describe_certifier(file),
        "noise": describe_noise(file),
        "images": describe_images(file),
        "label given to the certifier": {True: "yes", False: "no", None: "unknown"}[described["label_known"]],
        "other settings for the same images": str(described["other_settings"]),
        "engine": header.get("engine", "unknown"),
        "copies in a forward pass": header.get("batch_size", "unknown"),
        "seed": header.get("seed", "unknown"),
    }
    data = {
        "dataset": header.get("evaluated_on") or header.get("dataset", "unknown"),
        "part": header.get("split", "test"),
        "digest of the images": header.get("data", "unknown"),
        "images with certificates": described["images"],
    }
    acr = described["average_certified_radius_at_least"]
    return {"name": file.name, "shares": shares, "acr": acr, "tested": tested, "data": data}
