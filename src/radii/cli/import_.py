"""The command that makes a run of a classifier that was trained elsewhere."""

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from radii.cli.app import app, hint, say
from radii.cli.arguments import Data, Whole, command, parse_numbers
from radii.reports.summary import down
from radii.runs import recipe as recipes
from radii.runs.run import Run

NORMALISATIONS = ("inside", "none", "full", "centre")
Normalisation = Annotated[str | None, Parameter(show_default=False)]


@app.command(name="import")
def import_(
    source: str,
    /,
    *,
    run: Path,
    weights: Path | None = None,
    dataset: str | None = None,
    model: str | None = None,
    normalisation: Normalisation = None,
    sigma: float = 0.25,
    size: Whole | None = None,
    mean: str | None = None,
    std: str | None = None,
    data: Data = None,
) -> None:
    """Make a run of a classifier that was trained elsewhere, and check it on test images without noise.

    Args:
        source: module:name of a class or function that makes any torch.nn.Module; or model.onnx, as it is; or a
            checkpoint that torch wrote, where one that needs more than tensors is refused.
        run: The run directory to make.
        weights: The file of a factory's weights, of torch or safetensors; by default those that the factory gives.
        dataset: Its images: a name, or a table such as '{ name = "folder", size = 64, enlarge = true }'; folder by
            default, but a checkpoint needs it.
        model: A checkpoint's architecture: a name, or a table such as '{ name = "resnet18", width = 32 }'.
        normalisation: inside, where the model itself does it or takes pixels in [0, 1] as they are; full (centre and
            divide) or centre, by the dataset's constants. A checkpoint's is full by default.
        sigma: The noise that it was trained with.
        size: The pixels of its square images; by default an ONNX model's, or the dataset's.
        mean: What the model wants subtracted from each channel, such as 0.5,0.5,0.5.
        std: What the model wants each channel divided by.
    """
    if normalisation not in (None, *NORMALISATIONS):
        raise ValueError(f"--normalisation {normalisation!r}: expected one of {', '.join(NORMALISATIONS)}")
    inputs = {
        "dataset": dataset and recipes.parse_value(dataset),
        "size": size,
        "mean": parse_numbers("--mean", mean) if mean else None,
        "std": parse_numbers("--std", std) if std else None,
        "normalisation": "inside" if normalisation == "none" else normalisation,
        "data": data,
    }
    stated = {key: value for key, value in inputs.items() if value is not None}
    if _is_factory(source):
        _import_model(source, model, run, weights, sigma, stated)
    elif weights is not None:
        raise ValueError(f"--weights belongs to a factory such as my.nets:load: {source} is a file itself")
    elif source.endswith(".onnx"):
        _import_onnx(source, model, run, sigma, stated)
    else:
        _import_checkpoint(Path(source), model, run, sigma, stated)
    if not _is_stated(stated) and _is_own(source):
        hint("no normalisation was stated: the model gets pixels in [0, 1] as they are (--normalisation inside)")
    _print_imported(Run(run), sigma)


def _is_own(source: str) -> bool:
    """Whether it is a model of the user's, whose normalisation no published recipe states."""
    return _is_factory(source) or source.endswith(".onnx")


def _is_factory(source: str) -> bool:
    return source.lstrip().startswith("{") or (":" in source and not Path(source).exists())


def _import_model(
    source: str, model: str | None, run: Path, weights: Path | None, sigma: float, inputs: dict[str, Any]
) -> None:
    from radii.interop.factory import import_model

    if model is not None:
        raise ValueError(f"{source} makes its architecture: leave out --model")
    import_model(recipes.parse_value(source), run, sigma=sigma, weights=weights, **inputs)


def _import_onnx(source: str, model: str | None, run: Path, sigma: float, inputs: dict[str, Any]) -> None:
    from radii.interop.onnx import import_onnx

    if model is not None:
        raise ValueError(f"{source} holds its architecture: leave out --model")
    import_onnx(Path(source), run, sigma=sigma, **inputs)


def _is_stated(inputs: dict[str, Any]) -> bool:
    """Whether a normalisation is stated, as an option or in the dataset's table."""
    dataset = inputs.get("dataset")
    stated = {*inputs, *(dataset if isinstance(dataset, dict) else ())}
    return bool(stated & {"mean", "std", "normalisation"})


def _import_checkpoint(file: Path, model: str | None, run: Path, sigma: float, inputs: dict[str, Any]) -> None:
    from radii.interop.checkpoint import import_checkpoint

    if model is None or "dataset" not in inputs:
        raise ValueError(
            f"a checkpoint such as {file} needs --dataset and --model: what it was trained on, and what is in it"
        )
    if inputs.keys() & {"size", "mean", "std"}:
        raise ValueError("--size, --mean and --std belong to a factory or an ONNX file: state them in --dataset")
    wanted = recipes.Recipe(
        dataset=inputs["dataset"],
        model=recipes.parse_value(model),
        sigma=sigma,
        normalisation={"inside": "none"}.get(inputs.get("normalisation", ""), inputs.get("normalisation", "full")),
        objective="imported",
    )
    import_checkpoint(file, wanted, run, data=inputs.get("data"))


def _print_imported(run: Run, sigma: float) -> None:
    say(f"{run.path}: imported for sigma {sigma:g}{_checked(run)}")
    hint(f"next: {command('certify', run.path)}")


def _checked(run: Run) -> str:
    """How many test images it gets right without noise, with a question where these are few."""
    found = run.check()
    if not found:
        return "; not checked: there are no test images to read"
    share, classes = found["right"] / found["images"], len(run.class_names())
    words = f"; {down(share, 1, 2)} % of {found['images']} test images right without noise"
    few = share <= max(0.5, 1.2 / classes)
    return f"{words}: is the normalisation right, and the order of the classes?" if few else words
