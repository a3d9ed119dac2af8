"""Shards and their merge on the command line."""

from pathlib import Path

import pytest

from radii.experiment.run import Run
from radii.loops.train import train
from tests.cli.running import radii
from tools.cluster import without_times
from tools.processes import RECIPE

SET = ("--engine", "torch", "--every", "60", "--workers", "1", "--set", "estimation=300")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("home")
    train(RECIPE, folder / "run")
    return folder


def test_shards_are_merged_into_the_file_of_one_command(home: Path) -> None:
    assert radii("certify", "run", *SET, cwd=home).code == 0
    (path,) = Run(home / "run").certificates.glob("*.tsv")
    alone, header = without_times(path), path.with_suffix(".json").read_bytes()
    path.unlink()
    path.with_suffix(".json").unlink()
    second = radii("certify", "run", *SET, "--shard", "2/2", cwd=home)
    assert "2-of-2.tsv: shard 2/2" in second.out
    early = radii("certify", "run", "--merge", cwd=home)
    assert early.code == 2
    assert "shards 1 of 2 are missing" in early.error
    assert radii("certify", "run", *SET, "--shard", "1/2", cwd=home).code == 0
    merged = radii("certify", "run", "--merge", cwd=home)
    assert (merged.code, "8 images" in merged.out) == (0, True), merged.error
    assert (without_times(path), path.with_suffix(".json").read_bytes()) == (alone, header)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--shard", "0/4"), "expected a number and how many, such as 3/16"),
        (("--shard", "5"), "expected a number and how many, such as 3/16"),
        (("--cluster", "nowhere"), "no Dask scheduler answers at 'nowhere'"),
    ],
)
def test_wrong_arguments_are_sentences(words: tuple[str, ...], message: str, home: Path) -> None:
    found = radii("certify", "run", *SET, *words, cwd=home)
    assert found.code != 0
    assert message in found.error
    assert "Traceback" not in found.error
