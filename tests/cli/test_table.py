"""`radii table`: shows the papers' tables, makes their rows, and continues with the same command."""

import csv
import gzip
import shutil
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from radii import cli
from radii.papers import budgets, tables
from radii.papers.cost import Seconds, Timings
from radii.papers.make import Maker
from radii.papers.match import match_runs, scan_runs
from radii.papers.tables import TableError
from radii.published_datasets import corrupted_sets
from tools.cluster import without_times

TINY = """
[tiny]
about = "one epoch, four images, two hundred samples"
epochs = 1
every = 120
estimation = 200
soft_label_samples = 2
"""


ROW = """
[[rows]]
label = "{label}"
sigma = 0.25
{system}
reported = {{ acr = 0.500, "r0.00" = 90.0 }}
"""


SYSTEMS = {
    "CRT": 'recipe = "digits/transfer-0.25"\nteacher = { recipe = "digits/gaussian-0.25" }',
    "CAT-RS": 'recipe = "digits/catrs-0.25"\nsoft_labels = { recipe = "digits/gaussian-0.25" }',
    "Gaussian": 'recipe = "digits/gaussian-0.25"',
    "Other": 'status = "missing"\nwhy = "nobody knows how"',
}


HEAD = """
title = "Digits"
source = "Nobody, Table 1"
kind = "certified"
dataset = "digits"
unit = "per cent"
sigma = [0.25]
radii = [0.00]
"""


CORRUPTIONS = """
title = "Corrupted digits"
source = "Nobody, Table 2"
kind = "corruptions"
dataset = "mnist_c"
unit = "percent"
sigma = [0.25]

[[rows]]
label = "Gaussian"
sigma = 0.25
recipe = "mnist/gaussian-0.25"
reported = { Fog = 50.0, mAcc = 50.0 }
"""


LABELS = np.arange(250) % 10


@pytest.fixture
def away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder to work in, with a table file, and a budget that takes seconds."""
    (tmp_path / "budgets.toml").write_text(TINY)
    rows = "".join(ROW.format(label=label, system=system) for label, system in SYSTEMS.items())
    (tmp_path / "mine.toml").write_text(HEAD + rows)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(budgets, "folder", lambda: tmp_path)
    budgets.budgets.cache_clear()
    yield tmp_path
    budgets.budgets.cache_clear()


def radii(*words: str) -> None:
    cli.app([*words], exit_on_error=False, print_error=False, result_action="return_value")


def test_every_table_is_in_the_overview(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("radii.cli.table._has_timings", lambda: False)
    radii("table")
    printed = capsys.readouterr().out
    assert all(f"\n{name} " in printed for name in tables.names())
    assert "radii table NAME --time" in printed


@pytest.mark.usefixtures("away")
def test_rows_of_one_table_are_timed(capsys: pytest.CaptureFixture[str]) -> None:
    radii("table", "mine.toml", "--time", "--only", "gauss", "--budget", "tiny")
    printed = capsys.readouterr().out
    _, _, costs = printed.partition("Rows not made yet")
    assert "timed: gaussian on digits_cnn" in printed
    assert "Gaussian  about" in costs
    assert "CRT" not in costs
    radii("table", "mine.toml", "--budget", "tiny")  # what was timed is known from then on
    assert "Gaussian  about" in capsys.readouterr().out


@pytest.mark.usefixtures("away")
def test_quiet_still_prints_the_table(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_module("radii.cli.app").console, "quiet", True)
    radii("table", "mine.toml", "--budget", "tiny")
    assert "Reported and here" in capsys.readouterr().out


@pytest.mark.usefixtures("away")
@pytest.mark.parametrize("words", [["--seeds", "5"], ["--workers", "2"], ["--data", "here"], ["--only", "CRT"]])
def test_options_for_making_rows_need_run(words: list[str]) -> None:
    with pytest.raises(ValueError, match=rf"(?i){' '.join(words)} is for .*rows that .*\. .*add --run"):
        radii("table", "mine.toml", "--budget", "tiny", *words)
    with pytest.raises(ValueError, match=f"{words[0]} belongs to one table"):
        radii("table", "--budget", "tiny", *words)


@pytest.mark.usefixtures("away")
def test_rows_that_are_made_are_not_timed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("radii.cli.table.rows_not_made", lambda *_: [])
    radii("table", "mine.toml", "--time", "--budget", "tiny")
    assert "timed" not in capsys.readouterr().out


@pytest.mark.slow
def test_rows_are_made_cheapest_first_and_not_twice(away: Path, capsys: pytest.CaptureFixture[str]) -> None:
    radii("table", "mine.toml", "--run", "--budget", "tiny", "--workers", "1", "--out", "out")
    printed = capsys.readouterr().out
    assert "Other: missing: nobody knows how" in printed
    assert printed.index("Gaussian, seed 0: runs") < printed.index("CAT-RS, seed 0: runs")
    assert (away / "out" / "mine.html").is_file()
    table = tables.read(Path("mine.toml"))
    results = match_runs(table, scan_runs([away / "runs"]))
    assert {label: [each.budget for each in some] for label, some in results.items()} == {
        "CRT": ["tiny"],
        "CAT-RS": ["tiny"],
        "Gaussian": ["tiny"],
        "Other": [],
    }
    assert results["CAT-RS"][0].remark == "soft labels of 2 votes"
    runs = {path.parent for path in (away / "runs").rglob("model.safetensors")}
    assert len(runs) == 3, "the teacher, the voter and the Gaussian row are one run"
    radii("table", "mine.toml", "--run", "--budget", "tiny", "--only", "gauss")
    assert "Gaussian, seed 0: done before" in capsys.readouterr().out


@pytest.mark.slow
def test_rows_made_by_a_cluster_are_the_same(away: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With threads for the cluster: tests/workers/test_cluster.py has a real one."""
    addresses: list[str] = []

    @contextmanager
    def cluster_executor(address: str) -> Iterator[Executor]:
        addresses.append(address)
        with ThreadPoolExecutor(2) as pool:
            yield pool

    monkeypatch.setattr("radii.workers.cluster.cluster_executor", cluster_executor)
    words = ("table", "mine.toml", "--run", "--budget", "tiny", "--only", "CAT-RS")
    radii(*words, "--workers", "1")
    (away / "runs").rename(away / "alone")
    radii(*words, "--cluster", "tcp://host:8786")
    assert addresses == ["tcp://host:8786"]
    for pattern, content in (("soft-labels.npy", Path.read_bytes), ("*/certificates/*.tsv", without_times)):
        (alone,), (here,) = ((away / folder / "tables").rglob(pattern) for folder in ("alone", "runs"))
        assert content(here) == content(alone)


def test_file_of_a_matched_run_is_shown_once(away: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = Path(__file__).parents[2] / "results" / "digits" / "thirty-epochs" / "gaussian"
    shutil.copytree(results, away / "runs" / "g")
    words = ("table", "mine.toml", "--budget", "tiny")
    radii(*words)
    alone = capsys.readouterr().out
    radii(*words, "--from", "runs/g", "--row", "Gaussian")
    assert capsys.readouterr().out == alone


@pytest.mark.usefixtures("away")
def test_row_that_fails_does_not_stop_the_others(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def make(_: Maker, __: object, row: tables.Row, *___: int) -> object:
        if row.label != "Gaussian":
            raise ValueError("there is no such data")
        return type("Made", (), {"path": "runs/x"})()

    monkeypatch.setattr(Maker, "make", make)
    monkeypatch.setattr(Timings, "of", lambda *_: Seconds(1e-3, 1e-6))
    with pytest.raises(ValueError, match="2 of 3 trainings of mine could not be made"):
        radii("table", "mine.toml", "--run", "--budget", "tiny")
    printed = capsys.readouterr().out
    assert printed.count("not made: there is no such data") == 2
    assert "Gaussian, seed 0: runs/x" in printed


@pytest.mark.usefixtures("away")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["crt2", "--budget", "tiny"], "did you mean 'crt-2'"),
        (["--run", "--budget", "tiny"], "belongs to one table"),
        (["mine.toml", "--budget", "tinny"], "did you mean 'tiny'"),
        (["mine.toml", "--run", "--budget", "tiny", "--only", "nothing"], "No row of mine has 'nothing'"),
        (["mine.toml", "--run", "--budget", "tiny", "--seeds", "0"], "expected a whole number >= 1"),
        (["mine.toml", "--budget", "tiny", "--from", "x.tsv"], "go in pairs"),
        (["--budget", "tiny", "--cluster", "tcp://h:1"], "--cluster belongs to one table"),
        (["mine.toml", "--budget", "tiny", "--cluster", "tcp://h:1"], "is for the rows that --run makes"),
        (
            ["mine.toml", "--run", "--budget", "tiny", "--cluster", "tcp://h:1", "--workers", "2"],
            "--workers 2 and --cluster tcp://h:1 are mutually exclusive",
        ),
        (["mine.toml", "--budget", "tiny", "--in", "nowhere"], "There is no folder nowhere"),
        (["crt-16", "--run", "--budget", "tiny"], "crt-16 is a table of settings: it has no rows to train"),
        (["mine.toml", "--run", "--budget", "tiny", "--data", "nowhere"], "no folder nowhere to read the data from"),
    ],
)
def test_wrong_option_is_explained(words: list[str], message: str) -> None:
    with pytest.raises((ValueError, LookupError), match=message):
        radii("table", *words)


@pytest.mark.usefixtures("away")
def test_table_of_means_is_made_with_the_papers_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[tuple[str, int]] = []

    def make(_: Maker, __: object, row: tables.Row, seed: int) -> object:
        made.append((row.label, seed))
        return type("Made", (), {"path": "runs/x"})()

    monkeypatch.setattr(Maker, "make", make)
    monkeypatch.setattr(Timings, "of", lambda *_: Seconds(1e-3, 1e-6))
    mine = Path("mine.toml")
    mine.write_text(mine.read_text().replace("radii = [0.00]", "radii = [0.00]\nseeds = 3"))
    radii("table", "mine.toml", "--run", "--budget", "tiny", "--only", "Gaussian")
    assert made == [("Gaussian", 0), ("Gaussian", 1), ("Gaussian", 2)]
    made.clear()
    radii("table", "mine.toml", "--run", "--budget", "tiny", "--only", "Gaussian", "--seeds", "1")
    assert made == [("Gaussian", 0)]


def corrupted_digits(folder: Path) -> None:
    """Random images in the published layouts of MNIST and of the fifteen kinds of MNIST-C."""
    rng = np.random.default_rng(0)
    for prefix, count in (("train", 64), ("t10k", 250)):
        for kind, content in (
            ("images-idx3", rng.integers(256, size=(count, 28, 28))),
            ("labels-idx1", LABELS[:count]),
        ):
            sizes = b"".join(side.to_bytes(4, "big") for side in content.shape)
            packed = gzip.compress(b"\0\0\x08" + bytes([content.ndim]) + sizes + content.astype(np.uint8).tobytes())
            (folder / f"{prefix}-{kind}-ubyte.gz").write_bytes(packed)
    for each in corrupted_sets("mnist_c"):
        place = folder / "mnist_c" / each["kind"]
        place.mkdir(parents=True)
        np.save(place / "test_images.npy", rng.integers(256, size=(250, 28, 28, 1), dtype=np.uint8))
        np.save(place / "test_labels.npy", LABELS)


@pytest.mark.slow
def test_rows_of_corruptions_are_made_of_every_kind(away: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (away / "corruptions.toml").write_text(CORRUPTIONS)
    corrupted_digits(away)
    last = away / "mnist_c" / "zigzag"
    words = ("table", "corruptions.toml", "--run", "--budget", "tiny", "--workers", "1", "--data", ".")
    last.rename(away / "elsewhere")
    with pytest.raises(ValueError, match="1 of 1 trainings"):
        radii(*words)
    assert "not made: . has no folder mnist_c/zigzag" in capsys.readouterr().out
    assert not list((away / "runs").rglob("recipe.toml")), "nothing is trained for images that are not there"
    (away / "elsewhere").rename(last)
    radii(*words)
    printed = capsys.readouterr().out
    assert "every 120th of 250 test images of mnist_c (3)" in printed
    assert "no complete file of" not in printed
    assert {"95 % from", "95 % to"} <= {line.strip().split("  ")[0] for line in printed.splitlines()}
    made = sorted((away / "runs").rglob("*.tsv"))
    assert len(made) == 15
    radii(*words)
    assert "Gaussian, seed 0: done before" in capsys.readouterr().out
    made[0].unlink()
    radii(*words)
    assert "done before" not in capsys.readouterr().out
    assert sorted((away / "runs").rglob("*.tsv")) == made
    cut = made[1].read_text().splitlines(keepends=True)
    made[1].write_text("".join(cut[:-1]))
    shown = ("table", "corruptions.toml", "--budget", "tiny")
    radii(*shown, "--out", "out")
    assert "no complete file of" in capsys.readouterr().out
    (*_, seeds, place), *_ = list(csv.reader((away / "out" / "corruptions.csv").read_text().splitlines()))[1:]
    assert (seeds, place) == ("0", str(made[0].parents[1].relative_to(away)))
    weights = made[0].parents[1] / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + bytes([weights.read_bytes()[-1] ^ 1]))
    radii(*shown)
    assert "not made yet" in capsys.readouterr().out
    with pytest.raises(TableError, match="no certificates for the images of corruptions and its present weights"):
        radii(*shown, "--from", str(made[0].parents[1]), "--row", "Gaussian")
    with pytest.raises(TableError, match="was made with other weights or noise than .* has now"):
        radii(*shown, "--from", str(made[0]), "--row", "Gaussian")
