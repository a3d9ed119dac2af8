"""radii import: make a run from a classifier that was trained elsewhere."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from radii.cli.app import hint, printed_warnings, say, suggest
from radii.cli.arguments import Data, Whole, command, parse_numbers
from radii.reports.costs import check_in_words, never_saw_noise, noisy_in_words
from radii.runs import recipe as recipes
from radii.runs.run import Run

NORMALISATIONS = ("inside", "none", "full", "centre")


def import_(
    source: str,
    /,
    *,
    run: Path,
    weights: Path | None = None,
    dataset: str | None = None,
    model: str | None = None,
    normalisation: Annotated[str | None, Parameter(show_default=False)] = None,
    sigma: float = 0.25,
    size: Whole | None = None,
    mean: str | None = None,
    std: str | None = None,
    data: Data = None,
) -> None:
    """Make a run from a classifier that was trained elsewhere, and check it on test images without and with noise.

    Args:
        source: module:name of a class or function that makes a torch.nn.Module; or an ONNX file, used as it is; or a
            checkpoint written by torch. A checkpoint that holds more than tensors is refused. Or an ensemble of
            trained runs, such as '{ name = "ensemble", members = ["runs/a", "runs/b"] }'.
        run: The run directory to make.
        weights: The weights for module:name, a file of torch or safetensors; by default those that it makes.
        dataset: The dataset: a name, or a table such as '{ name = "folder", size = 64, enlarge = true }'; by default
            folder. A checkpoint needs it.
        model: The architecture of a checkpoint: a name, or a table such as '{ name = "resnet18", width = 32 }'.
        normalisation: inside: the model normalises, or takes pixels in [0, 1] as they are. full: subtract the mean
            and divide, by the dataset's constants; the default for a checkpoint. centre: subtract the mean only.
        sigma: The noise that the model was trained with, or is to be certified with.
        size: The side of the square images in pixels; by default the ONNX file's, or the dataset's.
        mean: Subtract these from the channels, such as 0.5,0.5,0.5.
        std: Divide the channels by these.
    """
    if normalisation not in (None, *NORMALISATIONS):
        raise ValueError(f"--normalisation {normalisation!r} is not known. Choose one of {', '.join(NORMALISATIONS)}.")
    options = {
        "dataset": dataset and recipes.parse_value(dataset),
        "size": size,
        "mean": parse_numbers("--mean", mean) if mean else None,
        "std": parse_numbers("--std", std) if std else None,
        "normalisation": "inside" if normalisation == "none" else normalisation,
        "data": data,
    }
    inputs = {key: value for key, value in options.items() if value is not None}
    with printed_warnings():
        _import(source, run, weights, model, sigma, inputs)


def _import(
    source: str, run: Path, weights: Path | None, model: str | None, sigma: float, inputs: Mapping[str, Any]
) -> None:
    is_factory = source.lstrip().startswith("{") or (":" in source and not Path(source).exists())
    is_onnx = not is_factory and source.endswith(".onnx")
    if not is_factory and not Path(source).suffix and not Path(source).exists():
        raise ValueError(f"There is no file {source}. Name a file, or a factory as module:name, such as {source}:load.")
    if weights is not None and not is_factory:
        raise ValueError(f"--weights needs a factory such as my.nets:load, but {source} is a file. Leave it out.")
    if model is not None and (is_factory or is_onnx):
        raise ValueError(f"{source} has its own architecture. Leave out --model.")
    factory = recipes.parse_value(source) if is_factory else None
    if isinstance(factory, Mapping) and factory.get("name") == "ensemble":
        _import_ensemble(factory, run, {**inputs, "weights": weights})
        return
    if is_factory:
        from radii.interop.factory import import_model

        if not inputs.keys() & {"dataset", "data"}:
            hint("no dataset was stated: the folders in RADII_DATA are the classes (--dataset, or --data FOLDER)")
        import_model(factory, run, sigma=sigma, weights=weights, **inputs)
    elif is_onnx:
        from radii.interop.onnx import import_onnx

        import_onnx(Path(source), run, sigma=sigma, **inputs)
    else:
        _import_checkpoint(Path(source), model, run, sigma, inputs)
    if (is_factory or is_onnx) and not _states_normalisation(inputs) and Run(run).recipe.normalisation == "none":
        hint("no normalisation was stated: the model gets pixels in [0, 1] as they are (--normalisation inside)")
    _print_imported(Run(run), sigma)


def _import_ensemble(table: Mapping[str, Any], run: Path, inputs: Mapping[str, Any]) -> None:
    from radii.interop.ensemble import import_ensemble, members_of

    if stated := [key for key, value in inputs.items() if value is not None and key != "data"]:
        raise ValueError(f"An ensemble takes its images and weights from its members. Leave out --{stated[0]}.")
    members = members_of(table)
    combined = import_ensemble(members, run, consensus=table.get("consensus", 0), data=inputs.get("data"))
    _print_imported(combined, combined.recipe.sigma)


def _import_checkpoint(file: Path, model: str | None, run: Path, sigma: float, inputs: Mapping[str, Any]) -> None:
    from radii.interop.checkpoint import import_checkpoint

    if model is None or "dataset" not in inputs:
        raise ValueError(f"The checkpoint {file} needs --dataset and --model. Name its data and its architecture.")
    if inputs.keys() & {"size", "mean", "std"}:
        raise ValueError("--size, --mean and --std need a factory or an ONNX file. State them in --dataset instead.")
    normalisation = inputs.get("normalisation", "full")
    recipe = recipes.Recipe(
        dataset=inputs["dataset"],
        model=recipes.parse_value(model),
        sigma=sigma,
        normalisation="none" if normalisation == "inside" else normalisation,
        objective="imported",
    )
    import_checkpoint(file, recipe, run, data=inputs.get("data"))


def _states_normalisation(inputs: Mapping[str, Any]) -> bool:
    """Return whether an option or the dataset's table states a normalisation."""
    dataset = inputs.get("dataset")
    stated = {*inputs, *(dataset if isinstance(dataset, dict) else ())}
    return bool(stated & {"mean", "std", "normalisation"})


def _print_imported(run: Run, sigma: float) -> None:
    """Print how many test images the model gets right without and with noise, and the next commands."""
    say(f"{run.path}: imported for sigma {sigma:g}")
    check = run.check()
    if not check:
        say("  not checked: there are no test images to read")
    else:
        few = check["right"] / check["images"] <= max(0.5, 1.2 / len(run.class_names()))
        doubts = ": is the normalisation right, and the order of the classes?" if few else ""
        say(f"  {check_in_words(check)}{doubts}")
        say(f"  {noisy_in_words(check)}")
    if never_saw_noise(run, sigma):
        hint("it was never trained with noise: little can be certified before `radii harden`")
    suggest(f"next, in 3 min: {command('audit', run.path, minutes=3)}")
    suggest(f"then, in 1 h: {command('harden', run.path, sigma=f'{sigma:g}', minutes=60)}")
