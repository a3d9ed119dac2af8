"""Import a classifier in an ONNX file as a run."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from radii.errors import ParameterError
from radii.interop.importer import Inputs, check_classifier, write_run
from radii.onnx_graph import OnnxError, OnnxGraph, read
from radii.runs.run import Run
from radii.training.open_dataset import open_dataset
from radii.training.weights import make_model


def import_onnx(file: Path, path: Path, *, sigma: float, **inputs: Any) -> Run:
    """Make a run from a classifier in an ONNX file. The run's weights are the whole file, unchanged.

    The classifier takes float32 images [batch, channel, height, width] with pixels in [0, 1], or standardised by `mean`
    and `std`, and gives logits [batch, class]. `inputs` are the fields of `Inputs`; the size is the model's by default.
    """
    graph, options = OnnxGraph(read(file)), Inputs(**inputs)
    recipe = options.recipe("onnx", sigma, _default_fields(options, graph, file))
    dataset = open_dataset(recipe, options.data)
    spec = options.spec(recipe, dataset)
    model = make_model(recipe, spec)
    model.load_state_dict({"1.graph": graph.graph})
    if not graph.accepts(spec.shape):
        size = " x ".join(map(str, spec.shape))
        raise OnnxError(f"{file} takes images {graph.input_size}, the dataset has {size}", "size")
    check_classifier(model, spec, str(file))
    return write_run(path, recipe, dataset, model, spec, file)


def _default_fields(options: Inputs, graph: OnnxGraph, file: Path) -> Mapping[str, Any]:
    """Return the fields of the dataset `folder` for the images that the graph takes."""
    side = graph.input_shape[2]
    channels = {"channels": 1} if graph.input_shape[1] == 1 else {}
    if side is not None:
        return {"size": side, **channels}
    if options.size is None and "size" not in options.table({}):
        raise ParameterError(f"{file} takes images of any size: state the size of your images", "size")
    return channels
