"""The command that makes a run of a classifier that was trained elsewhere."""

from pathlib import Path

from radii.cli.app import app, console
from radii.cli.arguments import Data, Whole, parse_numbers
from radii.experiment import recipe as recipes


@app.command(name="import")
def import_(
    file: Path,
    /,
    *,
    run: Path,
    dataset: str | None = None,
    model: str | None = None,
    normalisation: str = "full",
    sigma: float = 0.25,
    size: Whole | None = None,
    mean: str | None = None,
    std: str | None = None,
    data: Data = None,
) -> None:
    """Make a run of a classifier that was trained elsewhere: a torch checkpoint, or an ONNX file as it is.

    Args:
        file: A file that torch wrote, where one that needs more than tensors is refused; or model.onnx.
        run: The run directory to make.
        dataset: Its images: a name, or a table such as '{ name = "folder", size = 64 }'; folder for an ONNX file.
        model: A checkpoint's architecture: a name, or a table such as '{ name = "resnet18", width = 32 }'.
        normalisation: A checkpoint's: full (centre and divide), centre, or none: as its authors did.
        sigma: The noise that it was trained with.
        size: The pixels of an ONNX model's square images; by default the model's.
        mean: What an ONNX model wants subtracted from each channel, such as 0.5,0.5,0.5; nothing by default.
        std: What an ONNX model wants each channel divided by.
    """
    if file.suffix == ".onnx":
        _import_onnx(file, run, dataset, model, sigma, size, mean, std, data)
    elif dataset is None or model is None:
        raise ValueError(
            f"a checkpoint such as {file} needs --dataset and --model: what it was trained on, and what is in it"
        )
    elif (size, mean, std) != (None, None, None):
        raise ValueError("--size, --mean and --std belong to an ONNX file: a checkpoint has those of --dataset")
    else:
        _import_checkpoint(file, run, dataset, model, normalisation, sigma, data)
    console.print(f"{run}: imported for sigma {sigma:g}; next: radii certify {run}", soft_wrap=True, markup=False)


def _import_checkpoint(
    file: Path, run: Path, dataset: str, model: str, normalisation: str, sigma: float, data: Path | None
) -> None:
    from radii.loops.import_checkpoint import import_checkpoint

    wanted = recipes.Recipe(
        dataset=recipes.parse_value(dataset),
        model=recipes.parse_value(model),
        sigma=sigma,
        normalisation=normalisation,
        objective="imported",
    )
    import_checkpoint(file, wanted, run, data=data)


def _import_onnx(
    file: Path,
    run: Path,
    dataset: str | None,
    model: str | None,
    sigma: float,
    size: int | None,
    mean: str | None,
    std: str | None,
    data: Path | None,
) -> None:
    from radii.loops.import_onnx import import_onnx

    if model is not None:
        raise ValueError(f"{file} holds its architecture: leave out --model")
    import_onnx(
        file,
        run,
        sigma=sigma,
        dataset=recipes.parse_value(dataset or "folder"),
        size=size,
        mean=parse_numbers("--mean", mean) if mean else (),
        std=parse_numbers("--std", std) if std else (),
        data=data,
    )
