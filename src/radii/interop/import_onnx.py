"""Classifiers in ONNX files, as runs."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from radii.errors import ParameterError
from radii.interop.imported import Inputs, expect_classifier, write_run
from radii.onnx import OnnxError, OnnxGraph, read
from radii.runs.run import Run
from radii.training.components import open_dataset
from radii.training.weights import ModelSpec, make_model


def import_onnx(file: Path, path: Path, *, sigma: float, **inputs: Any) -> Run:
    """Make a run from a classifier in an ONNX file, unchanged; its weights include the whole file.

    The classifier takes float32 images [batch, channel, height, width] with pixels in [0, 1], or standardised by `mean`
    and `std`, and gives logits [batch, class]. `inputs` are the fields of `Inputs`; the size is the model's by default.
    """
    graph, taken = OnnxGraph(read(file)), Inputs(**inputs)
    recipe = taken.recipe("onnx", sigma, _usual(taken, graph, file))
    opened = open_dataset(recipe, taken.data)
    spec = taken.spec(recipe, opened)
    model = make_model(recipe, spec)
    model.load_state_dict({"1.graph": graph.graph})
    _expect_size(graph, spec, file)
    expect_classifier(model, spec, str(file))
    return write_run(path, recipe, opened, model, spec, file)


def _usual(taken: Inputs, graph: OnnxGraph, file: Path) -> Mapping[str, Any]:
    """The images that a graph takes, as fields of a folder."""
    side = graph.input_shape[2]
    channels = {"channels": 1} if graph.input_shape[1] == 1 else {}
    if side is not None:
        return {"size": side, **channels}
    if taken.size is None and "size" not in taken.table({}):
        raise ParameterError(f"{file} takes images of any size: state the size of yours", "size")
    return channels


def _expect_size(graph: OnnxGraph, spec: ModelSpec, file: Path) -> None:
    if not graph.takes(spec.shape):
        raise OnnxError(
            f"{file} takes images {graph.wanted}, the dataset has {' x '.join(map(str, spec.shape))}", "size"
        )
