"""Answer each request with one noisy pass, whose noise is fresh and secret."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from radii.certification.predict import checked_seed, is_batch
from radii.datasets import as_image
from radii.engines import SmoothedClassifier, expect_smoothed
from radii.smoothing.addresses import NoiseAddress
from radii.smoothing.questions import Task, Votes


@dataclass(frozen=True)
class OnePassAnswer:
    """The class of one noisy copy of an image. Nothing is proven about this image."""

    prediction: int
    name: str | None = field(default=None, compare=False)
    """The name of the class, where the classifier has names."""
    seed: int = field(default=0, compare=False, repr=False)
    """The seed of the noise, for a sealed record. Whoever knows it beforehand can fool the classifier."""


def predict_once(classifier: SmoothedClassifier, image: Any) -> Any:
    """Predict the class of an image from one noisy pass; a batch gives a list. Nothing is proven about one image.

    The noise is fresh and secret for each image.

    >>> import torch, radii
    >>> model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 2))
    >>> _ = model[1].load_state_dict({"weight": torch.tensor([[9.0] * 4, [-9.0] * 4]), "bias": torch.zeros(2)})
    >>> smoothed = radii.SmoothedClassifier(model, sigma=0.25, classes=2, names=("light", "dark"))
    >>> radii.predict_once(smoothed, torch.ones(1, 2, 2)).name
    'light'
    """
    expect_smoothed(classifier)
    if is_batch(image):
        return answer_once(classifier, [as_image(one) for one in image])
    return answer_once(classifier, [as_image(image)])[0]


def answer_once(
    classifier: SmoothedClassifier, images: Sequence[Tensor], seeds: Sequence[int] | None = None
) -> list[OnePassAnswer]:
    """Answer each image by one noisy copy. Images of one size share forward passes of the classifier's batch size.

    The noise is that of `certify` at image 0, stage 0 and copy 0 of a seed of 128 bits, which comes from the operating
    system unless `seeds` has one for each image, as a replay has.
    """
    classifier.noise.probability_after(1.0, 0.0)  # raises for a noise whose single passes prove nothing
    drawn = [secrets.randbits(128) for _ in images] if seeds is None else [checked_seed(seed) for seed in seeds]
    tasks = [Task(image, NoiseAddress(seed), Votes(0, 0, 1)) for image, seed in zip(images, drawn, strict=True)]
    classes = [int(counts.argmax()) for counts in classifier.count(tasks)]
    names = classifier.names
    return [
        OnePassAnswer(label, None if names is None else names[label], seed)
        for label, seed in zip(classes, drawn, strict=True)
    ]
