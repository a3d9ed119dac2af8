"""A fixed number of samples: some pick the class, fresh ones bound its probability (Cohen et al. 2019, CERTIFY)."""

from dataclasses import dataclass
from typing import Any

from radii.certifiers.base import Certifier, Voter
from radii.fields import option
from radii.smoothing.bounds import binomial_lower, fewest_to_certify, radius_at
from radii.smoothing.certificate import ABSTAIN, Certificate
from radii.smoothing.noise import NoiseAddress


@dataclass(frozen=True, kw_only=True)
class Fixed(Certifier):
    """Cohen's CERTIFY: abstains where the top class is not proven to hold at least one half."""

    selection: int = option(100, least=1)
    estimation: int = option(100_000, least=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        fewest = fewest_to_certify(self.failure)
        if self.estimation < fewest:
            raise ValueError(
                f"estimation = {self.estimation} can never certify at failure {self.failure:g}, "
                f"even if all agree; the smallest that can is {fewest}"
            )

    def certify(self, classifier: Voter, image: Any, noise: NoiseAddress, label: int | None = None) -> Certificate:
        top = int(classifier.votes(image, self.selection, noise.at(0)).argmax())
        counts = classifier.votes(image, self.estimation, noise.at(1))
        lower = binomial_lower(int(counts[top]), self.estimation, self.failure)
        spent = self.selection + self.estimation
        prediction = top if lower >= 0.5 else ABSTAIN
        return self.proven(prediction, radius_at(lower, classifier.sigma), spent, counts)
