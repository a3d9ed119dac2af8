"""The checks of one certificate file: its digests, images and radii, and rows that are computed again."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radii import certifiers
from radii.certification.certify import Certification, CertificationConfig, open_certification
from radii.certification.data import evaluated_images, named_in
from radii.certifiers import Certifier
from radii.datasets import DataError, Images
from radii.provenance import artefact_digest, artefact_path, code_digests, rounding_environment
from radii.runs import trust
from radii.runs.certificates import (
    CHECKSUM,
    ENVIRONMENTS,
    FIRST_ROW,
    FORMAT,
    Certificates,
    Row,
    described,
    recorded_difference,
)
from radii.runs.function import COARSE, FUNCTION, MODEL, function_difference
from radii.runs.run import Run
from radii.smoothing import noise as noises
from radii.smoothing.certificate import ABSTAIN
from radii.smoothing.noise import Noise
from radii.smoothing.questions import Answer, FavouredVotes, NearTies, Question, Task, Votes
from radii.training.weights import model_digest, model_spec
from radii.workers.voter import one_thread

ROUNDING = 1e-4
"""How far float32 arithmetic in another order may move a logit of a deep network, as a share of the largest."""
INT8_ROUNDING = 0.05
"""The same for eight-bit arithmetic, whose steps are coarser."""
MEAN_ROUNDING = 1e-3
"""How far rounding may move a radius of mean probabilities, as a share of it."""
ONE_SIDED = 4.0
"""Standard deviations by which votes may favour the claims of a file: rounding moves votes for and against them."""
TOLERANCE = 1e-9
"""The relative tolerance of a recomputed radius: other versions of a library may differ in the last digits."""

Count = Callable[[Sequence[Question]], list[Answer]]
"""Count the answers to questions about one image."""

ALWAYS = ("data", "code", "artefact", "engine", "batch_size", "images", "every", "most")
"""Fields of a header that are compared where they are there: version 0.1 lacked some."""


@dataclass
class Checked:
    """The state of a verification: the current file and the findings so far."""

    run: Run
    data: Path | None
    engine: str | None
    """An engine to use instead of the certificates' own."""
    differences: list[str] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    missing: int = 0
    replayed: int = 0
    moved: int = 0
    favour: int = 0
    """Votes for the stated classes in the current file's replayed rows beyond those counted here."""
    doubtful: int = 0
    """Votes of the current file's replayed rows that differ, where a class is stated."""
    path: Path = Path()
    made: Certificates = field(default_factory=lambda: Certificates("", ()))
    opened: dict[tuple[Any, ...], Images] = field(default_factory=dict)
    """The images of the files so far, by what their headers name."""

    def begin(self, path: Path, made: Certificates) -> None:
        """Start the next file."""
        self.path, self.made = path, made
        self.favour = self.doubtful = 0
        self.missing += len(self.wanted) - len(made.rows) if "images" in made.header else 0

    def differs(self, what: str, row: Row | None = None) -> None:
        self.differences.append(f"{self.path}{'' if row is None else f', image {row.index}'}: {what}")

    def cannot(self, why: str) -> None:
        self.unchecked.append(f"{self.path}: {why}")

    @property
    def header(self) -> dict[str, Any]:
        return dict(self.made.header)

    @property
    def wanted(self) -> Sequence[int]:
        """The images that the file should contain according to its header."""
        header = self.header
        return range(0, header.get("images", 1 << 62), header.get("every", 1))[: header.get("most")]

    def split(self) -> Images | None:
        """The images that the file is about; if they are missing, that is recorded as unchecked."""
        try:
            named = named_in(self.run, self.header)
            if named not in self.opened:
                self.opened[named] = evaluated_images(self.run, *named, self.data).images
        except DataError as error:
            self.cannot(f"the data were not found: {error}")
            return None
        except (LookupError, ValueError, TypeError) as error:
            self.cannot(f"its images cannot be opened: {in_words(error)}")
            return None
        return self.opened[named]


def check_header(checked: Checked) -> None:
    """Tell what a file of ours always states and this one does not: without it rows could be chosen unseen."""
    if checked.header.get("format", 1) < FORMAT:
        return
    if missing := [name for name in ALWAYS if name not in checked.header]:
        checked.cannot(f"its header has no {missing[0]!r}: restore it")
    if not all(CHECKSUM in entry for entry in checked.header.get(ENVIRONMENTS, [{}])):
        checked.notes.append(f"{checked.path} is without a checksum of its environments")
    if bare := [row.index for row in checked.made.rows if not row.digest]:
        checked.cannot(f"image {bare[0]} has no digest: restore it")


def check_digests(checked: Checked) -> bool:
    """Compare weights, code and the engine's artefact; returns whether rows can be replayed."""
    header, run = checked.header, checked.run
    weights = run.weights_digest()
    if header.get("weights") != weights:
        checked.differs(f"it is of the weights {str(header.get('weights'))[:8]}, the run has {weights[:8]}")
        return False
    code = header.get("code", {})
    changed = [name for name, digest in code_digests(code).items() if digest != code[name]]
    for name in changed:
        checked.differs(f"the code of {name} has changed")
    recipe = {MODEL: model_digest(run.recipe)}
    if difference := function_difference(header.get(FUNCTION, {}), recipe, 0.0):
        checked.differs(f"it was made with {difference}: restore recipe.toml")
        return False
    return not changed and _same_artefact(checked, weights)


def _same_artefact(checked: Checked, weights: str) -> bool:
    header = checked.header
    if checked.engine not in (None, header.get("engine")) or not {"artefact", "engine"} <= header.keys():
        return True
    same: bool = artefact_digest(artefact_path(checked.run, header["engine"], weights)) == header["artefact"]
    if not same:
        checked.differs(f"the artefact of the engine {header['engine']!r} has changed, or is missing")
    return same


def check_images(checked: Checked) -> bool:
    """Compare every row's image and label, and the split, with the data; returns whether the data were found."""
    images = checked.split()
    if images is None:
        return False
    wanted = checked.wanted
    for row in checked.made.rows:
        if not 0 <= row.index < len(images):
            checked.differs(f"there are only {len(images)} images", row)
        elif row.index not in wanted:
            checked.differs("the header does not include this image", row)
        elif row.label != int(images.labels[row.index]):
            checked.differs(f"its label is {int(images.labels[row.index])}, not {row.label}", row)
        elif row.digest and row.digest != images.image_digest(row.index):
            checked.differs("the image differs", row)
    if checked.header.get("data", images.digest) != images.digest:
        checked.differs("the images of the split are not those that it was made from")
    return True


def check_radii(checked: Checked) -> None:
    """Recompute every radius from its counts, as far as they determine it."""
    try:
        certifier, noise = certifier_of(checked), noise_of(checked)
        classes = model_spec(checked.run).classes
    except (LookupError, ValueError, TypeError) as error:
        checked.cannot(f"its radii cannot be recomputed: {in_words(error)}")
        return
    if (stated := checked.header.get("norm")) != noise.stated_norm().get("norm"):
        checked.differs(
            f"its header states radii in {stated or 'l2'}, the noise {noise.name!r} has them in {noise.norm}"
        )
    for row in checked.made.rows:
        try:
            if wrong := _wrong_radius(certifier, noise, row, classes):
                checked.differs(wrong, row)
        except ValueError as error:
            checked.differs(str(error), row)


def _wrong_radius(certifier: Certifier, noise: Noise, row: Row, classes: int) -> str:
    counts = _counts(row, classes)
    # An abstention claims nothing: only its counts are checked here, and a replay checks whether it was needed.
    tested = int(counts.argmax()) if row.prediction == ABSTAIN else row.prediction
    if not 0 <= tested < classes or row.samples is None:
        return f"class {tested} of {row.samples} samples is not a result for {classes} classes"
    possible = certifier.possible_radii(counts, row.samples, tested, noise)
    if row.prediction == ABSTAIN:
        return f"an abstention has the radius {row.radius}" if row.radius else ""
    if possible is None or any(math.isclose(row.radius, each, rel_tol=TOLERANCE) for each in possible):
        return ""
    return f"the counts prove {f'radius {possible[-1]}' if possible else 'nothing'}, not radius {row.radius}"


def in_words(error: Exception) -> str:
    """An error as a sentence, also for a missing field of a header."""
    return f"its header has no {error}" if type(error) is KeyError else str(error.args[0] if error.args else error)


def _counts(row: Row, classes: int) -> NDArray[np.int64]:
    counts = np.zeros(classes, dtype=np.int64)
    for label, count in row.counts.items():
        if not 0 <= label < classes or count < 0:
            raise ValueError(f"{count} votes for class {label}, expected counts of classes 0 to {classes - 1}")
        counts[label] = count
    return counts


def certifier_of(checked: Checked) -> Certifier:
    """The certifier that a header names; untrusted code is refused."""
    header = checked.header
    trust.require([header["procedure"]], checked.run.trusted, checked.path)
    fields = {key: tuple(value) if isinstance(value, list) else value for key, value in header["parameters"].items()}
    return certifiers.create(header["procedure"], **fields)


def noise_of(checked: Checked) -> Noise:
    """The noise that a header names; version 0.1 had only Gaussian noise."""
    table = dict(checked.header.get("noise") or {"name": "gaussian", "sigma": checked.header["sigma"]})
    name = table.pop("name")
    trust.require([name], checked.run.trusted, checked.path)
    return noises.create(name, **table)


def replay(checked: Checked, rows: Sequence[Row], workers: int) -> Iterator[Row]:
    """Certify images again from their noise addresses and compare; yields each replayed row."""
    try:
        certification = _certification(checked)
    except (LookupError, ValueError, TypeError, OSError) as error:
        checked.cannot(f"it cannot be replayed: {in_words(error)}")
        return
    if difference := _another_function(checked, certification):
        checked.differs(f"it was made with {difference}")
        return
    here = [row for row in rows if 0 <= row.index < len(certification.samples)]
    for row, again in zip(here, certification.rows([row.index for row in here], workers), strict=True):
        checked.replayed += 1
        if _answer(row) != _answer(again):
            _explain(checked, certification, row, again)
        yield row
    if checked.favour > ONE_SIDED * math.sqrt(checked.doubtful):
        checked.cannot(
            f"its radii are not confirmed here: of {checked.doubtful} votes that differ, {checked.favour} more favour "
            "the stated classes than oppose them, where rounding goes both ways; replay it on the machine that made it"
        )


def _another_function(checked: Checked, certification: Certification) -> str:
    engine, header = certification.classifier.engine, checked.header
    if engine != header["engine"]:
        return function_difference(header.get(FUNCTION, {}), certification.function, COARSE)
    return recorded_difference(header, certification.function, rounding_environment(engine))


def _certification(checked: Checked) -> Certification:
    """The certification that a header describes."""
    header = checked.header
    engine = checked.engine or header["engine"]
    trust.require([engine], checked.run.trusted, checked.path)
    part, other = named_in(checked.run, header)
    config = CertificationConfig(
        run=checked.run.path,
        certifier=certifier_of(checked),
        noise=noise_of(checked),
        seed=header["seed"],
        engine=engine,
        batch_size=header["batch_size"],
        data=checked.data,
        split=part,
        dataset=other,
        trust=checked.run.trusted,
        label_known=header.get("label_known", True),
    )
    return open_certification(config, checked.run)


def _answer(row: Row) -> tuple[Any, ...]:
    return row.prediction, row.radius, row.samples, {label: count for label, count in row.counts.items() if count}


def _explain(checked: Checked, certification: Certification, row: Row, again: Row) -> None:
    """Report a row that a replay does not reproduce, unless it was made elsewhere and rounding explains it."""
    what = f"a replay gives class {again.prediction} with radius {again.radius}, not {row.prediction} with {row.radius}"
    if _same_place(checked, certification, row):
        checked.differs(f"{what}; {_moved(row, again)} votes differ", row)
        return
    moved, most = _moved(row, again), _near_ties(certification, row)
    if row.samples != again.samples and most:
        checked.cannot(f"image {row.index} took {row.samples} samples, here {again.samples}, as rounding may decide")
    elif not row.counts and not again.counts:
        if not _nearly(row, again):
            checked.differs(what, row)
    elif moved > most:
        checked.differs(f"{what}; {moved} votes differ, rounding explains at most {most}", row)
    else:
        checked.moved += moved
        _check_claim(checked, certification, row, again)


def _check_claim(checked: Checked, certification: Certification, row: Row, again: Row) -> None:
    """Report a claim that this replay does not prove, even if rounding decided every near tie for it.

    What stays possible for a row may still be a forgery where it happens in one direction: that is counted.
    """
    if row.prediction == ABSTAIN:
        return
    checked.doubtful += _moved(row, again)
    checked.favour += row.counts.get(row.prediction, 0) - again.counts.get(row.prediction, 0)
    if _proves(again, row):
        return
    best = _favoured(certification, row)
    if not _proves(best, row):
        checked.cannot(
            f"image {row.index}: class {row.prediction} with radius {row.radius} is not confirmed here: a replay gives "
            f"class {again.prediction} with radius {again.radius}, and {best.radius} if every near tie were for it"
        )


def _proves(result: Row, claim: Row) -> bool:
    """Whether a result is as good as a claim."""
    return result.prediction == claim.prediction and result.radius >= claim.radius * (1 - TOLERANCE)


def _nearly(row: Row, again: Row) -> bool:
    """Whether two results from mean probabilities are equal up to rounding."""
    return row.prediction == again.prediction and math.isclose(row.radius, again.radius, rel_tol=MEAN_ROUNDING)


def _same_place(checked: Checked, certification: Certification, row: Row) -> bool:
    """Whether a row was made with this engine, instruction set, device and versions: then no vote may differ."""
    if certification.classifier.engine != checked.header["engine"]:
        return False
    number = list(checked.made.rows).index(row)
    before = [entry for entry in checked.header.get(ENVIRONMENTS, []) if entry[FIRST_ROW] <= number]
    return bool(before) and described(before[-1]) == rounding_environment(certification.classifier.engine)


def _moved(row: Row, again: Row) -> int:
    """How many votes are for another class."""
    labels = row.counts.keys() | again.counts.keys()
    return math.ceil(sum(abs(row.counts.get(label, 0) - again.counts.get(label, 0)) for label in labels) / 2)


def _rounding(engine: str) -> float:
    return INT8_ROUNDING if "int8" in engine else ROUNDING


def _near_ties(certification: Certification, row: Row) -> int:
    """Count the copies of an image whose two largest logits are within the rounding of the engine."""
    classifier, ties = certification.classifier, 0
    rounding = _rounding(classifier.engine)

    def answer(question: Question, count: Count) -> Answer:
        nonlocal ties
        votes, found = count([question, NearTies(question.stage, question.first, question.count, rounding)])
        ties += int(found[0])
        return votes

    _replay_with(certification, row, answer)
    return ties


def _favoured(certification: Certification, row: Row) -> Row:
    """The result if rounding decided for the row's class wherever it may."""
    rounding = _rounding(certification.classifier.engine)

    def answer(question: Question, count: Count) -> Answer:
        if type(question) is Votes:
            question = FavouredVotes(question.stage, question.first, question.count, row.prediction, rounding)
        return count([question])[0]

    return _replay_with(certification, row, answer)


def _replay_with(certification: Certification, row: Row, answer: Callable[[Question, Count], Answer]) -> Row:
    """Certify the image of a row with answers of one's own, given a way to count."""
    image, address, steps = certification.program(row.index)

    def count(questions: Sequence[Question]) -> list[Answer]:
        with one_thread():
            return certification.classifier.count([Task(image, address, question) for question in questions])

    reply = None
    while True:
        try:
            question = steps.send(reply)  # type: ignore[arg-type]
        except StopIteration as stopped:
            result: Row = stopped.value
            return result
        reply = answer(question, count)
