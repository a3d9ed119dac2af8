"""`radii report`: paths, labels, radii and titles."""

from pathlib import Path

import pytest

from radii import cli


def log(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("idx\tlabel\tpredict\tradius\tcorrect\ttime\n0\t3\t3\t0.48\t1\t14.5\n")
    return path


def call(*arguments: str) -> None:
    cli.app(arguments, exit_on_error=False, print_error=False, result_action="return_value")


@pytest.mark.parametrize("name", ["[/x]", "[1]", "[bold]", "{a}", ":smile:", "a\x1b[31mb", "-a"])
def test_paths_with_markup_or_control_characters_are_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    log(Path(name) / "a.tsv")
    call("report", f"--out={name}/out", "--", f"{name}/a.tsv")
    assert (tmp_path / name / "out" / "report.html").is_file()
    printed = capsys.readouterr().out
    assert "\x1b" not in printed
    assert printed.strip() == f"{name}/out/report.html".replace("\x1b", r"\x1b")


@pytest.mark.parametrize(
    ("path", "name"), [("a.tsv", "Gaussian, sigma = 0.25"), ("sigma=0.25/a.tsv", "plain"), ("s=1/a.tsv", "lambda=10")]
)
def test_paths_and_labels_with_an_equals_sign(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    log(Path(path))
    call("report", path, "--label", f"{path}={name}")
    assert Path("report/report.csv").read_text().splitlines()[1].removeprefix('"').startswith(name)


def test_large_radii_are_refused_and_an_empty_title_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    log(Path("a.tsv"))
    with pytest.raises(ValueError, match="expected numbers from 0 to 1000"):
        call("report", "a.tsv", "--radii", "5000")
    call("report", "a.tsv", "--title", " ")
    assert "<title>Certified accuracy</title>" in Path("report/report.html").read_text()


@pytest.mark.parametrize("label", ["a.tsv", "=x", "a.tsv=", "a.tsv= "])
def test_labels_without_a_path_or_a_name_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, label: str
) -> None:
    monkeypatch.chdir(tmp_path)
    log(Path("a.tsv"))
    with pytest.raises(ValueError, match="expected RUN=NAME, such as runs/g=Gaussian"):
        call("report", "a.tsv", "--label", label)
