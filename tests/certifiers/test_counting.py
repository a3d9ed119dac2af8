"""Certifiers refuse more or fewer votes than they asked for."""

from typing import Any, ClassVar

import pytest

from radii import certifiers
from radii.certifiers.base import Certifier, Voter
from radii.errors import ParameterError
from radii.smoothing.addresses import NoiseAddress
from radii.smoothing.certificate import Certificate
from tools.stress.classifiers import Miscounter


@pytest.mark.parametrize("factor", [2.0, 1.01, 0.99, 0.5])
@pytest.mark.parametrize("name", certifiers.names())
def test_miscounted_votes_are_refused(name: str, factor: float) -> None:
    with pytest.raises(ParameterError, match=r"the classifier gave .* for \d+ samples, expected .*: it miscounts"):
        certifiers.create(name).certify(Miscounter(factor), None, NoiseAddress(0))


@pytest.mark.parametrize("name", certifiers.names())
def test_counts_of_another_number_of_classes_are_refused(name: str) -> None:
    voter = Miscounter(1.0)
    voter.classes = 3
    with pytest.raises(ParameterError, match="it miscounts"):
        certifiers.create(name).certify(voter, None, NoiseAddress(0))


class Careless(Certifier):
    """A user's certifier that does not check the number of votes."""

    samples: ClassVar[int] = 100

    def fewest_samples(self) -> tuple[str, int]:
        return "samples", 1

    def certify(self, classifier: Voter, image: Any, noise: NoiseAddress, label: int | None = None) -> Certificate:
        return self.proven(0, 1.0, 100, classifier.votes(image, 100, noise))


def test_a_certificate_of_more_votes_than_samples_is_refused() -> None:
    with pytest.raises(ParameterError, match="gave 200 votes for 100 samples"):
        Careless().certify(Miscounter(2.0), None, NoiseAddress(0))
