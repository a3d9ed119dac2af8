"""Import checkpoints of published models: files of tensors, read without running code."""

import pickle
import zipfile
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from radii.interop.importer import write_run
from radii.runs.recipe import Recipe
from radii.runs.run import Run
from radii.training.open_dataset import open_dataset
from radii.training.weights import expect_plain, make_model, spec_for

MOST_UNPACKED = 4
"""How many times its own size a checkpoint may unpack to."""
PREFIXES = ("1.", "1.module.", "", "module.", "module.1.")
"""Prefixes of the network's keys in published checkpoints: its place in a Sequential, DataParallel's, or both."""


def import_checkpoint(checkpoint: Path, recipe: Recipe, path: Path, *, data: Path | None = None) -> Run:
    """Make a run from a checkpoint that was trained elsewhere; refuse a file that needs code to be unpickled."""
    dataset = open_dataset(recipe, data)
    spec = spec_for(recipe, dataset)
    model = make_model(recipe, spec)
    load_tensors(model[1], read_checkpoint(checkpoint), checkpoint, recipe.model["name"])
    return write_run(path, recipe, dataset, model.eval(), spec, checkpoint)


def read_checkpoint(checkpoint: Path) -> dict[str, Tensor]:
    """Read the tensors of a state dict that torch or safetensors wrote; refuse a file that needs more than tensors."""
    _check_unpacked_size(checkpoint)
    if checkpoint.suffix == ".safetensors":
        try:
            return load_file(checkpoint)
        except Exception as error:  # safetensors has errors of its own
            raise ValueError(f"{checkpoint} is not a safetensors file that can be read: {error}") from error
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


def _check_unpacked_size(checkpoint: Path) -> None:
    """Raise a ValueError for an archive that unpacks to far more than its size: torch does not compress."""
    if checkpoint.is_dir():
        raise ValueError(f"{checkpoint} is a folder, expected a file of weights: name the file in it")
    if not checkpoint.is_file():
        raise ValueError(f"there is no checkpoint {checkpoint}")
    try:
        with zipfile.ZipFile(checkpoint) as archive:
            size = sum(member.file_size for member in archive.infolist())
    except Exception:  # no archive, or a damaged one, which torch refuses
        return
    if size > MOST_UNPACKED * checkpoint.stat().st_size:
        raise ValueError(f"{checkpoint} unpacks to {size:,} bytes, far more than its size: torch did not write it")


def match_keys(
    tensors: Mapping[str, Tensor], state: Mapping[str, Tensor], checkpoint: Path, model: str
) -> dict[str, Tensor]:
    """Return the checkpoint's tensors by the keys of the model's `state`, whatever prefix the checkpoint uses."""
    # num_batches_tracked is missing from the oldest files and is not needed for inference.
    needed = {key for key in state if not key.endswith("num_batches_tracked")}
    for prefix in PREFIXES:
        if all(prefix + key in tensors for key in needed):
            break
    else:
        raise ValueError(
            f"{checkpoint} does not hold {model}: it has keys such as {', '.join(list(tensors)[:2])}, "
            f"the model has keys such as {', '.join(sorted(needed)[:2])}"
        )
    matched = {key: tensors.get(prefix + key, tensor) for key, tensor in state.items()}
    for key, tensor in matched.items():
        if tensor.shape != state[key].shape:
            raise ValueError(
                f"{checkpoint} does not hold {model}: {key} is {list(tensor.shape)}, expected {list(state[key].shape)}"
            )
    return matched


def load_tensors(model: nn.Module, tensors: Mapping[str, Tensor], checkpoint: Path, name: str) -> None:
    """Load a checkpoint's tensors into a model, or raise a ValueError if they belong to another model."""
    matched = match_keys(tensors, model.state_dict(), checkpoint, name)
    try:
        expect_plain(matched, model.state_dict())
        model.load_state_dict(matched)
    except (ValueError, RuntimeError) as error:
        raise ValueError(f"{checkpoint} does not hold {name}: {' '.join(str(error).split())}") from error
