"""radii harden: make a run robust within some minutes, and report before and after."""

import math
import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from radii import disk
from radii.cli.app import hint, printed_warnings, say, suggest
from radii.cli.arguments import RUN_FLAGS, Data, Strings, Trust, check_minutes, command
from radii.cli.audit import attack_command, certify_command, has_gradients
from radii.cli.plan import Measured, Plan, PlannedCommand, plan_file, planned, run_plan, show_plan
from radii.reports.text import duration
from radii.runs.recipe import parse_value
from radii.runs.run import Run, RunError

TWO_STAGES = 20.0
"""With fewer minutes of training than this, `consistency`, whose steps cost twice as much, is left out."""
GAUSSIAN_SHARE = 0.5
"""The share of fine-tuning with plain Gaussian noise before `consistency`."""
TEACHER_SHARE = 0.5
"""The share of the training that the teacher of another architecture gets."""
COPIES = 750
"""The noisy copies of an image that a hardened model is expected to need."""
MOST_CERTIFIED, ENOUGH_CERTIFIED, FEWEST_CERTIFIED = 500, 50, 10
"""The images to certify: at most, as many in MOST_CERTIFYING of the minutes, and at least."""
CERTIFYING, ATTACKING, STARTING = 0.08, 0.03, 0.05
"""Shares of the minutes: for each certification, for each attack, and for starting the commands."""
MOST_CERTIFYING = 0.2
"""The share for each certification of a model so slow that CERTIFYING is too short for ENOUGH_CERTIFIED images."""
LEAST_TRAINING = 0.2
"""The least share for training; a budget that leaves less is refused."""
ENOUGH_MINUTES = 1.6 / (1 - STARTING - LEAST_TRAINING - 2 * ATTACKING)
"""Times the minutes of a certification: a budget that is not refused, as certification takes one and a half of them."""
ATTACKED = 10.0
"""With fewer minutes than this, nothing is attacked."""
DENOISER = 3
"""How many times more a forward pass is expected to cost behind a denoiser."""
FEW = 10
"""With fewer training images a class than this, on average, a model forgets more than it learns: it gets a denoiser."""
STABILITY = ("objective.stability=0.001", "objective.stability_start=0.6")
"""A denoiser first learns from the pictures alone, which is cheap, then from the model's answers too."""
NO_STABILITY = ("objective.stability=0",)


def harden(
    run: Path,
    /,
    *,
    sigma: float | None = None,
    minutes: float = 60.0,
    model: str | None = None,
    into: Annotated[Path | None, Parameter(name=RUN_FLAGS)] = None,
    data: Data = None,
    trust: Trust = None,
) -> None:
    """Make a run robust within some minutes, certify it before and after, and compare.

    Fine-tunes the model with noise: plain Gaussian first, then `consistency`. A model without gradients, an ONNX file,
    gets a denoiser in front of it, and so does one with fewer than ten training images a class, on average. With
    --model, another architecture learns from the fine-tuned one. It is a plan over other verbs, which it prints first:
    type them yourself to change them. The same command continues after an interruption.

    Args:
        run: The run to harden, trained or imported.
        sigma: The noise to train and certify with; by default the run's.
        minutes: About how long it may take in all.
        model: Transfer the robustness into this architecture: a name, or a table of name and fields.
        into: The directory of the hardened run; by default `hardened` beside the run.
    """
    check_minutes(minutes, ())
    source, target = Run(run, trust or ()), into or run.parent / "hardened"
    recipe = source.recipe
    source.weights()  # raises if it is not trained to the end
    noise = recipe.sigma if sigma is None else sigma
    if target.resolve() == run.resolve():
        raise ValueError(f"The hardened run cannot be {target} itself. Name another with --run.")
    choices: dict[str, Any] = {"run": str(run), "sigma": noise, "minutes": minutes, "model": model}
    place = {"data": None if data is None else str(data), "trust": list(trust or ())}
    disk.make_folder(target.parent)
    with disk.locked(plan_file(target)):
        plan = Plan(target, {**choices, **place, "weights": source.weights_digest()})
        if plan.measured is None and target.exists():
            raise RunError(f"{target} exists without a plan of its hardening.", "run")
        with printed_warnings():
            if plan.measured is None:
                hint("timing the model, to plan the minutes")
            measured = plan.measured or _measure(source, noise, minutes, model, data)
            plan.use(_commands(source, target, noise, minutes, model, data, trust, measured), measured)
        began, before = time.monotonic(), plan.done == len(plan.commands)
        show_plan(f"To harden {run} at sigma {noise:g}", plan.commands)
        hint(f"the plan is in {plan.file}: the same command continues it")
        run_plan(plan.commands, plan.done, plan.finish)
    when = "before" if before else f"in {duration(time.monotonic() - began)}"
    say(f"{target}: hardened {when}; the page is {target / 'report' / 'report.html'}")
    suggest(f"next: {command('compare', run, target, at_least=f'0.5@{noise:g}', trust=trust)}")


def _commands(
    source: Run,
    target: Path,
    sigma: float,
    minutes: float,
    model: str | None,
    data: Path | None,
    trust: Strings,
    measured: Measured,
) -> list[PlannedCommand]:
    """Divide the minutes: certify before, train, certify after, attack both if there is time, report and compare."""
    certifying = measured.certifying
    attackable = has_gradients(source.recipe) and minutes >= ATTACKED
    attacking = ATTACKING * minutes if attackable else 0.0
    training = minutes * (1 - STARTING) - 1.5 * certifying - 2 * attacking
    if training < LEAST_TRAINING * minutes:
        raise ValueError(
            f"--minutes {minutes:g} leaves no time to train: to certify a few images twice takes about "
            f"{duration(90 * certifying)}. Use at least --minutes {math.ceil(ENOUGH_MINUTES * certifying)}."
        )
    words = "certified on the same images"
    before = certify_command(source.path, sigma, certifying / 2, f"before: {words}", measured.every, data, trust)
    after = certify_command(target, sigma, certifying, f"after: {words}", measured.every, data, trust)
    attacks = [
        attack_command(path, sigma, attacking, f"attack the run {when}", data, trust)
        for path, when in ((source.path, "before"), (target, "after"))
        if attackable
    ]
    return [
        before,
        *_training(source, target, sigma, training, model, data, trust, denoise=measured.denoise),
        after,
        *attacks,
        planned("the page", 0.1, "report", source.path, target, out=target / "report", trust=trust),
        planned("before and after", 0.02, "compare", source.path, target, sigma=sigma, trust=trust),
    ]


def _training(
    source: Run,
    target: Path,
    sigma: float,
    minutes: float,
    model: str | None,
    data: Path | None,
    trust: Strings,
    *,
    denoise: bool = False,
) -> list[PlannedCommand]:
    """Return the commands that train: a denoiser, fine-tuning in one or two stages, or a teacher and its student."""
    more = {"data": data, "trust": trust}
    noise = f"sigma={sigma:g}"
    if denoise:
        settings = [noise, *(STABILITY if has_gradients(source.recipe) else NO_STABILITY)]
        purpose = "train a denoiser in front of the model, which stays as it is"
        options: dict[str, Any] = {"from_": source.path, "set": settings, **_length(minutes, target)}
        return [planned(purpose, minutes, "train", "denoising", **options, **more)]
    if model is not None:
        _expect_model(source, model)
        teacher, share = target.with_name(f"{target.name}-teacher"), TEACHER_SHARE * minutes
        tuning = _training(source, teacher, sigma, share, None, data, trust)
        left = minutes - share
        options = {"teacher": teacher, "model": model, **_length(left, target)}
        return [*tuning, planned(f"transfer into {model}", left, "transfer", **options, **more)]
    if minutes < TWO_STAGES:
        options = {"from_": source.path, "set": noise, **_length(minutes, target)}
        return [planned("fine-tune with noise", minutes, "train", "gaussian", **options, **more)]
    middle, share = target.with_name(f"{target.name}-gaussian"), GAUSSIAN_SHARE * minutes
    first = {"from_": source.path, "set": noise, **_length(share, middle)}
    left = minutes - share
    then = {"from_": middle, **_length(left, target)}
    return [
        planned("fine-tune with noise", share, "train", "gaussian", **first, **more),
        planned("then for consistency", left, "train", "consistency", **then, **more),
    ]


def _expect_model(source: Run, model: str) -> None:
    """Raise unless a model can be made of what --model states: the first minutes would go to its teacher."""
    from radii.training.weights import make_model, model_spec

    make_model(replace(source.recipe, model=parse_value(model)), model_spec(source), pretrained=False)


def _measure(source: Run, sigma: float, minutes: float, model: str | None, data: Path | None) -> Measured:
    """Choose between fine-tuning and a denoiser, and how many images to certify.

    Raises if there are no training images: the first minutes would go to certificates of the test images.
    """
    from radii.training.open_dataset import dataset_of

    dataset = dataset_of(source, data)
    few = len(dataset.part("train")) < FEW * dataset.classes
    if model is not None and not has_gradients(source.recipe):
        raise ValueError(f"{source.path} has no gradients, so it cannot teach a {model}. Leave out --model.")
    denoise = model is None and (few or not has_gradients(source.recipe))
    return Measured(*_certifying(source, sigma, minutes, denoise, data), denoise)


def _length(minutes: float, target: Path) -> dict[str, Any]:
    return {"minutes": round(minutes, 2), "run": target}


def _certifying(source: Run, sigma: float, minutes: float, denoise: bool, data: Path | None) -> tuple[int, float]:
    """Time a block of copies; return the n of which every nth image is certified, and the minutes that this takes."""
    from radii.certification.certify import CertificationConfig, open_certification
    from radii.certifiers.fixed import Fixed
    from radii.device import default_workers
    from radii.smoothing.noise import Gaussian
    from radii.workers.forecast import every_within

    certifier = Fixed(selection=100, estimation=COPIES - 100)
    config = CertificationConfig(run=source.path, certifier=certifier, noise=Gaussian(sigma), data=data)
    certification = open_certification(config, source)
    images, workers = len(certification.samples), default_workers()
    image = certification.forecast(range(images))
    assert image is not None, "votes can always be simulated"
    image = image.times(DENOISER) if denoise else image
    usual, most = (every_within(image, images, share * minutes, workers) for share in (CERTIFYING, MOST_CERTIFYING))
    enough = max(most, images // ENOUGH_CERTIFIED)
    every = max(1, min(max(min(usual, enough), images // MOST_CERTIFIED), images // FEWEST_CERTIFIED))
    return every, max(CERTIFYING * minutes, images / every * image.seconds / workers / 60)
