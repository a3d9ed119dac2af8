"""Certify new weights from the certificates of old ones: only the copies on which both disagree are counted.

For the class A of an old certificate with p(A) >= L, the new function f' has p'(A) >= L - P[f = A and f' != A],
whatever it is. That probability is bounded from above by counting such copies among draws that both functions see, by
Clopper and Pearson. The old bound and this one fail with probabilities that add up, so it does not matter whether draws
are shared: `failure` is their sum. A new function that has little in common with the old one abstains everywhere.
Where nearly all old copies agreed, pairs cannot keep the radius; there the new function alone is asked about twice the
copies. So an update is expected to prove no less than starting over with as many passes. (Ugare et al. 2024 bound the
disagreement of both functions; here only the copies that the class loses count.)
"""

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from radii import disk
from radii.certifiers.base import About, Certifier, Steps
from radii.errors import ParameterError
from radii.fields import option
from radii.runs import certificates
from radii.runs.certificates import Certificates, Row, header_file
from radii.runs.run import Run, RunError
from radii.smoothing.bounds import binomial_lower, binomial_upper, fewest_to_certify
from radii.smoothing.noise import Noise

FROM = "from"
"""The field of a header that names the certificates that a file was made from."""
ROUNDING = 1e-12
"""Subtracted from the old bound, which is computed from the old radius."""


@dataclass(frozen=True, kw_only=True)
class Update(Certifier):
    """The radius that an old certificate and a bound on the copies that its class loses prove for new weights."""

    failure: float = option(0.002, gt=0, lt=1)
    """The failure probability of the old certificate and of the bound together."""
    samples: int = option(1_000, ge=1)
    """Copies that both functions see, for each image."""

    def fewest_samples(self) -> tuple[str, int]:
        return "samples", fewest_to_certify(self.failure)

    def certify(self, about: About, label: int | None = None) -> Steps:
        raise ParameterError("new weights are certified from the certificates of old ones: name these", "certifier")
        yield

    def share(self, spent: float) -> float:
        """Return what the old certificates leave of the failure probability."""
        share = self.failure - spent
        if share < 1e-9:
            raise ValueError(
                f"failure = {self.failure:g} leaves nothing for the disagreements, because the old certificates spend "
                f"{spent:g}: use more than that"
            )
        return share

    def is_alone(self, before: float, share: float, noise: Noise) -> bool:
        """Return whether twice the copies by the new function alone are expected to prove more than pairs do.

        It depends on the old radius only, so the copies are fresh and the class is fixed before them.
        """
        twice = 2 * self.samples
        expected = binomial_lower(math.floor(twice * noise.probability_for(before)), twice, self.failure)
        return expected > self._paired(before, self.samples, share, noise)

    def copies(self, before: float, share: float, noise: Noise) -> int:
        """Return how many copies the new function is asked about."""
        return 2 * self.samples if self.is_alone(before, share, noise) else self.samples

    def radius(self, before: float, kept: int, share: float, noise: Noise) -> float:
        """Return the proven radius if the class wins, or does not lose, so many copies; below zero nothing is."""
        if self.is_alone(before, share, noise):
            lower = binomial_lower(kept, 2 * self.samples, self.failure)
        else:
            lower = self._paired(before, kept, share, noise)
        return float(noise.radius(lower)) if lower >= 0.5 else -1.0

    def _paired(self, before: float, kept: int, share: float, noise: Noise) -> float:
        """Return what the old bound and the copies that the class did not lose prove of its probability."""
        lost = self.samples - kept
        return noise.probability_for(before) - ROUNDING - binomial_upper(lost, self.samples, share)


@dataclass(frozen=True)
class OldCertificates:
    """Certificates of votes, and the run whose weights they are about."""

    run: Run
    path: Path
    file: Certificates

    @property
    def failure(self) -> float:
        if self.file.failure is None:
            raise ValueError(f"the header of {self.path} states no failure probability: certify again")
        return self.file.failure

    @property
    def label_known(self) -> bool:
        """Whether the label itself was tested."""
        return bool(self.file.header.get("label_known", self.file.certifier == "sequential"))

    @property
    def links(self) -> int:
        """The number of updates between these certificates and the first, which were not updates."""
        return int(self.file.header[FROM]["links"]) if FROM in self.file.header else 0

    @cached_property
    def rows(self) -> dict[int, Row]:
        """The certificates by image."""
        return {row.index: row for row in self.file.rows}

    def describe(self, new: Run) -> dict[str, Any]:
        """Return what the header of an update records: the path from the new run, the digest, and what was spent."""
        return {
            "file": os.path.relpath(self.path.resolve(), new.path.resolve()),
            "digest": disk.digest(self.path),
            "procedure": self.file.certifier,
            "weights": self.file.header["weights"],
            "engine": self.file.header["engine"],
            "failure": self.failure,
            "links": self.links + 1,
        }


def open_old(path: Path, trust: frozenset[str] = frozenset()) -> OldCertificates:
    """Open the certificates of a run, or one certificate file in a run; refuse what an update cannot build on."""
    if path.is_dir():
        run = Run(path, trust)
        run.recipe  # noqa: B018  raises first if it is not a run
        weights, usable = run.weights_digest(), []
        for file in sorted(run.certificates.glob("*.tsv")):
            if certificates.has_rows(file) and header_file(file).is_file():
                read = certificates.read(file)
                if read.header.get("weights") == weights and not _problem(read):
                    usable.append(OldCertificates(run, file, read))
        first = [old for old in usable if FROM not in old.file.header] or usable
        if len(first) != 1:
            names = ", ".join(old.path.name for old in first)
            many = f"{len(first)} certificate files that an update can build on: {names}; name one of them"
            raise RunError(f"{path} holds {many if first else 'no finished certificates of votes: make them first'}")
        return first[0]
    old = OldCertificates(Run(path.resolve().parent.parent, trust), path, certificates.read(path))
    if problem := _problem(old.file):
        raise RunError(f"{path} {problem}")
    if old.run.weights_digest() != old.file.header["weights"]:
        raise RunError(f"{path} is about other weights than those of {old.run.path}: restore them")
    return old


def _problem(file: Certificates) -> str:
    """Describe why an update cannot build on a certificate file; empty if it can."""
    header = file.header
    if not {"weights", "data", "engine", "images", "every", "seed"} <= header.keys():
        return "does not record how it was made: certify again"
    if file.certifier not in ("fixed", "sequential", "planned", "update"):
        return f"was made by {file.certifier!r}, and an update needs votes that prove a radius: use fixed"
    if header["parameters"].get("bound", "top") != "top":
        return "bounds two classes, and an update needs a bound on one: use bound=top"
    return f"is not finished, {file.missing} images are missing: finish it first" if file.missing else ""


def named_old(run: Run, header: Mapping[str, Any]) -> OldCertificates:
    """Open the certificates that the header of an update names; raise a ValueError if they are not what it names."""
    stated = header[FROM]
    path = Path(os.path.normpath(run.path.resolve() / stated["file"]))
    if not path.is_file():
        raise FileNotFoundError(f"the certificates that it was made from are not at {stated['file']}: put them there")
    if disk.digest(path) != stated["digest"]:
        raise ValueError(f"{stated['file']}, which it was made from, has changed since")
    return open_old(path, run.trusted)
