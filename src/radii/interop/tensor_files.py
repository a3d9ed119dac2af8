"""Files of tensors that were written elsewhere, read without running code."""

import pickle
import zipfile
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from radii.training.weights import expect_plain, read_tensors

MOST_UNPACKED = 4
PREFIXES = ("1.", "1.module.", "", "module.", "module.1.")
"""Prefixes of the backbone's keys in published checkpoints: its position in the Sequential, DataParallel's, or both."""


def tensors_in(checkpoint: Path) -> dict[str, Tensor]:
    """The tensors of a state dict that torch or safetensors wrote; one that needs more than tensors is refused."""
    _expect_size(checkpoint)
    if checkpoint.suffix == ".safetensors":
        return _safetensors(checkpoint)
    try:
        content = torch.load(checkpoint, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise ValueError(
            f"{checkpoint} needs more than tensors to be read, so it is refused: save its state_dict"
        ) from error
    except Exception as error:
        raise ValueError(f"{checkpoint} is not a checkpoint that torch can read: {type(error).__name__}") from error
    for key in ("state_dict", "net"):
        if isinstance(content, Mapping) and isinstance(content.get(key), Mapping):
            content = content[key]
    if not isinstance(content, Mapping):
        raise ValueError(
            f"{checkpoint} holds {type(content).__name__}, expected a state dict or one under 'state_dict' or 'net'"
        )
    return {str(key): value for key, value in content.items() if isinstance(value, Tensor)}


def _safetensors(checkpoint: Path) -> dict[str, Tensor]:
    try:
        return read_tensors(checkpoint)
    except Exception as error:  # safetensors has errors of its own
        raise ValueError(f"{checkpoint} is not a safetensors file that can be read: {error}") from error


def _expect_size(checkpoint: Path) -> None:
    """Refuse an archive that unpacks to more than its size: torch does not compress."""
    if not checkpoint.is_file():
        raise ValueError(f"there is no checkpoint {checkpoint}")
    try:
        with zipfile.ZipFile(checkpoint) as archive:
            size = sum(member.file_size for member in archive.infolist())
    except Exception:  # no archive, or one that torch will find wrong in its own way
        return
    if size > MOST_UNPACKED * checkpoint.stat().st_size:
        raise ValueError(f"{checkpoint} unpacks to {size:,} bytes, far more than it has: it is no checkpoint of torch")


def matching(
    found: Mapping[str, Tensor], wanted: Mapping[str, Tensor], checkpoint: Path, model: str
) -> dict[str, Tensor]:
    """The model's tensors under its own keys, whichever prefix the checkpoint uses."""
    # num_batches_tracked is missing from the oldest files and is not needed for inference.
    needed = {key for key in wanted if not key.endswith("num_batches_tracked")}
    for prefix in PREFIXES:
        if all(prefix + key in found for key in needed):
            break
    else:
        raise ValueError(
            f"{checkpoint} does not hold {model}: it has keys such as {', '.join(list(found)[:2])}, "
            f"the model has keys such as {', '.join(sorted(needed)[:2])}"
        )
    taken = {key: found.get(prefix + key, tensor) for key, tensor in wanted.items()}
    for key, tensor in taken.items():
        if tensor.shape != wanted[key].shape:
            raise ValueError(
                f"{checkpoint} does not hold {model}: {key} is {list(tensor.shape)}, expected {list(wanted[key].shape)}"
            )
    return taken


def fill(model: nn.Module, found: Mapping[str, Tensor], checkpoint: Path, name: str) -> None:
    """Load the tensors of a file into a model, or raise a ValueError where they are of another."""
    taken = matching(found, model.state_dict(), checkpoint, name)
    try:
        expect_plain(taken, model.state_dict())
        model.load_state_dict(taken)
    except (ValueError, RuntimeError) as error:
        raise ValueError(f"{checkpoint} does not hold {name}: {' '.join(str(error).split())}") from error
