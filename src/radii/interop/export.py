"""Export the base classifier of a run as an ONNX file, with a JSON file beside it that says how to use it."""

from collections.abc import Collection
from importlib import metadata
from pathlib import Path
from typing import Any

import torch
from torch import nn

from radii import disk
from radii.onnx import OnnxError, OnnxGraph, from_torch, with_normalisation
from radii.reports.model_card import certified
from radii.runs import readers
from radii.runs.run import Run
from radii.smoothing.normalisation import Normalise
from radii.training.weights import ModelSpec, model_spec, trained_model

CHECKED = 64
"""Noisy images on which the file is compared with torch before it is written."""
TOLERANCE = 1e-3
"""The largest allowed difference of a logit, as a share of the largest logit."""

USE = (
    "The file is the base classifier, with its normalisation inside: it takes pixels in [0, 1] and gives logits.",
    "The certificates are about the smoothed classifier: add Gaussian noise of deviation sigma to many copies of the "
    "image, without clipping, run them, and count which class wins how often; never predict from one forward pass.",
    "A certificate holds for the function that ran: `radii import` and `radii certify` certify this file itself.",
)


def export(run: Run | Path | str, path: Path | str, trust: Collection[str] = ()) -> Path:
    """Write a run's base classifier as one ONNX file, and a description with its certificates beside it, as .onnx.json.

    The file is compared with torch on noisy images first. A file that exists is replaced only if it is such an export.
    `trust` names the modules of others whose code the run may use.

    >>> import radii, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> run = radii.train("digits/gaussian-0.25", run=f"{folder}/g", settings=["training.epochs=1"])
    >>> radii.export(run, f"{folder}/g.onnx").name
    'g.onnx'
    """
    run, file = run if isinstance(run, Run) else Run(run, trust), Path(path)
    if file.suffix != ".onnx":
        raise OnnxError(f"{file} does not end in .onnx: name the file to write, such as {file.stem}.onnx", "path")
    _check_replaceable(file)
    spec, model = model_spec(run), trained_model(run).cpu()
    graph = OnnxGraph(_onnx_content(model, spec))
    difference = _compare(model, graph, spec, run.recipe.sigma)
    description = {**_describe(run, spec, graph), "largest_logit_difference": difference, "certified": certified(run)}
    disk.make_folder(file.parent)
    disk.write(file, graph.content)
    disk.write_json(card_file(file), {**description, "sha256": disk.digest(file)})
    return file


def card_file(file: Path) -> Path:
    """Return the path of the description of an exported file: not the name of a certificate file's header."""
    return file.with_name(f"{file.name}.json")


def _check_replaceable(file: Path) -> None:
    """Refuse to replace files that are not an earlier export and its description."""
    card = card_file(file)
    if card.exists() and not _is_card(card):
        raise OnnxError(f"{card} exists and is not the description of an export: name another file", "path")
    cards = (card, file.with_suffix(".json"))  # the second is that of version 0.2
    if file.exists() and not any(_is_card(card, disk.digest(file)) for card in cards):
        raise OnnxError(f"{file} exists, and no {card.name} says that radii wrote it: name another file", "path")


def _is_card(card: Path, digest: str | None = None) -> bool:
    """Return whether a file describes an export, the one with this digest if one is given."""
    try:
        described = readers.json_object(card)
    except (ValueError, OSError):
        return False
    return "largest_logit_difference" in described and digest in (None, described.get("sha256"))


def _onnx_content(model: nn.Module, spec: ModelSpec) -> bytes:
    """Export the model as one graph; an imported graph is kept unchanged behind its normalisation."""
    if not (isinstance(model, nn.Sequential) and isinstance(model[1], OnnxGraph)):
        return from_torch(model, spec.shape)
    first, graph = model[0], model[1]
    return with_normalisation(graph.content, first.mean, first.std) if isinstance(first, Normalise) else graph.content


def _compare(model: nn.Module, graph: OnnxGraph, spec: ModelSpec, sigma: float) -> float:
    """Return the largest difference of a logit on noisy images; raise an OnnxError if the graph differs."""
    rng = torch.Generator().manual_seed(0)
    shape = (CHECKED, *spec.shape)
    images = torch.rand(shape, generator=rng) + sigma * torch.randn(shape, generator=rng)
    with torch.inference_mode():
        expected, logits = model(images), graph(images)
    difference = float((expected - logits).abs().max())
    close = difference <= TOLERANCE * float(expected.abs().max())
    if not (close and torch.equal(expected.argmax(1), logits.argmax(1))):
        raise OnnxError(f"ONNX Runtime's logits are off by up to {difference:g} from torch's: nothing was written")
    return difference


def _describe(run: Run, spec: ModelSpec, graph: OnnxGraph) -> dict[str, Any]:
    batch = graph.input_shape[0] or "batch"
    return {
        "model": run.recipe.model["name"],
        "sigma": run.recipe.sigma,
        "classes": list(spec.class_names),
        "input": {"name": graph.input_name, "type": "float32", "shape": [batch, *spec.shape], "range": [0, 1]},
        "output": {"name": graph.output_name, "type": "float32", "shape": [batch, spec.classes]},
        "weights": run.weights_digest(),
        "radii_version": metadata.version("radii"),
        "use": list(USE),
    }
