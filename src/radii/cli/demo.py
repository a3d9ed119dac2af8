"""radii demo: train, transfer, certify, attack and report on the embedded digits."""

from pathlib import Path

from radii.cli.app import console, printed_warnings
from radii.cli.progress import AttackBar, CertificationBar, TrainingBar
from radii.reports.metrics import Summary, in_words
from radii.runs import certificates
from radii.runs import recipe as recipes
from radii.runs.recipe import Recipe
from radii.runs.run import Run

STUDENT = "digits_mlp"


def demo(*, run: Path = Path("runs/demo")) -> None:
    """Train on the embedded digits, certify and write a report, in a few minutes on two cores.

    Args:
        run: The folder for the demonstration's runs and report. The same command continues there.
    """
    import torch

    from radii.reports.report import report
    from radii.training.transfer import train_students

    # Models this small gain nothing from a second thread, and slow down if the other core is busy.
    torch.set_num_threads(1)
    console.print("1. Plain Gaussian training, for comparison.")
    gaussian = _train(_recipe("gaussian"), run / "gaussian")
    console.print("2. A robust teacher: SmoothMix, with an attack in every step.")
    teacher = _train(_recipe("smoothmix"), run / "smoothmix-teacher")
    console.print("3. A student of another architecture, trained by transfer at about the cost of plain training.")
    with TrainingBar(console) as bar:
        (student,) = train_students(teacher, _recipe("transfer"), [STUDENT], run=run / "transfer-student", on_step=bar)
    console.print("4. Certificates for test images of all three.")
    for trained in (gaussian, teacher, student):
        _certify(trained)
    console.print("5. Attacks on some of these images: what they leave is above what is certified.")
    for trained in (gaussian, teacher, student):
        _attack(trained)
    with printed_warnings():
        page = report([gaussian.path, teacher.path, student.path], run / "report", command="radii demo")
    console.print(f"\nOpen {page} in a browser.", soft_wrap=True, markup=False)


def _recipe(method: str) -> Recipe:
    return recipes.read(recipes.find(f"digits/{method}-0.25"))


def _train(recipe: Recipe, path: Path) -> Run:
    from radii.training.loop import train

    with TrainingBar(console) as bar:
        return train(recipe, path, on_step=bar)


def _certify(run: Run) -> None:
    from radii import certifiers
    from radii.certification.certify import CertificationConfig, certify_run

    config = CertificationConfig(run=run.path, certifier=certifiers.create("fixed", estimation=10_000), every=3)
    with CertificationBar(console) as bar:
        path = certify_run(config, on_image=bar, on_work=bar.on_work)
    console.print(f"   {run.name}: {in_words(Summary(certificates.read(path)))}", markup=False)


def _attack(run: Run) -> None:
    from radii.certification.attack import AttackConfig, attack_run

    config = AttackConfig(run=run.path, images=25, steps=10, copies=8, samples=500)
    with AttackBar(console) as bar:
        attack_run(config, on_image=bar)
