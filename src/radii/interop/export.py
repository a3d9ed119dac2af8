"""Export the base classifier of a run as an ONNX file, with a JSON file beside it that says how to use it."""

import math
from collections.abc import Collection, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from radii import disk
from radii.certification.deployment import stated_noise
from radii.certification.load import deployed_noise
from radii.onnx_graph import OnnxError, OnnxGraph, description_file, from_torch
from radii.reports.model_card import certified, plain_accuracy
from radii.reports.population import LIMITS
from radii.reports.population import proven as proven_populations
from radii.runs import readers
from radii.runs.run import Run
from radii.smoothing.noise import Gaussian
from radii.smoothing.normalisation import Normalise
from radii.training.weights import ModelSpec, model_spec, trained_model

CHECKED = 64
"""Images on which the file is compared with torch before it is written."""
CALLS = 16
"""Calls of a graph with noise inside, to compare its answers with torch's."""
TOLERANCE = 1e-3
"""The largest allowed difference of a logit, as a share of the largest logit."""
USE = (
    "The file is the base classifier, with its normalisation inside: it takes pixels in [0, 1] and gives logits.",
    "The certificates are about the smoothed classifier: add the noise that `noise` states, such as Gaussian noise of "
    "deviation sigma, to many copies of the image, without clipping, run them, and count which class wins how often; "
    "never predict from one forward pass. Each entry of `certified` holds for its own noise and norm alone.",
    "A certificate holds for the function that ran: `radii import` and `radii certify` certify this file itself.",
)


ONE_PASS = (
    "The file answers a request by one noisy pass: it takes pixels in [0, 1], adds fresh Gaussian noise of deviation "
    "sigma inside the graph and gives logits; the largest is the answer. Two calls may differ.",
    "`proven` is about the population: of pictures like those of its sample, at least that share is answered rightly "
    f"under any change of that length that does not know the noise of the request; {LIMITS}.",
    "The proof assumes noise that is normal, fresh and secret. Here the runtime draws it. ONNX Runtime on a CPU seeds "
    "its generator, of 31 bits, from the clock at the start of a process, and two sessions of a process draw the same "
    "noise: keep one session, and use `radii serve` where somebody may try to find out the noise.",
    "The proof is about the engine that it names, and this file rounds differently: `radii certify --with one_pass "
    "--engine onnx` proves it for ONNX Runtime.",
)


def export(run: Run | Path | str, path: Path | str, trust: Collection[str] = (), *, one_pass: bool = False) -> Path:
    """Write a run's base classifier as one ONNX file, and a description with its certificates beside it, as .onnx.json.

    The file is compared with torch on noisy images first. A file that exists is replaced only if it is such an export.
    `trust` names the modules of others whose code the run may use. With `one_pass` the graph adds fresh noise itself:
    a call is an answer by one noisy pass, and the description has what `certify_population` has proven about it.

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
    description = {**_describe(run, spec, graph), "largest_logit_difference": difference}
    if one_pass:
        noise = _one_pass_noise(run)
        graph = OnnxGraph(_with_noise(graph.content, noise.sigma))
        _compare_answers(model, graph, spec, noise)
        proven = [proof for proof in proven_populations(run) if proof["noise"] == noise.describe()]
        taken = {**description["input"], "name": graph.input_name}
        description |= {
            "sigma": noise.sigma,
            "noise": noise.describe(),
            "input": taken,
            "use": list(ONE_PASS),
            "one_pass": True,
            "proven": proven,
        }
    else:
        description |= {"certified": certified(run)}
    disk.make_folder(file.parent)
    disk.write(file, graph.content)
    disk.write_json(description_file(file), {**description, "sha256": disk.digest(file)})
    return file


def _check_replaceable(file: Path) -> None:
    """Refuse to replace files that are not an earlier export and its description."""
    description = description_file(file)
    if description.exists() and not _describes_export(description):
        raise OnnxError(f"{description} exists and is not the description of an export: name another file", "path")
    candidates = (description, file.with_suffix(".json"))  # the second is that of version 0.2
    if file.exists() and not any(_describes_export(path, disk.digest(file)) for path in candidates):
        raise OnnxError(f"{file} exists, and no {description.name} says that radii wrote it: name another file", "path")


def _describes_export(path: Path, digest: str | None = None) -> bool:
    """Return whether a file describes an export; if a digest is given, the export with that digest."""
    try:
        table = readers.json_object(path)
    except (ValueError, OSError):
        return False
    return "largest_logit_difference" in table and digest in (None, table.get("sha256"))


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


def _one_pass_noise(run: Run) -> Gaussian:
    """Return the noise that the run is deployed with; raise an OnnxError if it is not Gaussian."""
    noise = deployed_noise(run)
    if type(noise) is not Gaussian:
        raise OnnxError(
            f"the run is used with the noise {noise}, and ONNX can draw Gaussian noise only: export without one pass",
            "noise",
        )
    return noise


def _compare_answers(model: nn.Module, graph: OnnxGraph, spec: ModelSpec, noise: Gaussian) -> None:
    """Raise an OnnxError unless the graph draws fresh noise, and answers like torch under noise of the same deviation.

    Both must keep the class of the image without noise about equally often; by chance they fail with less than 1e-8.
    """
    rng = torch.Generator().manual_seed(0)
    images = torch.rand((CHECKED, *spec.shape), generator=rng)
    with torch.inference_mode():
        if torch.equal(graph(images), graph(images)):
            raise OnnxError("ONNX Runtime draws the same noise in two calls: nothing was written")
        still, kept = model(images).argmax(1), [0, 0]
        for _ in range(CALLS):
            drawn = noise.perturb(images, torch.empty_like(images), rng)
            for number, logits in enumerate((model(drawn), graph(images))):
                kept[number] += int((logits.argmax(1) == still).sum())
    total = CALLS * CHECKED
    spread = math.sqrt(max(sum(kept) / 2 * (1 - sum(kept) / (2 * total)), 1.0))
    if abs(kept[0] - kept[1]) > 6 * math.sqrt(2) * spread:
        raise OnnxError(
            f"of {total} noisy passes {kept[1]} by ONNX Runtime keep the class, {kept[0]} by torch: nothing was written"
        )


def _describe(run: Run, spec: ModelSpec, graph: OnnxGraph) -> dict[str, Any]:
    """Describe the model, its input and output, and how to use it."""
    batch, noise = graph.input_shape[0] or "batch", stated_noise(run)
    return {
        "model": run.recipe.model["name"],
        "sigma": noise.get("sigma"),
        "noise": noise,
        "without_noise": plain_accuracy(run),
        "classes": list(spec.class_names),
        "input": {"name": graph.input_name, "type": "float32", "shape": [batch, *spec.shape], "range": [0, 1]},
        "output": {"name": graph.output_name, "type": "float32", "shape": [batch, spec.classes]},
        "weights": run.weights_digest(),
        "radii_version": metadata.version("radii"),
        "use": list(USE),
    }


# Nodes before a graph


def with_normalisation(content: bytes, mean: Tensor, std: Tensor) -> bytes:
    """Return a graph that computes (images - mean) / std first."""
    from onnx import helper, numpy_helper

    images = OnnxGraph(content).input_name
    pixels, centred = f"{images}_pixels", f"{images}_centred"
    constants = {f"{images}_mean": mean, f"{images}_std": std}
    nodes = [
        helper.make_node("Constant", [], [name], value=numpy_helper.from_array(tensor.numpy(), name))
        for name, tensor in constants.items()
    ]
    nodes.append(helper.make_node("Sub", [pixels, f"{images}_mean"], [centred]))
    nodes.append(helper.make_node("Div", [centred, f"{images}_std"], [images]))
    return _with_nodes(content, images, pixels, nodes)


def _with_noise(content: bytes, sigma: float) -> bytes:
    """Return a graph that adds normal noise to its images first, drawn by the runtime anew in every call.

    The graph states no seed: with one, every session would draw the same noise.
    """
    from onnx import helper

    images = OnnxGraph(content).input_name
    pixels, noise = f"{images}_without_noise", f"{images}_noise"
    nodes = [
        helper.make_node("RandomNormalLike", [pixels], [noise], mean=0.0, scale=float(sigma)),
        helper.make_node("Add", [pixels, noise], [images]),
    ]
    return _with_nodes(content, images, pixels, nodes)


def _with_nodes(content: bytes, images: str, pixels: str, nodes: Sequence[Any]) -> bytes:
    """Put nodes that turn `pixels`, the new input, into `images` before all others."""
    import onnx

    model = onnx.load_model_from_string(content)
    nodes = [*nodes, *model.graph.node]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    for value in model.graph.input:
        if value.name == images:
            value.name = pixels
    return bytes(model.SerializeToString())
