"""Attack the smoothed classifier of a run with a stated budget.

Certified accuracy is a lower bound of robust accuracy, attacked accuracy an upper bound. The attack follows the
gradient of SmoothAdv's loss (Salman et al. 2019) under `copies` draws of noise. A change succeeds if a prediction, on
noise that the attack has not seen, is wrong; an abstention is no success.
"""

import json
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from radii import certifiers
from radii.certification.deployment import certified_prediction, function_of
from radii.certification.load import deployed_noise, off_the_gpu, open_run
from radii.certifiers import Certifier, certify_image
from radii.datasets.base import image_digest, spread_evenly
from radii.device import default_device, keep_freed_memory, worker_variables
from radii.engines import AUTO, SmoothedClassifier, device_of
from radii.errors import ParameterError
from radii.estimate import Estimate, OnEstimate
from radii.fields import check_seed
from radii.objectives.base import smoothed_loss
from radii.provenance import rounding_environment
from radii.runs import attacks, certificates, events, gallery, resume
from radii.runs.attacks import Attack, AttackedImage
from radii.runs.certificates import Row
from radii.runs.function import FUNCTION
from radii.runs.run import Run
from radii.smoothing.addresses import NoiseAddress, generator
from radii.smoothing.attack import ascent, unit_or_drawn, unit_or_random
from radii.smoothing.bounds import gaussian_probability
from radii.smoothing.certificate import ABSTAIN
from radii.smoothing.forward import frozen, logits_of
from radii.smoothing.noise import Gaussian, Noise
from radii.smoothing.norms import L2, Norm
from radii.smoothing.streams import Draws, Stream
from radii.training.open_dataset import dataset_of
from radii.training.weights import trained_model
from radii.workers.pool import Call, Outcome, ProcessPool
from radii.workers.voter import one_thread

OnAttack = Callable[[int, AttackedImage | None], None]
JUST_INSIDE = 0.99
"""The radius of an attack inside the certified radius, as a share of it."""
FARTHER = (1.25, 1.5, 2.0, 3.0)
"""The multiples of a certified radius at which the attack tries to succeed outside."""
LEAST_TIME, MOST_TIME = 0.5, 2.0
"""The mean time of an image, as multiples of the time of the first: the least and the most expected."""
PICTURES = 0.3
"""The share of `minutes` that is kept for the pictures of a report."""
OLDER_BLOCK = 128
"""Copies that the older streams draw together."""
HALVINGS = 5
"""Bisections along a change that succeeds, to find a shorter one."""


@dataclass(frozen=True, kw_only=True)
class AttackConfig:
    """The budget of an attack."""

    run: Path
    radii: tuple[float, ...] = ()
    """The lengths of changes to try, in the norm of the noise; by default 1 to 4 times its sigma."""
    steps: int = 20
    copies: int = 16
    """Draws of noise that the gradient is averaged over."""
    images: int = 100
    """How many test images, spread evenly over the certified ones, or over all if none was certified."""
    samples: int = 1000
    """Samples of the prediction that decides whether a change succeeds."""
    seed: int = 0
    noise: Noise | None = None
    """By default the noise of the certificates, or Gaussian noise with the run's sigma."""
    engine: str = AUTO
    batch_size: int | None = None
    """Noisy copies of a forward pass of the prediction; by default as many as suit the device."""
    data: Path | None = None
    trust: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        for name in ("steps", "copies", "images", "samples", "batch_size"):
            if getattr(self, name) is not None and getattr(self, name) < 1:
                raise ValueError(f"{name} = {getattr(self, name)}, expected a whole number >= 1")
        check_seed(self.seed)
        if any(not 0 < radius <= 1000 for radius in self.radii):
            raise ValueError(f"radii = {self.radii}, expected numbers above 0, such as 0.25, 0.5")


def attack(
    run: Run | Path | str,
    *,
    radii: Sequence[float] = (),
    steps: int = 20,
    copies: int = 16,
    images: int = 100,
    samples: int = 1000,
    seed: int = 0,
    engine: str = AUTO,
    batch_size: int | None = None,
    data: Path | str | None = None,
    trust: Collection[str] = (),
) -> Attack:
    """Attack test images of a run, and return the attacked images. The same call continues where it stopped.

    `radii` are the lengths of changes to try, by default 1 to 4 times sigma; `steps` and `copies` of noise are spent on
    every image and radius, and a vote of `samples` decides whether a change succeeds. The certified images are
    attacked, `images` of them, or test images if there are no certificates. Attacked accuracy is an upper bound of
    robust accuracy, certified accuracy a lower one. Where there are several GPUs, each has a process that attacks.

    >>> import radii, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> run = radii.train("digits/gaussian-0.25", run=f"{folder}/g", settings=["training.epochs=1"])
    >>> attack = radii.attack(run, radii=[0.5], images=2, steps=2, samples=100, engine="torch")
    >>> len(attack), attack.accuracy(0.5) <= attack.accuracy(0)
    (2, True)
    """
    path, trusted = (run.path, run.trusted) if isinstance(run, Run) else (Path(run), frozenset(trust))
    config = AttackConfig(
        run=path,
        radii=tuple(radii),
        steps=steps,
        copies=copies,
        images=images,
        samples=samples,
        seed=seed,
        engine=engine,
        batch_size=batch_size,
        data=None if data is None else Path(data),
        trust=trusted,
    )
    return attacks.read(attack_run(config))


def attack_run(
    config: AttackConfig,
    *,
    minutes: float | None = None,
    on_image: OnAttack = lambda *_: None,
    on_estimate: OnEstimate | None = None,
) -> Path:
    """Attack test images of a run and return the attack file. The same call continues where it stopped.

    `minutes` chooses how many images, at most those of the configuration: one is timed, and the file records which.
    `on_estimate` is called with the estimated time when the first image is done.
    """
    with ExitStack() as held:
        session, calls = _open(config, held)
        if minutes is not None:
            session.choose_within(minutes, calls)
        return _attack_all(session, calls, on_image, on_estimate)


def _attack_all(session: "AttackSession", calls: "_Calls", on_image: OnAttack, on_estimate: OnEstimate | None) -> Path:
    """Attack the chosen images that have no row yet, in order, and keep the pictures for a report."""
    total = len(session.chosen)
    with (
        events.working(session.run.path, "attack", images=total) as log,
        attacks.open_file(session.run, session.header) as file,
    ):
        on_image(total, None)
        done = {row.index: row for row in file.rows}
        attacked = calls.results("attack", [index for index in session.chosen if index not in done])
        for number, index in enumerate(session.chosen, start=1):
            if index not in done:
                file.append(next(attacked))
                if on_estimate is not None and len(file.rows) == len(done) + 1:
                    on_estimate(_time_left(file.rows[-1].seconds / calls.workers, total - len(file.rows)))
            if log.due() or number == total:
                log.write("attacked", done=number, images=total)
            on_image(total, done.get(index, file.rows[-1]))
        if not attacks.pictures_file(file.path).is_file():
            session.keep_pictures(file.path, calls)
    return file.path


def _open(config: AttackConfig, held: ExitStack) -> tuple["AttackSession", "_Calls"]:
    """Open the run, and a worker for each GPU where there are several: this process then stays off them."""
    if not (variables := worker_variables()):
        session = AttackSession(config)
        return session, _Calls(session)
    run, target = Run(config.run, config.trust), default_device()
    engine, _ = off_the_gpu(run, config.engine, config.batch_size, target)
    config = replace(config, engine=engine)
    session = AttackSession(config, torch.device("cpu"))
    pool = held.enter_context(closing(ProcessPool(len(variables), variables)))
    return session, _Calls(session, pool, len(variables))


class _Calls:
    """Calls methods of a session: in this process, or in worker processes, each of which opens the run itself."""

    def __init__(self, session: "AttackSession", pool: ProcessPool | None = None, workers: int = 1) -> None:
        self.session, self.pool, self.workers = session, pool, workers

    def results(self, method: str, arguments: Sequence[Any]) -> Iterator[Any]:
        """Call a method with each argument, and yield the results in this order."""
        if (pool := self.pool) is None:
            yield from map(getattr(self.session, method), arguments)
            return
        shared = self.session.config, self.session.stream, method
        calls = [Call(f"an attack on {argument}", _in_worker, (*shared, argument)) for argument in arguments]
        tickets, outcomes = [pool.submit(call) for call in calls], dict[int, Outcome]()
        for ticket in tickets:
            while ticket not in outcomes:
                outcomes.update([pool.next()])
            yield outcomes.pop(ticket).value()


def _in_worker(config: AttackConfig, stream: str | None, method: str, argument: Any) -> Any:
    return getattr(_session_of(config, stream), method)(argument)


@cache
def _session_of(config: AttackConfig, stream: str | None) -> "AttackSession":
    """Open a session of the process that hands out the work; that one has decided on the streams."""
    keep_freed_memory()
    session = AttackSession(config)
    session.use_stream(stream)
    return session


def _time_left(seconds: float, images: int) -> Estimate:
    """Estimate the time of more images from one; images that withstand the attack take longest."""
    return Estimate(seconds, LEAST_TIME * seconds, MOST_TIME * seconds).times(images)


class AttackSession:
    """An open run with what an attack needs: the model, its smoothed classifier and its images."""

    def __init__(self, config: AttackConfig, device: torch.device | None = None) -> None:
        self.config, self.run = config, Run(config.run, config.trust)
        self.device = device or default_device()
        self.noise = config.noise or deployed_noise(self.run)
        self.unit = unit_radius(self.noise)
        self.radii = tuple(sorted(set(config.radii or (self.unit * number for number in (1, 2, 3, 4)))))
        self.images = dataset_of(self.run, config.data).part("test")
        self.engine, self.classifier = self._open_classifier(config.engine, config.batch_size)
        self.model = differentiable(trained_model(self.run, self.device), self.images.batch(torch.tensor([0])))
        self.weights = self.run.weights_digest()
        self.certified = certified_rows(self.run, self.weights, self.images.digest, self.noise)
        self.chosen = self.choose(config.images)
        name, fields = certified_prediction(self.run)
        size = {"samples" if name == "prediction" else "estimation": config.samples}
        self.judge: Certifier = certifiers.create(name, **{**fields, **size})
        self.stream: str | None = None
        """The random streams; None for a noise without them, or if the attack was begun with the older ones."""
        self.use_stream(None if attacks.file_of(self.run, self.header).is_file() else self.noise.stream)

    def use_stream(self, stream: str | None) -> None:
        """Draw from these random streams; without any, noise depends on the copies of a forward pass."""
        self.stream = stream
        if stream is None and self.classifier.batch_size != OLDER_BLOCK:
            _, self.classifier = self._open_classifier(self.engine, OLDER_BLOCK)

    def _open_classifier(self, engine: str, batch_size: int | None) -> tuple[str, SmoothedClassifier]:
        return open_run(self.run, engine, self.noise, self.config.data, batch_size, device=self.device)

    def choose(self, count: int) -> list[int]:
        """Choose images, spread over the certified ones, or over all if none was certified."""
        return spread_evenly([row.index for row in self.certified] or range(len(self.images)), count)

    def choose_within(self, minutes: float, calls: _Calls) -> None:
        """Choose as many images as can be attacked in `minutes`, or those of an existing attack file."""
        if not minutes > 0:
            raise ParameterError(f"minutes = {minutes:g}, expected a number > 0")
        begun = [attack for attack in attacks.read_all(self.run).values() if self._is_alike(attack.header)]
        if begun:
            self.chosen = max((list(attack.header["images"]) for attack in begun), key=len)
            return
        (timed,) = calls.results("attack", [self.chosen[len(self.chosen) // 2]])
        affordable = max(1, int(calls.workers * 60 * minutes * (1 - PICTURES) / timed.seconds) - 1)
        self.chosen = self.choose(min(affordable, self.config.images))

    def _is_alike(self, header: Mapping[str, Any]) -> bool:
        """Return whether an attack file differs from this attack only in its images."""
        ours = json.loads(json.dumps(certificates.identity(self.header)))
        return all(header.get(key) == value for key, value in ours.items() if key != "images")

    @property
    def header(self) -> dict[str, Any]:
        """Return everything that determines the result."""
        config = self.config
        return {
            "weights": self.weights,
            "data": self.images.digest,
            "engine": self.engine,
            "noise": self.noise.describe(),
            **self.noise.stated_norm(),
            "judge": self.judge.name,
            "failure": self.judge.failure,
            "steps": config.steps,
            "copies": config.copies,
            "samples": config.samples,
            "radii": list(self.radii),
            "seed": config.seed,
            "images": self.chosen,
            **({} if self.stream is None else {"stream": self.stream}),
            **self._function,
        }

    @cached_property
    def _function(self) -> dict[str, Any]:
        """What the header records of the attacked function; it is compared when a file is continued."""
        classifier = self.classifier
        environment = rounding_environment(self.engine, classifier.device, classifier.batch_size)
        environments = [{**environment, certificates.FIRST_ROW: 0}]
        with one_thread():
            return {FUNCTION: function_of(self.run, classifier), certificates.ENVIRONMENTS: environments}

    def attack(self, index: int) -> AttackedImage:
        """Search for the shortest change of one image that gives a wrong answer, at growing radii."""
        began = time.perf_counter()
        image, label = self._image(index)
        prediction, success = self.answer(image, index), None
        if prediction not in (label, ABSTAIN):
            success = image
        for number, radius in enumerate(self.radii):
            if success is None:
                success = self.shortest(index, image, label, self.changed(index, image, label, radius, number))
        wrong = None if success is None else self.answer(success, index)
        length = None if success is None else distance(success, image, self.noise.norm)
        seconds = time.perf_counter() - began
        return AttackedImage(index, label, prediction, length, wrong, seconds, image_digest(image, label))

    def shortest(self, index: int, image: Tensor, label: int, changed: Tensor) -> Tensor | None:
        """Shorten a change as far as the answer stays wrong; return None if it is not wrong at all."""
        if self.answer(changed, index) in (label, ABSTAIN):
            return None
        low, high = 0.0, 1.0
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            fooled = self.answer(self.between(image, changed, middle), index) not in (label, ABSTAIN)
            low, high = (low, middle) if fooled else (middle, high)
        return self.between(image, changed, high)

    def between(self, image: Tensor, changed: Tensor, share: float) -> Tensor:
        """Return the image with a share of a change, rounded to an image that the noise allows."""
        return self.noise.nearest(torch.lerp(image, changed, share))

    def changed(self, index: int, image: Tensor, label: int, radius: float, number: int) -> Tensor:
        """Return the end of gradient ascent on the smoothed loss within a radius, pixels in [0, 1]."""
        images, labels = image[None].to(self.device), torch.tensor([label], device=self.device)
        noise, direction = self._noise(images, index, number)
        norm = self.noise.norm
        with frozen(self.model):
            *_, last = ascent(
                images,
                lambda points: smoothed_loss(logits_of(self.model, points + noise), labels).sum(),
                steps=self.config.steps,
                step_size=2 * norm.reach(radius, images[0].numel()) / self.config.steps,
                project=lambda points: norm.project(images, points.clamp(0, 1), radius),
                direction=direction,
            )
        # Rounding in the projection onto the ball may leave [0, 1].
        return self.noise.nearest(last[0].cpu().clamp(0, 1))

    def _noise(self, images: Tensor, index: int, number: int) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
        """Draw the noise of an ascent, and return its directions: where a model is sure, a gradient may be zero."""
        address, copies = (self.config.seed, index, number), self.config.copies
        if self.stream is None:
            rng = generator(images.device, "attack", *address)
            return self.noise.offsets(images, copies, rng), lambda gradient: unit_or_random(gradient, rng)
        noise = gaussian_of(self.noise)
        blank = torch.zeros_like(images)
        drawn = noise.draw(blank, blank.new_empty((copies, *images.shape)), Stream.at("attack", *address), 0)
        draws = Draws(Stream.at("attack", *address, 0), images.device)
        return drawn, lambda gradient: unit_or_drawn(gradient, draws)

    def answer(self, image: Tensor, index: int) -> int:
        """Predict the class with noise that the attack has not seen."""
        address = NoiseAddress(self.config.seed, index, purpose="judge", stream=self.stream)
        return certify_image(self.judge, self.classifier, image, address).prediction

    def keep_pictures(self, path: Path, calls: _Calls) -> None:
        """Write, for the most interesting images, a change just inside the certified radius and one outside."""
        pictures: dict[str, Any] = {}
        metadata: dict[str, Any] = {}
        rows = gallery.chosen(self.certified)
        for row, around in zip(rows, calls.results("around", rows), strict=True):
            for name, (picture, answer) in around.items():
                pictures[f"{row.index}-{name}"] = picture.numpy()
                length = distance(picture, self._image(row.index)[0], self.noise.norm)
                metadata[f"{row.index}-{name}"] = {"distance": length, "answer": answer, "digest": row.digest}
        if pictures:
            gallery.write(attacks.pictures_file(path), pictures, metadata)

    def around(self, row: Row) -> dict[str, tuple[Tensor, int]]:
        """Attack one image inside its certified radius, and outside until the nearest success."""
        image, _ = self._image(row.index)
        answer, number = row.prediction, len(self.radii)
        inside = self.changed(row.index, image, answer, JUST_INSIDE * row.radius, number) if row.radius else image
        pictures = {"inside": (inside, self.answer(inside, row.index))}
        for factor in FARTHER:
            radius = factor * max(row.radius, self.unit / 4)
            changed = self.changed(row.index, image, answer, radius, number := number + 1)
            if (success := self.shortest(row.index, image, answer, changed)) is not None:
                return {**pictures, "outside": (success, self.answer(success, row.index))}
        return pictures

    def _image(self, index: int) -> tuple[Tensor, int]:
        return self.images.batch(torch.tensor([index]))[0], int(self.images.labels[index])


def certified_rows(run: Run, weights: str, data: str, noise: Noise) -> list[Row]:
    """Return the rows of the largest certificate file of these weights and images under this noise."""
    files = [file for file in resume.files_of_weights(run, weights) if file[1].get("data") == data]
    matching = [(path, header) for path, header in files if header.get("noise") in (None, noise.describe())]
    return max((certificates.read_rows(path, header) for path, header in matching), key=len, default=[])


def unit_radius(noise: Noise) -> float:
    """Return the radius of a class that wins for 84 % of the copies: sigma, of Gaussian noise."""
    return float(noise.sigma if isinstance(noise, Gaussian) else noise.radius(gaussian_probability(1.0, 1.0)))


def gaussian_of(noise: Noise) -> Noise:
    """Return grid noise without its rounding, because images under attack are not on the grid; others as they are."""
    return Gaussian(noise.sigma) if isinstance(noise, Gaussian) else noise


def distance(one: Tensor, other: Tensor, norm: Norm = L2) -> float:
    """Return the distance of two images, computed in double precision."""
    return float(torch.linalg.vector_norm(one.double() - other.double(), norm.order))


def differentiable(model: nn.Module, image: Tensor) -> nn.Module:
    """Return the model, or raise a ParameterError if it has no gradient: an ONNX model has none."""
    leaf = image.to(device_of(model)).requires_grad_()
    try:
        torch.autograd.grad(model(leaf).sum(), leaf)
    except RuntimeError as error:
        raise ParameterError("the model has no gradients, which the attack needs: attack a torch model") from error
    return model
