"""Train, transfer, certify, verify, attack, predict, serve and time on the pretended device; print what was waited for.

`python -m tools.pretended RUN` does so with a trained run; `python -m tools.pretended RUN OTHER` also with another one
on a device as limited as Apple's, which has no float64.
"""

import json
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from tools.pretended.device import GPU, counted, in_threads, pretending, wait, without_modes

# isort: split
import torch
from torch import nn

import radii
from benchmarks import gpu as benchmark
from benchmarks.performance import SECTIONS
from radii import certifiers, engines, objectives, onnx_graph
from radii.certification.attack import AttackConfig, attack_run
from radii.certification.certify import CertificationConfig, certify_run
from radii.certification.one_pass import answer_once
from radii.certification.population import certify_run_population
from radii.certification.recertify import certify_update
from radii.certification.update import Update, open_old
from radii.certification.verify import verify_run
from radii.certifiers import certify_image
from radii.certifiers.population import OnePass
from radii.engines import SmoothedClassifier, _openvino
from radii.engines.base import OnCpu
from radii.models.denoised import Denoised
from radii.models.ensemble import Ensemble
from radii.objectives import Batch, Step
from radii.papers.cost import time_sample, time_step
from radii.runs.recipe import Recipe, Training
from radii.serving.model import ModelConfig, load_model
from radii.serving.service import Service
from radii.smoothing import noise as noises
from radii.smoothing.addresses import NoiseAddress, generator
from radii.smoothing.logits import SINGLE
from radii.smoothing.questions import FavouredVotes, Hits, NearTies, Probabilities, Question, Task, Votes
from radii.smoothing.streams import RowGenerator, Stream
from radii.training.batches import LocalBatch
from radii.training.build import build
from radii.training.ddp import ALONE, World
from radii.training.loop import StepEvent, train
from radii.training.soft_labels import soft_labels
from radii.training.step import Loss, StepResult, gradient_step
from radii.training.timing import time_steps
from radii.training.transfer import transfer
from radii.workers.backends import Remote
from radii.workers.pool import Call, Outcome
from radii.workers.voter import Shipped

COPIES = 500
ROWS = 256
CERTIFIERS: dict[str, dict[str, Any]] = {
    "fixed": {"selection": 20, "estimation": 300},
    "planned": {"pilot": 50, "most_samples": 300},
    "prediction": {"samples": 100},
    "sequential": {"radii": (0.0,), "most_samples": 300},
    "soft": {"selection": 20, "estimation": 300},
}
QUESTIONS: dict[str, Question] = {
    "votes": Votes(0, 0, COPIES),
    "near_ties": NearTies(0, 0, COPIES, 0.01),
    "favoured_votes": FavouredVotes(0, 0, COPIES, 1, 0.01),
    "hits": Hits(0, 0, COPIES, 1),
    "mean_probabilities": Probabilities(0, 0, COPIES),
    "probabilities": Probabilities(0, 0, COPIES, label=1),
}


def net(seed: int = 0) -> nn.Module:
    """Make a network with everything that folding and layouts treat differently by device."""
    torch.manual_seed(seed)
    layers = (nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 10))
    return nn.Sequential(*layers).eval()


def picture() -> torch.Tensor:
    return torch.randint(256, (1, 8, 8), generator=torch.Generator().manual_seed(0)).float() / 255


def questions() -> dict[str, Any]:
    """Ask every question under every noise; compare with the CPU and count."""
    found = {}
    for noise in noises.names():
        given = noises.create(noise, sigma=0.25)
        cpu, gpu = (
            SmoothedClassifier(model, noise=given, classes=10, batch_size=ROWS) for model in (net(), net().to("gpu"))
        )
        gpu.votes(picture(), 1, NoiseAddress(0))  # prepares and probes
        for name, question in QUESTIONS.items():
            task = Task(picture(), NoiseAddress(7), question)
            answers, counts = counted(partial(gpu.count, [task]))
            equal = bool((answers[0] == cpu.count([task])[0]).all())
            found[f"{noise} {name}"] = {"equal": equal, **counts.as_numbers(), "places": counts.places()}
    return found


def every_certifier() -> dict[str, Any]:
    """Certify an image with every certifier, and compare with the CPU."""
    found = {}
    cpu, gpu = (
        SmoothedClassifier(model, sigma=0.25, classes=10, batch_size=ROWS) for model in (net(), net().to("gpu"))
    )
    for name in certifiers.names():
        certifier = certifiers.create(name, **CERTIFIERS[name])
        one, other = (certify_image(certifier, voter, picture(), NoiseAddress(3)) for voter in (gpu, cpu))
        found[name] = (one.prediction, one.radius, one.counts) == (other.prediction, other.radius, other.counts)
    return found


def every_objective() -> dict[str, Any]:
    """Train a few steps with every objective, and count the last one."""
    found = {}
    for name in objectives.names():
        take = step_of(name, "gpu", torch.Generator().manual_seed(0))
        take()
        _, counts = counted(take)
        found[name] = {**counts.as_numbers(), "places": counts.places()}
    return found


def every_objective_by_place() -> dict[str, Any]:
    """Train with draws by the place of an image; count a step, and compare the losses with those of the CPU."""
    found = {}
    for name in objectives.names():
        on_gpu, on_cpu = (step_of(name, device, by_place()) for device in ("gpu", "cpu"))
        first = on_gpu().loss
        second, counts = counted(on_gpu)
        losses = [[first, second.loss], [on_cpu().loss, on_cpu().loss]]
        found[name] = {**counts.as_numbers(), "places": counts.places(), "losses": losses}
    return found


def by_place() -> RowGenerator:
    return RowGenerator.beside(torch.Generator(), Stream.at("train", 0, 20), 16)


def step_of(name: str, device: str, rng: torch.Generator, world: World = ALONE) -> Callable[[], StepResult]:
    """Return a training step of an objective, of eight images on a device."""
    torch.manual_seed(0)
    model = trained_by(name).to(device)
    resources = {"teacher": net().to(device), "soft_labels": torch.full((8, 10), 0.1).to(device), "tape": None}
    needed = {key: resources[key] for key in objectives.resources_of(name)}
    loss = Loss(objectives.create(name, sigma=0.25, **needed), model.train())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    images = torch.stack([picture()] * 8)
    batch = LocalBatch(Batch(*(tensor.to(device) for tensor in (images, torch.arange(8), torch.arange(8)))))
    averaged = loss if world.size == 1 else Averaged(loss)
    return partial(gradient_step, averaged, optimizer, batch, Step(20, rng, 0.5), world=world, share=lambda: [1.0, 0.0])


def trained_by(objective: str) -> nn.Module:
    """Make the network that an objective trains: behind a denoiser, or of layers that can be bounded."""
    if objective == "denoising":
        return Denoised(nn.Sequential(nn.Conv2d(1, 2, 3, padding=1), nn.ReLU(), nn.Conv2d(2, 1, 3, padding=1)), net())
    if objective == "crown_ibp":
        return nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(108, 10))
    return net()


class Zeros(nn.Module):
    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return torch.zeros(len(images), 10, device=images.device)


def every_engine() -> dict[str, Any]:
    """Count votes with every engine that can run here, those of the CPU too, and try one that returns zeros."""
    found: dict[str, Any] = {"on the CPU": []}
    for name in engines.names():
        engine = engines.create(name)
        # Compiling does not see through the pretended device, and calibrating needs a run.
        if name == "compile" or engine.calibrates or not engine.runs_on(torch.device("cpu")):
            continue
        classifier = SmoothedClassifier(net().to("gpu"), sigma=0.25, classes=10, batch_size=ROWS, engine=name)
        found[name] = int(classifier.votes(picture(), 100, NoiseAddress(0)).sum())
        if isinstance(classifier.prepared_for(picture())[1], OnCpu):
            found["on the CPU"].append(name)
    spec = classifier._spec(net().to("gpu"), picture().permute(1, 2, 0))
    found["agreement of zeros"] = engines.agreement(spec, Zeros())
    return found


def nested() -> dict[str, nn.Module]:
    """Make networks that are parts of others, and one that is normalised."""
    members = [net(number) for number in range(3)]
    return {
        "normalised": net(),
        "denoised": Denoised(nn.Conv2d(1, 1, 3, padding=1), net()),
        "ensemble": Ensemble(members),
        "consensus": Ensemble(members, consensus=2),
    }


def every_nesting() -> dict[str, Any]:
    """Count votes with networks inside others; constants of normalisation are stated beside a model on the device."""
    found = {}
    for name in nested():
        constants: dict[str, Any] = {"mean": (0.5,), "std": (0.25,)} if name == "normalised" else {}
        cpu, gpu = (
            SmoothedClassifier(model.eval(), sigma=0.25, classes=10, batch_size=ROWS, **constants)
            for model in (nested()[name], nested()[name].to("gpu"))
        )
        gpu.votes(picture(), 1, NoiseAddress(0))  # prepares and probes
        votes, counts = counted(partial(gpu.votes, picture(), COPIES, NoiseAddress(7)))
        equal = bool((votes == cpu.votes(picture(), COPIES, NoiseAddress(7))).all())
        found[name] = {"equal": equal, **counts.as_numbers(), "places": counts.places()}
    return found


def one_pass() -> dict[str, Any]:
    """Answer pictures by one noisy copy each, half of which are on the device already."""
    cpu, gpu = (SmoothedClassifier(model, sigma=0.25, classes=10, batch_size=16) for model in (net(), net().to("gpu")))
    pictures, seeds = [picture().roll(number, 2) for number in range(20)], range(20)
    answer_once(gpu, pictures[:1])  # prepares and probes
    asked = [*pictures[:10], *(picture.to("gpu") for picture in pictures[10:])]
    answers, counts = counted(partial(answer_once, gpu, asked, seeds))
    return {"equal": answers == answer_once(cpu, pictures, seeds), **counts.as_numbers(), "places": counts.places()}


def as_module() -> dict[str, Any]:
    """Take gradients of mean probabilities under noise, as libraries of attacks do."""
    gradients = []
    for device in ("cpu", "gpu"):
        module = SmoothedClassifier(net().to(device), sigma=0.25, classes=10).as_module(samples=8, seed=1)
        images = picture()[None].to(device).requires_grad_()
        (gradient,), counts = counted(partial(gradient_of, module, images))
        gradients.append(gradient.cpu())
    return {
        "equal": bool(torch.allclose(gradients[0], gradients[1], atol=1e-6)),
        **counts.as_numbers(),
        "places": counts.places(),
    }


def gradient_of(module: nn.Module, images: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return torch.autograd.grad(module(images)[:, 0].sum(), images)


class TwoRanks(World):
    """Two ranks that compute the same."""

    def sum(self, values: torch.Tensor) -> torch.Tensor:
        return values * self.size


class Averaged(nn.Module):
    """Stands for DistributedDataParallel, whose gradients are averages."""

    def __init__(self, module: Loss) -> None:
        super().__init__()
        self.module = module

    def forward(self, *arguments: Any) -> Any:
        return self.module(*arguments)


def ranks() -> dict[str, Any]:
    """Train a step as one of two ranks, which share loss, statistics and signals; Apple's devices have no ranks."""
    if GPU.type in SINGLE:
        return {}
    take = step_of("gaussian", "gpu", by_place(), TwoRanks(0, 2))
    take()
    result, counts = counted(take)
    return {"split": result.shared, **counts.as_numbers(), "places": counts.places()}


class Sent:
    """Calls that are not computed."""

    def submit(self, call: Call) -> int:
        self.tasks = call.arguments[1]
        return 0

    def next(self) -> tuple[int, Outcome]:
        raise NotImplementedError

    def close(self) -> None:
        pass


def shipped() -> dict[str, Any]:
    """Send a classifier of the device to a worker that has none: its tensors arrive on the CPU."""
    cpu, gpu = (SmoothedClassifier(model, sigma=0.25, classes=10, batch_size=64) for model in (net(), net().to("gpu")))
    opened, calls = Shipped(gpu).shipment.open(), Sent()
    asked = picture(), 200, NoiseAddress(5)
    Remote(Shipped(gpu), calls).submit([Task(picture().to("gpu"), NoiseAddress(5), Votes(0, 0, 200))])
    return {
        "device": str(opened.device),
        "picture": str(calls.tasks[0].image.device),
        "equal": bool((opened.votes(*asked) == cpu.votes(*asked)).all()),
        "trainable": all(isinstance(parameter, nn.Parameter) for parameter in opened.base.parameters()),
    }


def use_everywhere(name: str, replacement: Callable[..., Any]) -> None:
    """Replace a function of `radii.device` wherever it was imported."""
    for module_name, module in list(sys.modules.items()):
        if module_name.startswith("radii") and hasattr(module, name):
            setattr(module, name, replacement)


def a_run(folder: Path) -> dict[str, Any]:
    """Certify, verify, attack and predict with a trained run."""
    use_everywhere("default_device", lambda: GPU)
    fixed = certifiers.create("fixed", selection=20, estimation=200)
    config = CertificationConfig(run=folder, certifier=fixed, max_images=6, engine="torch")
    path, certified = counted(lambda: certify_run(config, workers=1))
    verified, replayed = counted(lambda: verify_run(folder, rows=None))
    attack, attacked = counted(
        lambda: attack_run(
            AttackConfig(run=folder, radii=(0.1,), images=1, steps=2, copies=2, samples=50, engine="torch")
        )
    )
    classifier = radii.load(folder, engine="torch")
    predicted = radii.predict(classifier, torch.zeros(1, 8, 8), seed=0)
    results = radii.certify_dataset(classifier, "digits", fixed, seed=0, max_images=3, workers=1)
    return {
        "file": str(path),
        "device": str(classifier.device),
        "batch_size": classifier.batch_size,
        "verified": verified.in_words(),
        "attack": str(attack),
        "predicted": predicted.prediction,
        "dataset": [[row.prediction, row.radius, list(row.counts.values())] for row in results.rows],
        "certify": {**certified.as_numbers(), "places": certified.places()},
        "verify": replayed.as_numbers(),
        "attacked": {**attacked.as_numbers(), "places": attacked.places()},
    }


def after_certificates(folder: Path, file: Path) -> dict[str, Any]:
    """Certify another run from the certificates of this one, and prove the accuracy of one noisy pass."""
    new = Path(shutil.copytree(folder, folder.with_name("new"), ignore=shutil.ignore_patterns("certificates*")))
    config = CertificationConfig(run=new, certifier=Update(samples=200), engine="torch")
    update, updated = counted(lambda: certify_update(config, open_old(file), workers=1))
    config = CertificationConfig(run=new, certifier=OnePass(votes=4, training_images=5), every=60, engine="torch")
    population, proven = counted(lambda: certify_run_population(config, workers=1))
    return {
        "verified": [verify_run(new, path, rows=None).in_words() for path in (update, population)],
        "files": [str(new), str(update), str(population)],
        "places": {"update": updated.places(), "population": proven.places()},
    }


def training(folder: Path) -> dict[str, Any]:
    """Train, stop, continue, transfer and vote for soft labels; count what an epoch of training waits for."""
    use_everywhere("default_device", lambda: GPU)
    schedule = Training(epochs=2, images_per_step=720, learning_rate=0.05, stream="philox")
    recipe = Recipe(dataset="digits", model="digits_cnn", sigma=0.25, training=schedule)

    def stop(event: StepEvent) -> None:
        if event.row is not None:
            raise KeyboardInterrupt

    with suppress(KeyboardInterrupt):
        train(recipe, folder / "trained", on_step=stop)
    run, counts = counted(lambda: train(recipe, folder / "trained"))
    trained = {**counts.as_numbers(), "places": counts.places()}
    taught = replace(recipe, objective="transfer")
    student = transfer(run, "digits_cnn", recipe=taught, run=folder / "student")
    _, by_tape = counted(lambda: train(taught, folder / "by-tape", teacher=run))

    def few(number: int, _: int) -> None:
        if number == 3:
            raise KeyboardInterrupt

    with suppress(KeyboardInterrupt):
        soft_labels(run, samples=8, engine="torch", batch_size=16, on_image=few)
    return {"run": str(run.path), "trained": trained, "student": str(student.path), "by tape": by_tape.places()}


def timings() -> dict[str, Any]:
    """Time training steps and noisy copies, and count where the clock waits for the device."""
    use_everywhere("wait_for", wait)
    schedule = Training(epochs=1, images_per_step=64, learning_rate=0.05)
    recipe = Recipe(dataset="digits", model="digits_cnn", sigma=0.25, training=schedule)
    places = {}
    for name, time in {
        "training": lambda: time_steps(build(recipe)),
        "cost of a step": lambda: time_step(recipe),
        "cost of a copy": lambda: time_sample(recipe),
    }.items():
        places[name] = counted(time)[1].places()
    return places


def served(run: Path) -> dict[str, Any]:
    """Answer pictures as a server does, and count what a forward pass waits for."""
    model = load_model(ModelConfig(run=run, mode="vote", engine="torch"))
    in_threads(Service, "_vote")
    service = Service(model, workers=1)
    try:
        answers, counts = counted(lambda: [future.result(60) for future in service.submit([picture(), 1 - picture()])])
    finally:
        service.close()
    return {
        "device": model.header["device"],
        "labels": [answer.certificate.prediction for answer in answers],
        "passes": service.passes,
        **counts.as_numbers(),
        "places": counts.places(),
    }


def benchmarked() -> dict[str, Any]:
    """Run `scripts/bench gpu` on a small model, and count what a question waits for as it does on CUDA."""

    def waits(question: Callable[[], Any], _: torch.device) -> int:
        counts = counted(question)[1].as_numbers()
        return counts["waits"] + counts["to_host"]

    setattr(benchmark, "default_device", lambda: GPU)  # noqa: B010
    setattr(benchmark, "_waits", waits)  # noqa: B010
    benchmark.SUBJECTS = {"digits_cnn": (1, 8, 8)}
    numbers = benchmark.measure(samples=2 * ROWS, rounds=1, size=ROWS)
    return {"numbers": numbers, "text": SECTIONS["gpu"](numbers)}


def convert_on_the_cpu() -> None:
    """Convert networks without the pretended device, which tracing does not see through; to ONNX only once."""
    use_everywhere("convert", without_modes(_openvino.convert))
    export, made = onnx_graph.from_torch, list[bytes]()

    def exported(model: nn.Module, shape: tuple[int, int, int]) -> bytes:
        if not made:
            made.append(export(model, shape))
        return made[0]

    use_everywhere("from_torch", exported)


@contextmanager
def as_limited_as(has_float64: bool) -> Iterator[None]:
    """Provide the device, which may have no float64, and let radii know."""
    use_everywhere("runs_ahead", lambda device: device.type == GPU.type)
    use_everywhere("generator", lambda _, *address: generator("cpu", *address))  # torch has none for this device
    with pretending(has_float64=has_float64):
        if not has_float64:
            SINGLE.add("gpu")
        try:
            yield
        finally:
            SINGLE.discard("gpu")


def everything(run: Path) -> dict[str, Any]:
    found = {
        "questions": questions(),
        "certifiers": every_certifier(),
        "engines": every_engine(),
        "nested": every_nesting(),
        "one pass": one_pass(),
        "as module": as_module(),
        "shipped": shipped(),
        "ranks": ranks(),
        "objectives": every_objective(),
        "objectives by place": every_objective_by_place(),
        "run": a_run(run),
        "served": served(run),
        "training": training(run.parent),
        "timings": timings(),
        "benchmark": benchmarked(),
    }
    return {**found, "after": after_certificates(run, Path(found["run"]["file"]))}


def main(runs: list[str]) -> None:
    torch.set_num_threads(1)
    convert_on_the_cpu()
    measured = {}
    for name, run in zip(("float64", "without float64"), runs, strict=False):
        with as_limited_as(has_float64=name == "float64"):
            measured[name] = everything(Path(run))
    print(json.dumps(measured))


if __name__ == "__main__":
    main(sys.argv[1:])
