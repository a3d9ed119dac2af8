"""Check one certificate file without forward passes: its header, digests, images and radii."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from radii import certifiers
from radii.certification.data import EVALUATED_ON, evaluated_images, named_in
from radii.certification.update import FROM, OldCertificates, Update
from radii.certifiers import Certifier, population
from radii.certifiers.population import OnePass
from radii.datasets import DataError, Images
from radii.fields import from_mapping
from radii.provenance import artefact_digest, artefact_path, code_digests
from radii.runs import trust
from radii.runs.certificates import CHECKSUM, ENVIRONMENTS, FORMAT, KIND, POLYNOMIALS, POPULATION, Certificates, Row
from radii.runs.function import FUNCTION, MODEL, function_difference
from radii.runs.run import Run
from radii.runs.shards import SHARD
from radii.smoothing import noise as noises
from radii.smoothing.certificate import ABSTAIN
from radii.smoothing.noise import Noise
from radii.training.weights import model_spec

TOLERANCE = 1e-9
"""The relative tolerance of a recomputed radius: other versions of a library may differ in the last digits."""
CHOICE = ("images", "every", "most")
"""The fields of every header that say which images were chosen before any result."""
ALWAYS = ("data", "code", "artefact", "engine", *CHOICE)
"""Fields that every header of the present format has; version 0.1 lacked some."""
OLDER = "batch_size"
"""A field that the draws of files without a `stream` depend on."""


class CheckResult:
    """The outcome of a check: what differs, and what could not be checked."""

    differences: Sequence[str]
    unchecked: Sequence[str]

    @property
    def equal(self) -> bool:
        return not self.differences and not self.unchecked

    @property
    def exit_code(self) -> int:
        """0 if everything agrees, 1 if something differs, 2 if something could not be checked."""
        return 1 if self.differences else 2 if self.unchecked else 0

    @property
    def problem(self) -> str:
        """What differs or could not be checked: the first sentence, and how many more there are."""
        sentences = self.differences or self.unchecked
        if not sentences:
            return ""
        more = f"; and {len(sentences) - 1} more" if len(sentences) > 1 else ""
        return f"{'differs' if self.differences else 'cannot be checked'}: {sentences[0]}{more}"


class Shift(NamedTuple):
    """How the votes of a row differ from those of its replay."""

    favour: int
    """Votes for the stated class, minus those counted here."""
    ties: int
    """Copies that rounding may decide here: their number does not depend on what the file states."""
    correct: bool


@dataclass
class Verification:
    """The state of a verification: the current certificate file, and the differences so far."""

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
    batch_size: int | None = None
    """Noisy copies of a forward pass, in place of the certificates' own."""
    shifts: list[Shift] = field(default_factory=list)
    """How the current file's replayed rows differ, where a class is stated."""
    path: Path = Path()
    certificates: Certificates = field(default_factory=lambda: Certificates("", ()))
    opened: dict[tuple[Any, ...], Images] = field(default_factory=dict)
    """The images of the files so far, by the part and dataset that their headers name."""

    def begin(self, path: Path, certificates: Certificates) -> None:
        """Start the next file."""
        self.path, self.certificates = path, certificates
        self.shifts = []
        self.missing += len(self.expected) - len(certificates.rows) if "images" in certificates.header else 0

    def differs(self, what: str, row: Row | None = None) -> None:
        """Record a difference of the current file, or of one of its rows."""
        self.differences.append(f"{self.path}{'' if row is None else f', image {row.index}'}: {what}")

    def cannot_check(self, why: str) -> None:
        """Record that something about the current file could not be checked."""
        self.unchecked.append(f"{self.path}: {why}")

    @property
    def header(self) -> dict[str, Any]:
        return dict(self.certificates.header)

    @property
    def expected(self) -> Sequence[int]:
        """The images that the file should contain according to its header."""
        header = self.header
        return range(0, header.get("images", 1 << 62), header.get("every", 1))[: header.get("most")]

    def images(self) -> Images | None:
        """Open the images that the file is about; record why if they cannot be opened."""
        try:
            named = named_in(self.run, self.header)
            if named not in self.opened:
                self.opened[named] = evaluated_images(self.run, *named, self.data).images
        except DataError as error:
            self.cannot_check(f"the data were not found: {error}")
            return None
        except (LookupError, ValueError, TypeError) as error:
            self.cannot_check(f"its images cannot be opened: {message_of(error)}")
            return None
        return self.opened[named]


def check_header(verification: Verification) -> None:
    """Record fields that a header must have and does not; that of version 0.1 has fewer.

    Without them rows could be selected after seeing the results.
    """
    header = verification.header
    first = header.get("format", 1) < FORMAT
    needed = CHOICE if first else ALWAYS if "stream" in header else (*ALWAYS, OLDER)
    if missing := [name for name in needed if name not in header]:
        verification.cannot_check(f"its header has no {missing[0]!r}: restore it")
    if first:
        return
    if not all(CHECKSUM in environment for environment in header.get(ENVIRONMENTS, [{}])):
        verification.notes.append(f"{verification.path} is without a checksum of its environments")
    if bare := [row.index for row in verification.certificates.rows if not row.digest]:
        verification.cannot_check(f"image {bare[0]} has no digest: restore it")


def check_digests(verification: Verification) -> bool:
    """Compare weights, code and the engine's artefact; return whether rows can be replayed."""
    header, run = verification.header, verification.run
    weights = run.weights_digest()
    if header.get("weights") != weights:
        stated = str(header.get("weights"))[:8]
        verification.differs(f"it was made with the weights {stated}, the run has {weights[:8]}")
        return False
    code = header.get("code", {})
    changed = [name for name, digest in code_digests(code).items() if digest != code[name]]
    for name in changed:
        verification.differs(f"the code of {name} has changed")
    recipe = {MODEL: run.recipe.model_digest}
    if difference := function_difference(header.get(FUNCTION, {}), recipe, 0.0):
        verification.differs(f"it was made with {difference}: restore recipe.toml")
        return False
    return not changed and _same_artefact(verification, weights)


def _same_artefact(verification: Verification, weights: str) -> bool:
    header = verification.header
    if verification.engine not in (None, header.get("engine")) or not {"artefact", "engine"} <= header.keys():
        return True
    same: bool = artefact_digest(artefact_path(verification.run, header["engine"], weights)) == header["artefact"]
    if not same:
        verification.differs(f"the artefact of the engine {header['engine']!r} has changed, or is missing")
    return same


def check_images(verification: Verification) -> bool:
    """Compare every row's image and label, and the split, with the data; return whether the data were found."""
    images = verification.images()
    if images is None:
        return False
    expected, stated = verification.expected, verification.header.get("images", len(images))
    own = verification.run.recipe.dataset["name"]
    if verification.header.get("dataset", own) != own and EVALUATED_ON not in verification.header:
        verification.differs(f"its header states the dataset {verification.header['dataset']!r}, the run has {own!r}")
    if stated != len(images):
        verification.differs(f"its header states {stated:,} images, the split has {len(images):,}")
    for row in verification.certificates.rows:
        if not 0 <= row.index < len(images):
            verification.differs(f"there are only {len(images)} images", row)
        elif row.index not in expected:
            verification.differs("the header does not include this image", row)
        elif row.label != int(images.labels[row.index]):
            verification.differs(f"its label is {int(images.labels[row.index])}, not {row.label}", row)
        elif row.digest and row.digest != images.image_digest(row.index):
            verification.differs("the image differs", row)
    indices = {row.index for row in verification.certificates.rows}
    if SHARD not in verification.header and not indices >= set(expected[: len(indices)]):
        verification.cannot_check("rows are missing before others: they may have been left out for their results")
    if verification.header.get("data", images.digest) != images.digest:
        verification.differs("the images of the split are not those that it was made from")
    return True


def check_radii(verification: Verification) -> None:
    """Recompute every radius from its counts, as far as they determine it."""
    if (made := _smoothing(verification, "its radii cannot be recomputed")) is None:
        return
    certifier, noise, classes = made
    _check_norm(verification, noise)
    for row in verification.certificates.rows:
        try:
            if problem := radius_problem(certifier, noise, row, classes):
                verification.differs(problem, row)
        except ValueError as error:
            verification.differs(str(error), row)


def _smoothing(verification: Verification, problem: str) -> tuple[Certifier, Noise, int] | None:
    """Make the certifier and the noise, and count the classes; record the problem if that fails."""
    try:
        return certifier_of(verification), noise_of(verification), model_spec(verification.run).classes
    except (LookupError, ValueError, TypeError) as error:
        verification.cannot_check(f"{problem}: {message_of(error)}")
        return None


def _check_norm(verification: Verification, noise: Noise) -> None:
    if (stated := verification.header.get("norm")) != noise.stated_norm().get("norm"):
        verification.differs(
            f"its header states radii in {stated or 'l2'}, the noise {noise.name!r} has them in {noise.norm}"
        )


def check_update(verification: Verification, old: OldCertificates) -> None:
    """Recompute every radius of an update from the old certificate of the image and the copies that its class lost."""
    header, before = verification.header, old.rows
    stated = {key: value for key, value in header[FROM].items() if key != "file"}
    known = {key: value for key, value in old.describe(verification.run).items() if key != "file"}
    if stated != known:
        verification.differs("its header describes other certificates than those that it names")
        return
    try:
        certifier, noise = certifier_of(verification), noise_of(verification)
        share = certifier.share(old.failure) if isinstance(certifier, Update) else 0.0
    except (LookupError, ValueError, TypeError) as error:
        verification.cannot_check(f"its radii cannot be recomputed: {message_of(error)}")
        return
    if header.get("noise") != old.file.header.get("noise") or header.get("data") != old.file.header.get("data"):
        verification.differs("its noise or its images are not those of the certificates that it was made from")
        return
    _check_norm(verification, noise)
    if bool(header.get("label_known")) != old.label_known:
        verification.differs("it states otherwise than the certificates that it was made from if the label was known")
    for row in verification.certificates.rows:
        earlier = before.get(row.index)
        if earlier is None or earlier.digest != row.digest:
            verification.differs("there is no old certificate of this image", row)
        elif problem := _update_problem(certifier, earlier, row, share, noise):
            verification.differs(problem, row)


def _update_problem(certifier: Certifier, old: Row, row: Row, share: float, noise: Noise) -> str:
    """Describe how a row contradicts the old certificate and its counts; empty if it does not."""
    if not isinstance(certifier, Update):
        return f"the certifier {certifier.name!r} makes no updates"
    if old.prediction == ABSTAIN:
        return "" if (row.prediction, row.radius) == (ABSTAIN, 0.0) else "the old certificate abstains"
    kept = row.counts.get(old.prediction, 0)
    most = certifier.copies(old.radius, share, noise)
    if set(row.counts) - {old.prediction} or not 0 <= kept <= most or row.samples != 2 * certifier.samples:
        return f"it has votes for other classes than {old.prediction}, or more than {most}"
    radius = certifier.radius(old.radius, kept, share, noise)
    if row.prediction == ABSTAIN:
        return f"an abstention has the radius {row.radius}" if row.radius else ""
    if row.prediction == old.prediction and radius >= 0 and math.isclose(row.radius, radius, rel_tol=TOLERANCE):
        return ""
    return f"the old certificate and the counts prove {f'radius {radius}' if radius >= 0 else 'nothing'}"


def radius_problem(certifier: Certifier, noise: Noise, row: Row, classes: int) -> str:
    """Describe how a row's radius contradicts its counts; empty if it does not."""
    counts = np.zeros(classes, dtype=np.int64)
    for label, count in row.counts.items():
        if not 0 <= label < classes or count < 0:
            return f"{count} votes for class {label}, expected counts of classes 0 to {classes - 1}"
        counts[label] = count
    # An abstention claims nothing: only its counts are checked here, and a replay checks whether it was needed.
    tested = int(counts.argmax()) if row.prediction == ABSTAIN else row.prediction
    if not 0 <= tested < classes or row.samples is None:
        return f"class {tested} of {row.samples} samples is not a result for {classes} classes"
    possible = certifier.possible_radii(counts, row.samples, tested, noise)
    if row.prediction == ABSTAIN:
        return f"an abstention has the radius {row.radius}" if row.radius else ""
    if possible is None or any(math.isclose(row.radius, radius, rel_tol=TOLERANCE) for radius in possible):
        return ""
    return f"the counts prove {f'radius {possible[-1]}' if possible else 'nothing'}, not radius {row.radius}"


def check_population(verification: Verification) -> None:
    """Prove the polynomials of a file again, and compare its votes with its header."""
    if (made := _smoothing(verification, "what it proves cannot be computed again")) is None:
        return
    certifier, noise, classes = made
    if not isinstance(certifier, OnePass):
        verification.cannot_check(f"its certifier {certifier.name!r} is about single images")
        return
    _check_norm(verification, noise)
    for radius in certifier.radii:
        coefficients = np.array(verification.header[POLYNOMIALS][repr(radius)])
        if not certifier.is_proven(noise, radius, coefficients):
            verification.differs(f"its polynomial for radius {radius:g} is not proven to bound the accuracy")
    for row in verification.certificates.rows:
        if row.prediction != ABSTAIN or row.radius or row.samples != certifier.votes:
            verification.differs("a row about a population abstains after its votes, this one does not", row)
        elif not all(0 <= label < classes and count > 0 for label, count in row.counts.items()):
            verification.differs(f"it has votes for other classes than the {classes} of the model", row)


def message_of(error: Exception) -> str:
    """Return the message of an error; a KeyError is a field that the header does not have."""
    return f"its header has no {error}" if type(error) is KeyError else str(error.args[0] if error.args else error)


def certifier_of(verification: Verification) -> Certifier:
    """Make the certifier that the header names; refuse untrusted code."""
    header = verification.header
    trust.require([header["procedure"]], verification.run.trusted, verification.path)
    fields = {key: tuple(value) if isinstance(value, list) else value for key, value in header["parameters"].items()}
    if header.get(KIND) == POPULATION:
        return population.create(header["procedure"], **fields)
    if FROM in header:
        update: Update = from_mapping(Update, fields, "certifier 'update'")
        return update
    return certifiers.create(header["procedure"], **fields)


def noise_of(verification: Verification) -> Noise:
    """Make the noise that the header names; version 0.1 had only Gaussian noise."""
    table = dict(verification.header.get("noise") or {"name": "gaussian", "sigma": verification.header["sigma"]})
    name = table.pop("name")
    trust.require([name], verification.run.trusted, verification.path)
    return noises.create(name, **table)
