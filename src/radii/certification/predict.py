"""Certify or predict single images, as a deployed model does."""

import operator
import secrets
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from radii import certifiers
from radii.certifiers import Certifier, certify_image
from radii.datasets import as_image
from radii.engines import SmoothedClassifier
from radii.fields import check_seed
from radii.smoothing.addresses import NoiseAddress
from radii.smoothing.certificate import ABSTAIN, Certificate

OneImage = Tensor | NDArray[Any] | Image.Image


@overload
def certify(
    classifier: SmoothedClassifier,
    image: OneImage,
    procedure: str = "fixed",
    *,
    label: int | None = None,
    seed: int | None = None,
    index: int = 0,
    **fields: Any,
) -> Certificate: ...


@overload
def certify(
    classifier: SmoothedClassifier,
    image: Sequence[OneImage],
    procedure: str = "fixed",
    *,
    label: Sequence[int] | None = None,
    seed: int | None = None,
    index: int = 0,
    **fields: Any,
) -> list[Certificate]: ...


def certify(
    classifier: SmoothedClassifier,
    image: Any,
    procedure: str = "fixed",
    *,
    label: int | Sequence[int] | None = None,
    seed: int | None = None,
    index: int = 0,
    **fields: Any,
) -> Certificate | list[Certificate]:
    """Certify one image, or each of a batch; `procedure` names the certifier and `fields` are its parameters.

    An image is a tensor [channel, height, width] with pixels in [0, 1], an array of bytes [height, width, channel] or
    [height, width], or a PIL image; a list of these, or a tensor or array of four dimensions, gives a list.

    Without a seed the noise is fresh and secret, as a deployed model needs; an evaluation states its seed in advance
    and gives every image of a dataset its own `index`, its number in the dataset: the noise is determined by the seed
    and the index, and with equal noise the errors of different images are not independent. The images of a batch are
    numbered from `index` on. Where the certifier can use a `label`, the probability of that class is tested directly.

    >>> import torch, radii
    >>> model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 2))
    >>> _ = model[1].load_state_dict({"weight": torch.tensor([[1.0] * 4, [-1.0] * 4]), "bias": torch.zeros(2)})
    >>> smoothed = radii.SmoothedClassifier(model, sigma=0.25, classes=2)
    >>> certificate = radii.certify(smoothed, torch.ones(1, 2, 2), seed=0, estimation=10_000)
    >>> certificate.prediction, round(certificate.radius, 4)
    (0, 0.7996)
    """
    first = whole("index", index)
    chosen = secrets.randbits(128) if seed is None else checked_seed(seed)
    certifier = certifiers.create(procedure, **fields)
    if not _is_batch(image):
        known = None if label is None else whole("label", label)
        return _certify(classifier, image, certifier, NoiseAddress(chosen, first), known)
    labels = [None] * len(image) if label is None else _labels(label, len(image))
    return [
        _certify(classifier, one, certifier, NoiseAddress(chosen, first + number), known)
        for number, (one, known) in enumerate(zip(image, labels, strict=True))
    ]


def predict(
    classifier: SmoothedClassifier,
    image: Any,
    procedure: str = "prediction",
    *,
    seed: int | None = None,
    index: int = 0,
    **fields: Any,
) -> Any:
    """Predict the class of an image, or abstain; the radius is 0. A batch gives a list.

    The class with the most votes is predicted; with `procedure="soft"`, the class of the largest mean probability,
    which certificates of `soft` are about. Deploy the classifier that was certified.

    >>> import torch, radii
    >>> model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 2))
    >>> _ = model[1].load_state_dict({"weight": torch.tensor([[1.0] * 4, [-1.0] * 4]), "bias": torch.zeros(2)})
    >>> smoothed = radii.SmoothedClassifier(model, sigma=0.25, classes=2, names=("light", "dark"))
    >>> radii.predict(smoothed, torch.ones(1, 2, 2)).name
    'light'
    """
    result = certify(classifier, image, procedure, seed=seed, index=index, **fields)
    if isinstance(result, list):
        return [replace(certificate, radius=0.0) for certificate in result]
    return replace(result, radius=0.0)


def _certify(
    classifier: SmoothedClassifier, image: object, certifier: Certifier, noise: NoiseAddress, label: Any
) -> Certificate:
    if not isinstance(classifier, SmoothedClassifier):
        raise ValueError(
            f"the classifier is a {type(classifier).__name__}, expected a radii.SmoothedClassifier: make one of it"
        )
    certificate = certify_image(certifier, classifier, as_image(image), noise, label)
    if classifier.names is None or certificate.prediction == ABSTAIN:
        return certificate
    return replace(certificate, name=classifier.names[certificate.prediction])


def _is_batch(image: object) -> bool:
    return isinstance(image, list | tuple) or (isinstance(image, Tensor | np.ndarray) and image.ndim == 4)


def _labels(label: Any, images: int) -> list[int]:
    if not isinstance(label, Sequence | Tensor | np.ndarray) or isinstance(label, str) or len(label) != images:
        raise ValueError(f"label = {label!r}, expected one for each of {images} images")
    return [whole("label", number) for number in label]


def checked_seed(seed: object) -> int:
    """Return a seed as a whole number of at most 128 bits, or raise a ValueError."""
    return check_seed(whole("seed", seed))


def whole(name: str, value: object, least: int = 0) -> int:
    """Return an integer of any type as an int, or raise a ValueError if it is below `least`."""
    try:
        number = operator.index(value.item() if isinstance(value, Tensor) else value)  # type: ignore[arg-type]
    except (TypeError, RuntimeError):
        raise ValueError(f"{name} = {value!r}, expected a whole number >= {least}") from None
    if isinstance(value, bool) or number < least:
        raise ValueError(f"{name} = {value}, expected a whole number >= {least}")
    return number
