import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from examples import whole_test_set
from examples.whole_test_set import whole
from radii.runs.certificate_writer import CertificateFile
from radii.runs.certificates import Row

HEADER: dict[str, Any] = {
    "procedure": "fixed",
    "parameters": {},
    "noise": {"name": "gaussian", "sigma": 0.5},
    "weights": "w",
    "data": "d",
    "engine": "torch",
}


def table(path: Path, radii: dict[int, float], digest: str = "same", **header: Any) -> Path:
    file = CertificateFile(path, {**HEADER, **header})
    for index, radius in radii.items():
        file.append(Row(index, 3, 3 if radius else 4, radius or 0.2, 1.0, 100, digest=digest))
    return path


def test_regression_on_cheap_radii_corrects_the_average_of_few_images(tmp_path: Path) -> None:
    """The costly radii are twice the cheap ones, and the few images have smaller radii than the rest."""
    cheap = {index: index / 100 for index in range(100)}
    few = table(tmp_path / "few.tsv", {index: 2 * cheap[index] for index in range(0, 50, 5)})
    average, error = whole(few, table(tmp_path / "all.tsv", cheap))
    assert average == pytest.approx(2 * 0.495)
    assert error == pytest.approx(0, abs=1e-9)


RADII = {index: index / 10 for index in range(5)}


@pytest.mark.parametrize(
    ("header", "words"),
    [
        ({"weights": "v"}, "differ in weights: w and v"),
        ({"noise": {"name": "gaussian", "sigma": 0.25}}, "differ in noise"),
        ({"data": "e"}, "differ in data"),
        ({"engine": "openvino_int8"}, "differ in engine"),
        ({"digest": "another"}, "lacks image 0"),
    ],
)
def test_files_of_different_functions_or_images_are_refused(tmp_path: Path, header: dict[str, Any], words: str) -> None:
    one, other = table(tmp_path / "few.tsv", RADII), table(tmp_path / "all.tsv", RADII, **header)
    with pytest.raises(ValueError, match=words):
        whole(one, other)


def test_engines_that_only_round_differently_are_one_function(tmp_path: Path) -> None:
    files = table(tmp_path / "few.tsv", RADII), table(tmp_path / "all.tsv", RADII, engine="compile")
    assert whole(*files)[0] == pytest.approx(0.2)


def test_images_without_a_cheap_certificate_are_refused(tmp_path: Path) -> None:
    few, every = table(tmp_path / "few.tsv", RADII), table(tmp_path / "all.tsv", {0: 0.1, 1: 0.2})
    with pytest.raises(ValueError, match="lacks image 2"):
        whole(few, every)


def test_files_without_weights_are_refused_in_a_sentence(tmp_path: Path) -> None:
    for name in ("few.tsv", "all.tsv"):
        (tmp_path / name).write_text("idx\tlabel\tpredict\tradius\tcorrect\ttime\n0\t3\t3\t0.1\t1\t0:00:01\n")
    command = [sys.executable, whole_test_set.__file__, *(str(tmp_path / name) for name in ("few.tsv", "all.tsv"))]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert "does not record its weights" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("run", "few_images", "few_samples", "expected"),
    [
        ("mnist-gaussian-0.50", "cd8cde39", "acea157c", (1.556, 0.007)),
        ("consistency-full", "b9d93720", "f38a2cc6", (1.656, 0.007)),
    ],
)
def test_documented_numbers(run: str, few_images: str, few_samples: str, expected: tuple[float, float]) -> None:
    folder = Path(__file__).parents[2] / "results/mnist/published-schedule" / run / "certificates"
    files = (folder / f"fixed-{name}.tsv" for name in (few_images, few_samples))
    assert whole(*files) == pytest.approx(expected, abs=5e-4)
