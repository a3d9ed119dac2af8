"""Classifiers in ONNX files, as runs."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn

from radii.errors import ParameterError
from radii.experiment.recipe import Recipe, Spec, named_table
from radii.experiment.run import Run
from radii.loops.components import open_dataset
from radii.loops.imported import write_run
from radii.loops.weights import ModelSpec, make_model
from radii.onnx import OnnxError, OnnxGraph, read
from radii.smoothing.normalisation import Normalisation

PROBES = 3
CLOSE = 1e-3
"""How far an image's logits may depend on its batch, as a share of the largest logit."""


def import_onnx(
    file: Path,
    path: Path,
    *,
    sigma: float,
    dataset: Spec = "folder",
    size: int | None = None,
    mean: Sequence[float] = (),
    std: Sequence[float] = (),
    data: Path | None = None,
) -> Run:
    """Make a run from a classifier in an ONNX file, unchanged; its weights include the whole file.

    The classifier takes float32 images [batch, channel, height, width] with pixels in [0, 1], or standardised by `mean`
    and `std`, and gives logits [batch, class]. `size` is that of the images; by default the model's.
    """
    graph, table = OnnxGraph(read(file)), named_table(dataset, "dataset")
    constants = _normalisation(mean or table.get("mean", ()), std or table.get("std", ()))
    recipe = Recipe(
        dataset=_dataset(table, constants, size, graph, file),
        model="onnx",
        sigma=sigma,
        normalisation="full" if constants.mean else "none",
        objective="imported",
    )
    opened = open_dataset(recipe, data)
    spec = ModelSpec(opened.shape, opened.class_names, constants)
    model = make_model(recipe, spec)
    model.load_state_dict({"1.graph": graph.graph})
    _check(model, spec, file)
    return write_run(path, recipe, opened, model, spec, file)


def _normalisation(mean: Sequence[float], std: Sequence[float]) -> Normalisation:
    if len(mean) != len(std) or any(deviation <= 0 for deviation in std):
        raise ParameterError(f"mean = {list(mean)}, std = {list(std)}, expected one each per channel, std > 0", "mean")
    return Normalisation(tuple(mean), tuple(std))


def _dataset(
    table: Mapping[str, Any], constants: Normalisation, size: int | None, graph: OnnxGraph, file: Path
) -> dict[str, Any]:
    """The dataset with its size; for a folder, which has none, the model's size and normalisation."""
    if table["name"] == "folder":
        own = {} if size or "size" in table else {"size": _side(graph, file)}
        table = {**table, **own, **(constants._asdict() if constants.mean else {})}
    return dict(table) if size is None else {**table, "size": size}


def _side(graph: OnnxGraph, file: Path) -> int:
    """The size of the square images that a graph takes."""
    side = graph.input_shape[2]
    if side is None:
        raise ParameterError(f"{file} takes images of any size: state the size of yours", "size")
    return side


def _check(model: nn.Sequential, spec: ModelSpec, file: Path) -> None:
    """Raise an OnnxError unless the model classifies images of its dataset, each independently of the others."""
    graph = cast(OnnxGraph, model[1])
    if not graph.takes(spec.shape):
        raise OnnxError(
            f"{file} takes images {graph.wanted}, the dataset has {' x '.join(map(str, spec.shape))}", "size"
        )
    images = torch.rand(PROBES, *spec.shape, generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        together, alone = model(images), [model(image[None]) for image in images]
    if together.shape != (PROBES, spec.classes):
        got = f"{file} answers {list(together.shape)} for {PROBES} images"
        raise OnnxError(f"{got}, expected [{PROBES}, {spec.classes}]: the dataset has {spec.classes} classes")
    if not _close(together, torch.cat(alone)):
        raise OnnxError(f"{file} classifies an image depending on the others in its batch: export it in eval mode")


def _close(together: Tensor, alone: Tensor) -> bool:
    return torch.allclose(together, alone, rtol=0, atol=CLOSE * float(alone.abs().max()))
