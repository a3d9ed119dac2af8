"""docs/off_the_shelf.md runs, with classes shaped like those of the libraries, which are not installed here."""

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import radii
from radii import cli
from tools.manual.blocks import every_command

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "off_the_shelf.md").read_text()
SNIPPETS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
NAMES = [f"class {number}" for number in range(1000)]


class Net(nn.Module):
    """A convolutional classifier of 1,000 classes."""

    def __init__(self) -> None:
        super().__init__()
        self.pretrained_cfg = {"mean": (0.5, 0.5, 0.5), "std": (0.5, 0.5, 0.5)}
        self.config = SimpleNamespace(num_labels=1000)
        self.body = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.head = nn.Linear(8, 1000)

    def forward(self, images: Tensor) -> Any:
        return self.head(self.body(images))


class NetOfTransformers(Net):
    def forward(self, pixel_values: Tensor, labels: Tensor | None = None) -> Any:
        assert labels is None
        return SimpleNamespace(loss=None, logits=super().forward(pixel_values))


LIBRARIES: dict[str, Any] = {
    "torchvision": SimpleNamespace(
        models=SimpleNamespace(
            ResNet50_Weights=SimpleNamespace(DEFAULT=SimpleNamespace(meta={"categories": NAMES})),
            resnet50=lambda **_: Net(),
        )
    ),
    "timm": SimpleNamespace(create_model=lambda *_, **__: Net()),
    "transformers": SimpleNamespace(
        AutoModelForImageClassification=SimpleNamespace(from_pretrained=lambda _: NetOfTransformers())
    ),
}


@pytest.mark.parametrize("library", LIBRARIES)
def test_three_lines_make_a_smoothed_classifier(library: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    *_, last = SNIPPETS
    (three,) = [snippet for snippet in SNIPPETS if f"{library}." in snippet]
    assert len(three.strip().splitlines()) == 3
    monkeypatch.chdir(tmp_path)
    images, labels = torch.rand(2, 3, 16, 16), torch.tensor([0, 1])
    known = {"radii": radii, "dataset": (images, labels), **LIBRARIES}
    quick = last.replace("every=20", "workers=1, most_samples=200").replace("0.25, 0.5", "0.25, 0.3")
    exec(three + quick.replace("(0.5)", "(0.3)"), known)
    assert len(known["results"].rows) == 2
    assert (tmp_path / "report" / "report.html").is_file()
    assert known["smoothed"].prepared_for(images[0])[0] == "torch"


def test_commands_parse() -> None:
    """They name models that are not installed here, and a hub."""
    commands = every_command(ROOT / "docs" / "off_the_shelf.md")
    assert {words[1] for words in commands} == {"import", "push", "pull"}
    for words in commands:
        function, _, _ = cli.app.parse_args(words[1:], exit_on_error=False, print_error=False)
        assert callable(function)
