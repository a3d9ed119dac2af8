"""The demonstration on the embedded digits: a robust teacher, a student of another architecture, a baseline."""

from pathlib import Path

import torch
from rich.console import Console

from radii import certifiers
from radii.certification.attack import AttackConfig, attack_run
from radii.certification.certify import CertificationConfig, certify_run
from radii.cli.progress import AttackBar, CertificationBar, TrainingBar
from radii.report import report
from radii.report.summary import Summary, in_words
from radii.runs import certificates, recipe
from radii.runs.recipe import Recipe
from radii.runs.run import Run
from radii.training.train import train
from radii.training.transfer import transfer

STUDENT = "digits_mlp"


def run_demo(folder: Path, console: Console) -> None:
    """Train, transfer, certify and attack on the embedded digits, and write the report; a second call continues."""
    # Models this small gain nothing from a second thread, and slow down where the other core is busy.
    torch.set_num_threads(1)
    console.print("1. Plain Gaussian training, for comparison.")
    plain = _train(_recipe("gaussian"), folder / "gaussian", console)
    console.print("2. A robust teacher: SmoothMix, with an attack in every step.")
    teacher = _train(_recipe("smoothmix"), folder / "smoothmix-teacher", console)
    console.print("3. A student of another architecture, trained by transfer at about the cost of plain training.")
    with TrainingBar(console) as bar:
        (student,) = transfer(teacher, _recipe("transfer"), [STUDENT], run=folder / "transfer-student", on_step=bar)
    console.print("4. Certificates for test images of all three.")
    for run in (plain, teacher, student):
        _certify(run, console)
    console.print("5. Attacks on some of these images: what they leave is above what is certified.")
    for run in (plain, teacher, student):
        _attack(run, console)
    page = report([plain.path, teacher.path, student.path], folder / "report", command="radii demo")
    console.print(f"\nOpen {page} in a browser.", soft_wrap=True, markup=False)


def _recipe(method: str) -> Recipe:
    return recipe.read(recipe.find(f"digits/{method}-0.25"))


def _train(wanted: Recipe, path: Path, console: Console) -> Run:
    with TrainingBar(console) as bar:
        return train(wanted, path, on_step=bar)


def _attack(run: Run, console: Console) -> None:
    config = AttackConfig(run=run.path, images=25, steps=10, copies=8, samples=500)
    with AttackBar(console) as bar:
        attack_run(config, on_image=bar)


def _certify(run: Run, console: Console) -> None:
    config = CertificationConfig(run=run.path, certifier=certifiers.create("fixed", estimation=10_000), every=3)
    with CertificationBar(console) as bar:
        path = certify_run(config, on_image=bar)
    console.print(f"   {run.name}: {in_words(Summary(certificates.read(path)))}", markup=False)
