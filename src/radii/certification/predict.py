"""Certify or predict single images, as a deployed model does."""

import operator
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, Unpack, overload

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from radii import certifiers
from radii.certification.fields import (
    CertifierFields,
    FixedFields,
    PlannedFields,
    PredictionFields,
    SequentialFields,
    SoftFields,
)
from radii.certifiers import Certifier, certify_image
from radii.datasets import as_image
from radii.engines import SmoothedClassifier, expect_smoothed
from radii.fields import check_seed
from radii.smoothing.addresses import NoiseAddress
from radii.smoothing.certificate import ABSTAIN, Certificate

OneImage = Tensor | NDArray[Any] | Image.Image


@overload
def certify(
    classifier: SmoothedClassifier,
    image: OneImage,
    procedure: Literal["fixed"] = "fixed",
    *,
    label: int | None = None,
    seed: int | None = None,
    index: int = 0,
    **fields: Unpack[FixedFields],
) -> Certificate: ...


@overload
def certify(
    classifier: SmoothedClassifier,
    image: OneImage,
    procedure: Literal["sequential"],
    *,
    label: int | None = None,
    seed: int | None = None,
    index: int = 0,
    **fields: Unpack[SequentialFields],
) -> Certificate: ...


@overload
def certify(
    classifier: SmoothedClassifier,
    image: OneImage,
    procedure: Literal["planned"],
    *,
    label: int | None = None,
    seed: int | None = None,
    index: int = 0,
    **fields: Unpack[PlannedFields],
) -> Certificate: ...


@overload
def certify(
    classifier: SmoothedClassifier,
    image: OneImage,
    procedure: Literal["soft"],
    *,
    label: int | None = None,
    seed: int | None = None,
    index: int = 0,
    **fields: Unpack[SoftFields],
) -> Certificate: ...


@overload
def certify(
    classifier: SmoothedClassifier,
    image: OneImage,
    procedure: Literal["prediction"],
    *,
    label: int | None = None,
    seed: int | None = None,
    index: int = 0,
    **fields: Unpack[PredictionFields],
) -> Certificate: ...


@overload
def certify(
    classifier: SmoothedClassifier,
    image: OneImage,
    procedure: str | Certifier,
    *,
    label: int | None = None,
    seed: int | None = None,
    index: int = 0,
    **fields: Unpack[CertifierFields],
) -> Certificate: ...


@overload
def certify(
    classifier: SmoothedClassifier,
    image: Sequence[OneImage],
    procedure: Literal["fixed"] = "fixed",
    *,
    label: Sequence[int] | None = None,
    seed: int | None = None,
    index: int = 0,
    **fields: Unpack[FixedFields],
) -> list[Certificate]: ...


@overload
def certify(
    classifier: SmoothedClassifier,
    image: Sequence[OneImage],
    procedure: Literal["sequential"],
    *,
    label: Sequence[int] | None = None,
    seed: int | None = None,
    index: int = 0,
    **fields: Unpack[SequentialFields],
) -> list[Certificate]: ...


@overload
def certify(
    classifier: SmoothedClassifier,
    image: Sequence[OneImage],
    procedure: Literal["planned"],
    *,
    label: Sequence[int] | None = None,
    seed: int | None = None,
    index: int = 0,
    **fields: Unpack[PlannedFields],
) -> list[Certificate]: ...


@overload
def certify(
    classifier: SmoothedClassifier,
    image: Sequence[OneImage],
    procedure: Literal["soft"],
    *,
    label: Sequence[int] | None = None,
    seed: int | None = None,
    index: int = 0,
    **fields: Unpack[SoftFields],
) -> list[Certificate]: ...


@overload
def certify(
    classifier: SmoothedClassifier,
    image: Sequence[OneImage],
    procedure: Literal["prediction"],
    *,
    label: Sequence[int] | None = None,
    seed: int | None = None,
    index: int = 0,
    **fields: Unpack[PredictionFields],
) -> list[Certificate]: ...


@overload
def certify(
    classifier: SmoothedClassifier,
    image: Sequence[OneImage],
    procedure: str | Certifier,
    *,
    label: Sequence[int] | None = None,
    seed: int | None = None,
    index: int = 0,
    **fields: Unpack[CertifierFields],
) -> list[Certificate]: ...


def certify(
    classifier: SmoothedClassifier,
    image: Any,
    procedure: str | Certifier = "fixed",
    *,
    label: int | Sequence[int] | None = None,
    seed: int | None = None,
    index: int = 0,
    **fields: Any,
) -> Certificate | list[Certificate]:
    """Certify one image, or each of a batch; `procedure` names the certifier and `fields` are its parameters.

    A certifier of your own is passed as an object.

    An image is a tensor [channel, height, width] with pixels in [0, 1], an array of bytes [height, width, channel] or
    [height, width], or a PIL image; a list of these, or a tensor or array of four dimensions, gives a list.

    Without a seed the noise is fresh and secret, as a deployed model needs. An evaluation chooses its seed in advance
    and gives every image its number in the dataset as `index`: the seed and the index determine the noise, and under
    equal noise the errors of different images are not independent. The images of a batch are numbered from `index` on.
    A certifier that can use a `label` tests the probability of that class directly.

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
    certifier = certifier_of(procedure, fields)
    if not is_batch(image):
        known = None if label is None else whole("label", label)
        return _certify(classifier, image, certifier, NoiseAddress(chosen, first), known)
    labels = [None] * len(image) if label is None else _labels(label, len(image))
    return [
        _certify(classifier, one, certifier, NoiseAddress(chosen, first + number), known)
        for number, (one, known) in enumerate(zip(image, labels, strict=True))
    ]


@overload
def predict(
    classifier: SmoothedClassifier,
    image: OneImage,
    procedure: Literal["prediction"] = "prediction",
    *,
    seed: int | None = None,
    index: int = 0,
    **fields: Unpack[PredictionFields],
) -> Certificate: ...


@overload
def predict(
    classifier: SmoothedClassifier,
    image: OneImage,
    procedure: Literal["soft"],
    *,
    seed: int | None = None,
    index: int = 0,
    **fields: Unpack[SoftFields],
) -> Certificate: ...


@overload
def predict(
    classifier: SmoothedClassifier,
    image: OneImage,
    procedure: str | Certifier,
    *,
    seed: int | None = None,
    index: int = 0,
    **fields: Unpack[CertifierFields],
) -> Certificate: ...


@overload
def predict(
    classifier: SmoothedClassifier,
    image: Sequence[OneImage],
    procedure: Literal["prediction"] = "prediction",
    *,
    seed: int | None = None,
    index: int = 0,
    **fields: Unpack[PredictionFields],
) -> list[Certificate]: ...


@overload
def predict(
    classifier: SmoothedClassifier,
    image: Sequence[OneImage],
    procedure: Literal["soft"],
    *,
    seed: int | None = None,
    index: int = 0,
    **fields: Unpack[SoftFields],
) -> list[Certificate]: ...


@overload
def predict(
    classifier: SmoothedClassifier,
    image: Sequence[OneImage],
    procedure: str | Certifier,
    *,
    seed: int | None = None,
    index: int = 0,
    **fields: Unpack[CertifierFields],
) -> list[Certificate]: ...


def predict(
    classifier: SmoothedClassifier,
    image: Any,
    procedure: str | Certifier = "prediction",
    *,
    seed: int | None = None,
    index: int = 0,
    **fields: Any,
) -> Certificate | list[Certificate]:
    """Predict the class of an image, or abstain; the radius is 0. A batch gives a list.

    The prediction is the class with the most votes; with `procedure="soft"` it is the class with the largest mean
    probability, as in certificates of `soft`. Deploy the classifier that was certified.

    >>> import torch, radii
    >>> model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 2))
    >>> _ = model[1].load_state_dict({"weight": torch.tensor([[1.0] * 4, [-1.0] * 4]), "bias": torch.zeros(2)})
    >>> smoothed = radii.SmoothedClassifier(model, sigma=0.25, classes=2, names=("light", "dark"))
    >>> radii.predict(smoothed, torch.ones(1, 2, 2)).name
    'light'
    """
    result: Certificate | list[Certificate] = certify(
        classifier, image, certifier_of(procedure, fields), seed=seed, index=index
    )
    if isinstance(result, list):
        return [replace(certificate, radius=0.0) for certificate in result]
    return replace(result, radius=0.0)


def certifier_of(procedure: str | Certifier, fields: Mapping[str, Any]) -> Certifier:
    """Return the certifier that is named, with its fields, or the one that is passed."""
    if not isinstance(procedure, Certifier):
        return certifiers.create(procedure, **fields)
    if fields:
        raise ValueError(
            f"{next(iter(fields))} is stated beside a certifier, which has its fields already: leave it out"
        )
    return procedure


def _certify(
    classifier: SmoothedClassifier, image: object, certifier: Certifier, noise: NoiseAddress, label: Any
) -> Certificate:
    expect_smoothed(classifier)
    certificate = certify_image(certifier, classifier, as_image(image), noise, label)
    if classifier.names is None or certificate.prediction == ABSTAIN:
        return certificate
    return replace(certificate, name=classifier.names[certificate.prediction])


def is_batch(image: object) -> bool:
    """Return whether this is a list of images, or a tensor or array of four dimensions."""
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
