from pathlib import Path

import pytest

from examples.whole_test_set import whole


def table(path: Path, radii: dict[int, float]) -> Path:
    lines = [
        f"{index}\t3\t{3 if radius else 4}\t{radius or 0.2}\t{int(radius > 0)}\t0:00:01"
        for index, radius in radii.items()
    ]
    path.write_text("\n".join(["idx\tlabel\tpredict\tradius\tcorrect\ttime", *lines, ""]))
    return path


def test_regression_on_cheap_radii_corrects_the_average_of_few_images(tmp_path: Path) -> None:
    """The costly radii are twice the cheap ones, and the few images have smaller radii than the rest."""
    cheap = {index: index / 100 for index in range(100)}
    few = table(tmp_path / "few.tsv", {index: 2 * cheap[index] for index in range(0, 50, 5)})
    average, error = whole(few, table(tmp_path / "all.tsv", cheap))
    assert average == pytest.approx(2 * 0.495)
    assert error == pytest.approx(0, abs=1e-9)


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
