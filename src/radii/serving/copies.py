"""Noisy copies of a picture with their votes, for people to look at."""

import base64
import io
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from radii.smoothing.addresses import NoiseAddress
from radii.smoothing.packing import draw_copies
from radii.smoothing.questions import Answer, Question, Task
from radii.workers.voter import one_thread

if TYPE_CHECKING:
    from radii.serving.model import ServedModel

SHOWN = 12
"""Copies that the page shows."""


@dataclass(frozen=True)
class Winners(Question):
    """Ask which class wins each copy; the answer is [copy]."""

    def answer(self, logits: Tensor) -> Tensor:
        return logits.argmax(1)

    def gather(self, parts: Sequence[Tensor]) -> Tensor:
        return torch.cat(list(parts))

    def join(self, parts: Sequence[Answer]) -> Answer:
        return np.concatenate(parts)

    def check(self, answer: Answer, classes: int) -> None:
        if not (answer.shape == (self.count,) and answer.min() >= 0 and answer.max() < classes):
            raise self._miscounted(f"classes {list(answer.shape)}", f"[{self.count}] below {classes}")


def show_copies(model: "ServedModel", image: Tensor) -> list[dict[str, Any]]:
    """Draw a few noisy copies and return each as a picture with its class.

    They are drawn as those that vote, but from another seed: the answer's seed stays secret until the answer is given.
    """
    address = NoiseAddress(secrets.randbits(128))
    with one_thread():
        (winners,) = model.classifier.count([Task(image, address, Winners(0, 0, SHOWN))])
    pixels = image.permute(1, 2, 0)
    copies = torch.empty(SHOWN, *pixels.shape)
    draw_copies(model.classifier.noise, pixels, copies, address.at(0))
    return [
        {"class": model.class_names[int(winner)], "picture": data_uri(copy.permute(2, 0, 1).numpy())}
        for winner, copy in zip(winners, copies, strict=True)
    ]


def data_uri(pixels: NDArray[np.float32]) -> str:
    """Return pixels [channel, height, width] as a PNG in a data URI; noise beyond black and white is cut off."""
    scaled = (np.clip(pixels, 0, 1) * 255).round().astype(np.uint8)
    picture = Image.fromarray(scaled[0] if len(scaled) == 1 else scaled[:3].transpose(1, 2, 0))
    content = io.BytesIO()
    picture.save(content, "PNG")
    return f"data:image/png;base64,{base64.b64encode(content.getvalue()).decode()}"
