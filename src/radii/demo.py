"""The story of the toolkit on the embedded digits: a robust teacher, a student of another architecture, a baseline."""

from pathlib import Path

import torch
from rich.console import Console

from radii import certifiers, plugins
from radii.engine.certify import Plan, certify_run
from radii.engine.train import train
from radii.engine.transfer import chain
from radii.experiment import recipe
from radii.experiment.recipe import Recipe
from radii.experiment.run import Run
from radii.progress import CertificationBar, TrainingBar
from radii.report import report


def tell(folder: Path, console: Console) -> None:
    """Train, transfer and certify on the embedded digits, and write the page; a second call continues or re-tells."""
    # Models this small gain nothing from a second thread, and lose much where the other core is busy.
    torch.set_num_threads(1)
    console.print("1. Plain Gaussian training, for comparison.")
    plain = _train(_recipe("gaussian"), folder / "gaussian", console)
    console.print("2. A robust teacher: SmoothMix, with an attack in every step.")
    teacher = _train(_recipe("smoothmix"), folder / "smoothmix-teacher", console)
    console.print("3. A student of another architecture, taught by the teacher at about the price of plain training.")
    with TrainingBar(console) as bar:
        (student,) = chain(teacher, _recipe("transfer"), [STUDENT], run=folder / "transfer-student", watch=bar)
    console.print("4. Certificates for test images of all three.")
    for run in (plain, teacher, student):
        _certify(run, console)
    page = report([plain.path, teacher.path, student.path], folder / "report")
    console.print(f"\nOpen {page} in a browser.", soft_wrap=True)


STUDENT = "digits_mlp"


def _recipe(method: str) -> Recipe:
    return recipe.read(plugins.recipes_folder() / "digits" / f"{method}-0.25.toml")


def _train(wanted: Recipe, path: Path, console: Console) -> Run:
    with TrainingBar(console) as bar:
        return train(wanted, path, watch=bar)


def _certify(run: Run, console: Console) -> None:
    plan = Plan(run=run.path, procedure=certifiers.create("fixed", estimation=10_000), every=3)
    with CertificationBar(console) as bar:
        certify_run(plan, watch=bar)
    console.print(f"   {run.name}: {bar.summary()}")
