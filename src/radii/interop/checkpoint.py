"""Import checkpoints of published models: files of tensors, read without running code."""

import pickle
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from radii.interop.importer import write_run
from radii.runs import readers
from radii.runs.recipe import Recipe
from radii.runs.run import Run
from radii.training.open_dataset import open_dataset
from radii.training.weights import expect_plain, make_model, spec_for

MOST_UNPACKED = 4
"""How many times its own size a checkpoint may unpack to."""
PREFIXES = ("1.", "1.module.", "", "module.", "module.1.")
"""Prefixes of the network's keys in published checkpoints: its place in a Sequential, DataParallel's, or both."""
HOLDERS = ("state_dict", "model_state_dict", "model", "net")
"""Keys under which training scripts save a state dict; under another key it is found if it is the only one."""
MOST_NESTED = 3
MOST_NAMED = 3
"""The most names that an error lists."""


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
    state = _find_state_dict(content, checkpoint)
    return {str(key): value for key, value in state.items() if isinstance(value, Tensor)}


def _find_state_dict(content: object, checkpoint: Path) -> Mapping[Any, Any]:
    """Return the table of tensors in a checkpoint: under a usual key, else the only one."""
    while isinstance(content, Mapping):
        holder = next((key for key in HOLDERS if isinstance(content.get(key), Mapping)), None)
        if holder is None:
            break
        content = content[holder]
    if not isinstance(content, Mapping):
        raise ValueError(f"{checkpoint} holds {type(content).__name__}, expected tensors by name. Save its state_dict.")
    found = dict(_tables_of_tensors(content))
    if not found:
        raise ValueError(f"{checkpoint} holds no tensors, only {_listed(content)}. Save the model's state_dict.")
    if "" not in found and len(found) > 1:
        raise ValueError(f"{checkpoint} holds tensors in {_listed(found)}. Save the state_dict of one model alone.")
    return found.get("") or next(iter(found.values()))


def _tables_of_tensors(content: Mapping[Any, Any], path: str = "") -> Iterator[tuple[str, Mapping[Any, Any]]]:
    """Yield the tables that hold tensors, by their path; those of an optimizer have numbers as keys."""
    if any(isinstance(value, Tensor) for value in content.values()):
        yield path, content
    for key, value in content.items():
        inner = f"{path}.{key}" if path else key
        if isinstance(key, str) and isinstance(value, Mapping) and inner.count(".") < MOST_NESTED:
            yield from _tables_of_tensors(value, inner)


def _listed(names: Iterable[object]) -> str:
    """List the first names, and how many more there are."""
    first, *others = [readers.short(str(name), 80) for name in names] or ["nothing"]
    shown, more = others[: MOST_NAMED - 1], len(others) - MOST_NAMED + 1
    return ", ".join([first, *shown]) + (f" and {more} more" if more > 0 else "")


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
    needed = [key for key in state if not key.endswith("num_batches_tracked")]
    prefix = find_prefix(tensors, needed, checkpoint, model)
    matched = {key: tensors.get(prefix + key, tensor) for key, tensor in state.items()}
    for key, tensor in matched.items():
        if tensor.shape != state[key].shape:
            shapes = f"{key} is {list(tensor.shape)}, expected {list(state[key].shape)}"
            raise ValueError(
                f"{checkpoint} does not hold {model}: {shapes}. "
                "Name the model as it was trained, and data with the same classes."
            )
    return matched


def find_prefix(tensors: Iterable[str], needed: Sequence[str], checkpoint: Path, model: str) -> str:
    """Return the prefix with which a checkpoint has all keys of a model; raise a ValueError if it lacks any."""
    known = set(tensors)
    last = max(needed, key=len, default="")
    others = sorted(key.removesuffix(last) for key in known if key.endswith(f".{last}"))
    found = [prefix for prefix in (*PREFIXES, *others) if all(prefix + key in known for key in needed)]
    if usual := [prefix for prefix in found if prefix in PREFIXES]:
        return usual[0]
    if len(found) > 1:
        raise ValueError(f"{checkpoint} holds {model} under {_listed(found)}. Save the state_dict of one of them.")
    if found:
        return found[0]
    lacking = min(([key for key in needed if prefix + key not in known] for prefix in (*PREFIXES, *others)), key=len)
    if len(lacking) < len(needed):
        raise ValueError(
            f"{checkpoint} does not hold {model}: it lacks {_listed(lacking)}. Name the model as it was trained."
        )
    raise ValueError(
        f"{checkpoint} does not hold {model}: it has keys such as {_listed(tensors)}, "
        f"the model has {_listed(needed)}. Name the model that these weights are of."
    )


def load_tensors(model: nn.Module, tensors: Mapping[str, Tensor], checkpoint: Path, name: str) -> None:
    """Load a checkpoint's tensors into a model, or raise a ValueError if they belong to another model."""
    matched = match_keys(tensors, model.state_dict(), checkpoint, name)
    try:
        expect_plain(matched, model.state_dict())
        model.load_state_dict(matched)
    except (ValueError, RuntimeError) as error:
        raise ValueError(f"{checkpoint} does not hold {name}: {' '.join(str(error).split())}") from error
