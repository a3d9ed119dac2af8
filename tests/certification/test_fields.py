"""The fields of certifiers are types: they are those of the registry, and mypy refuses others."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import pytest
import torch

import radii
from radii import certifiers, plugins
from radii.certification.fields import FIELDS
from radii.certifiers import Certifier
from radii.fields import settings_of

ROOT = Path(__file__).parents[2]
CONFIG = """
[mypy]
mypy_path = {source}
[mypy-torch.*,numpy.*,PIL.*,scipy.*,safetensors.*,matplotlib.*,pandas.*,cloudpickle.*,onnx.*,onnxruntime.*]
follow_imports = skip
ignore_missing_imports = True
"""
RIGHT = """
from pathlib import Path
import radii
from PIL.Image import Image
from radii.certifiers import Certifier

def use(smoothed: radii.SmoothedClassifier, image: Image, mine: Certifier) -> None:
    radii.certify(smoothed, image)
    radii.certify(smoothed, image, estimation=1_000, failure=0.01)
    radii.certify(smoothed, image, "sequential", radii=(0.25, 0.5), label=3)
    radii.certify(smoothed, image, mine, seed=0)
    radii.predict(smoothed, image, samples=100)
    for row in radii.certify_dataset(smoothed, "digits", "soft", seed=0, bound="betting", out=Path("a.tsv")):
        reveal_type(row.radius)
"""
WRONG = (
    "radii.certify(smoothed, image, n=100)",
    'radii.certify(smoothed, image, "sequential", estimation=100)',
    'radii.certify(smoothed, image, "fixed", bound="all")',
    'radii.certify_dataset(smoothed, "digits", seed=0, n=100)',
    'radii.certify_dataset(smoothed, "digits", "planned", radii=(0.5,), seed=0)',
    "radii.predict(smoothed, image, estimation=100)",
)


@pytest.mark.parametrize("name", certifiers.names())
def test_types_are_the_fields_of_the_certifier(name: str) -> None:
    known = {setting.name: setting for setting in settings_of(plugins.find("certifiers", name, Certifier))}
    typed = get_type_hints(FIELDS[name])
    assert set(typed) == set(known)
    for key, hint in typed.items():
        choices = known[key].limits.get("choices")
        assert (get_args(hint) == choices) if choices else _kind(hint) == _kind(known[key].hint)


def _kind(hint: Any) -> Any:
    """A list of numbers may be any sequence of them."""
    return get_args(hint)[0] if get_origin(hint) in (tuple, Sequence) else hint


@pytest.mark.slow
def test_mypy_refuses_fields_that_a_certifier_does_not_have(tmp_path: Path) -> None:
    first = RIGHT.count("\n") + 1
    calls = "".join(f"    {call}\n" for call in WRONG)
    (tmp_path / "snippet.py").write_text(RIGHT + calls)
    (tmp_path / "mypy.ini").write_text(CONFIG.format(source=ROOT / "src"))
    options = ["--config-file", "mypy.ini", "--no-error-summary", "--hide-error-context"]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *options, "snippet.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    said = [line for line in done.stdout.splitlines() if line.startswith("snippet.py")]
    assert any('Revealed type is "float"' in line for line in said), done.stdout
    wrong = {int(line.split(":")[1]) for line in said if ": error:" in line}
    assert wrong == set(range(first, first + len(WRONG))), "\n".join(said)


def test_certifier_may_be_an_object() -> None:
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 2))
    smoothed, image = radii.SmoothedClassifier(model, sigma=0.25, classes=2), torch.ones(1, 2, 2)
    fixed = certifiers.create("fixed", estimation=500)
    assert radii.certify(smoothed, image, fixed, seed=0) == radii.certify(smoothed, image, seed=0, estimation=500)
    data = image[None], torch.tensor([0])
    one, other = (
        radii.certify_dataset(smoothed, data, fixed, seed=0, workers=1),
        radii.certify_dataset(smoothed, data, seed=0, workers=1, estimation=500),
    )
    assert [row.counts for row in one] == [row.counts for row in other]
    with pytest.raises(ValueError, match="failure is stated beside a certifier, which has its fields already"):
        radii.certify(smoothed, image, fixed, failure=0.1)
