"""The answer to a request: what the client gets, and what is promised to it."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from radii.reports.text import down
from radii.smoothing.certificate import ABSTAIN, Certificate

if TYPE_CHECKING:
    from radii.serving.model import ServedModel


def outcome(prediction: int, stopped: bool) -> str:
    """Return `answered`; or, where nothing was proven, `deadline` if that ended the request, otherwise `abstained`."""
    return "answered" if prediction != ABSTAIN else "deadline" if stopped else "abstained"


@dataclass(frozen=True)
class Answer:
    """The certificate of a picture, with what a client needs to check it later."""

    id: str
    model: "ServedModel"
    certificate: Certificate
    picture: str
    """The digest of the prepared picture."""
    asked: int | None
    """How often this picture was asked about with these weights; None for one noisy pass."""
    failure: float | None
    failure_over_life: float | None
    """The same for all answers about the picture together; an earlier model's, if that was larger."""
    stopped: bool
    """Whether the deadline ended the request."""
    sealed: str
    """The digest that commits to the seed of the noise."""
    evidence: str | None
    """The digest of the answer's line in the evidence."""
    seconds: float

    @property
    def outcome(self) -> str:
        """Whether there is an answer, for counters and the evidence: answered, deadline or abstained."""
        return outcome(self.certificate.prediction, self.stopped)

    @property
    def abstained(self) -> bool:
        return self.certificate.prediction == ABSTAIN

    @property
    def radius(self) -> float | None:
        proves = self.model.mode == "certificate" and not self.abstained
        return self.certificate.radius if proves else None

    @property
    def class_name(self) -> str | None:
        return None if self.abstained else self.model.class_names[self.certificate.prediction]

    def as_data(self) -> dict[str, Any]:
        """Return the answer as a client gets it."""
        model, certificate = self.model, self.certificate
        return {
            "id": self.id,
            "class": self.class_name,
            "label": None if self.abstained else certificate.prediction,
            "abstained": self.abstained,
            "radius": self.radius,
            "norm": model.header["norm"],
            "votes": {model.class_names[label]: votes for label, votes in enumerate(certificate.counts) if votes},
            "samples": certificate.samples,
            "mode": model.mode,
            "certifier": model.header["procedure"],
            "failure": self.failure,
            "failure_over_life": self.failure_over_life,
            "asked": self.asked,
            "stopped_at_deadline": self.stopped,
            "promise": self.promise(),
            "engine": model.header["engine"],
            "noise": model.header["noise"],
            "digests": {
                "picture": self.picture,
                "weights": model.weights,
                "header": model.header_digest,
                "sealed_seed": self.sealed,
                "evidence": self.evidence,
            },
            "seconds": round(self.seconds, 4),
        }

    def promise(self) -> str:
        """Describe what this answer promises, and with what probability."""
        model, certificate = self.model, self.certificate
        if model.mode == "one-pass":
            return "The class of one noisy copy. Nothing is promised about this picture."
        if self.abstained:
            reason = "by the deadline" if self.stopped else "at this failure probability"
            return f"Nothing is proven about this picture {reason}."
        claim = f"The smoothed model answers {self.class_name}"
        if model.mode == "certificate":
            claim += (
                f" for every picture within {model.header['norm']} distance {down(certificate.radius, 4)} of this one"
            )
        return (
            f"{claim}. All answers about this picture with these weights, of which this is number {self.asked}, "
            f"are together wrong with probability at most {self.failure_over_life:g}."
        )
