"""Results in notebooks and data frames: length, rows, tables, curves, and reading them from files."""

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import radii
from radii import certifiers, disk
from radii.certification.certify import CertificationConfig, certify_run
from radii.errors import MissingExtraError, ParameterError
from radii.runs.certificates import Certificates, Row
from radii.runs.run import Run

HEADER = {
    "sigma": 0.25,
    "procedure": "fixed",
    "parameters": {"failure": 0.001},
    "noise": {"name": "gaussian", "sigma": 0.25},
}


@pytest.fixture
def results() -> radii.Results:
    """Four images: certified at 0.5 and at 0.2, an abstention, and a wrong answer."""
    rows = [
        Row(0, 1, 1, 0.5, 0.1, 100),
        Row(5, 1, 1, 0.2, 0.1, 100),
        Row(10, 0, -1, 0.0, 0.1, 50),
        Row(15, 0, 1, 0.9, 0.1),
    ]
    return radii.Results(Certificates("mine", rows, HEADER))


def test_results_are_a_sequence_of_rows(results: radii.Results) -> None:
    assert len(results) == 4
    assert [row.index for row in results] == [0, 5, 10, 15]


def test_report_beside_certificates_of_another_function_is_refused(results: radii.Results, tmp_path: Path) -> None:
    """An activation is not part of a header in memory: without a look at the rows, the first results were reported."""
    results.report(tmp_path / "out")
    results.report(tmp_path / "out")
    first, *rest = results.rows
    other = radii.Results(Certificates("mine", [replace(first, radius=0.1), *rest], HEADER))
    with pytest.raises(ParameterError, match=r"certificates\.tsv holds other certificates of these images"):
        other.report(tmp_path / "out")


def test_data_frame_has_a_row_for_each_image(results: radii.Results) -> None:
    pytest.importorskip("pandas", reason="the extra radii[pandas] is not installed")
    frame: Any = results.to_pandas()
    assert list(frame.columns) == ["label", "prediction", "radius", "correct", "samples", "seconds"]
    assert list(frame.index) == [0, 5, 10, 15]
    assert frame.loc[10, "prediction"] == radii.ABSTAIN
    certified = frame[frame.correct & (frame.radius >= 0.2)]
    assert len(certified) / len(frame) == results.accuracy(0.2) == 0.5


def test_data_frame_without_pandas_names_the_extra(results: radii.Results, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingExtraError, match=r"needs pandas, which is not installed\. Install it by: .*\[pandas\]"):
        results.to_pandas()


def test_plots_share_axes(results: radii.Results) -> None:
    pytest.importorskip("matplotlib", reason="the extra radii[plot] is not installed")
    from radii.reports.figures import make_axes

    _, axes = make_axes(4, 3)
    assert results.plot(axes) is axes
    results.plot(axes, label="again")
    assert axes.get_legend_handles_labels()[1] == ["mine", "again"]
    colours = {line.get_color() for line in axes.get_lines()}
    assert len(colours) == 2
    assert axes.get_xlabel() == "Radius (l2, pixels in [0, 1])"
    heights: Any = axes.get_lines()[0].get_ydata()
    assert max(heights) == 50.0


def test_plot_without_axes_is_of_pyplot(results: radii.Results, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib", reason="the extra radii[plot] is not installed")
    monkeypatch.setenv("MPLBACKEND", "agg")
    from matplotlib import pyplot

    assert results.plot() is pyplot.gca()
    pyplot.close("all")


def test_notebook_shows_a_table_and_a_curve(results: radii.Results) -> None:
    html = results._repr_html_()
    assert "4 images, 50.0% certified and correct" in html
    assert "<th" in html
    assert "Radius (l2, pixels in [0, 1])" in html
    assert '<td style="text-align: left">0.25</td><td style="text-align: left">25.0</td>' in html
    assert html.count("<path") == 1


def test_curve_is_never_above_what_is_certified(results: radii.Results) -> None:
    from radii.runs.certificates import accuracy_steps

    assert accuracy_steps(results.certificates) == [(0.0, 50.0), (0.2, 50.0), (0.5, 25.0)]


def test_notebook_escapes_foreign_text() -> None:
    from radii import notebook

    assert "<script>" not in notebook.table(("<script>",), [("<script>",)], "<script>")
    assert notebook.curves([("empty", [])], "title") == ""
    two = notebook.curves([("<b>", [(0.0, 50.0), (1.0, 25.0)]), ("other", [(0.0, 10.0), (0.5, 5.0)])], "title")
    assert "&lt;b&gt;" in two
    assert two.count("<path") == 2


def test_certificate_in_a_notebook_rounds_down() -> None:
    html = radii.Certificate(3, 0.79999, 1000, name="<cat>")._repr_html_()
    assert "&lt;cat&gt;" in html
    assert "0.7999 (in the norm of the noise, pixels in [0, 1])" in html
    assert "abstains" in radii.Certificate(radii.ABSTAIN, 0.0, 1000)._repr_html_()


def test_run_in_a_notebook_and_results_of_its_file(digits_run: Callable[..., Run]) -> None:
    run = digits_run()
    assert "digits_cnn" in run._repr_html_()
    assert "right without noise" not in run._repr_html_()
    disk.write_json(run.check_file, {"right": 440, "images": 450, "weights": run.weights_digest()})
    assert "440 of 450 test images" in run._repr_html_()
    assert "<path" not in run._repr_html_()
    with pytest.raises(ValueError, match=r"holds no certificates\. Make them with `radii certify"):
        radii.read_results(run.path)
    certify(run, 200)
    html = run._repr_html_()
    assert "3 images" in html
    assert "<path" in html
    assert len(radii.read_results(run.path)) == 3
    certify(run, 300)
    with pytest.raises(ValueError, match="has 2 certificate files: .* Name one of them"):
        radii.read_results(run.path)
    assert len(radii.read_results(next(run.certificates.glob("*.tsv")))) == 3


def certify(run: Run, estimation: int) -> None:
    fixed = certifiers.create("fixed", estimation=estimation)
    certify_run(CertificationConfig(run=run.path, certifier=fixed, max_images=3, engine="torch"), workers=1)


def test_version_is_that_of_the_package() -> None:
    from importlib import metadata

    assert radii.__version__ == metadata.version("radii")
    assert all(hasattr(radii, name) for name in radii.__all__)
