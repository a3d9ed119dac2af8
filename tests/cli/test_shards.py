"""Shards and their merge on the command line."""

import json
import shutil
from pathlib import Path

import pytest
import torch

from radii.certification.data import EvaluatedImages
from radii.datasets.base import DataError, InMemory
from radii.runs.run import Run
from tests.cli.running import radii
from tools.cluster import without_times
from tools.processes import copied

OTHERS = InMemory(torch.zeros(1, 1, 8, 8), torch.zeros(1, dtype=torch.int64))
SET = ("--engine", "torch", "--every", "60", "--workers", "1", "--set", "estimation=300")


@pytest.fixture(scope="module")
def home(trained_digits: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("home")
    shutil.copytree(trained_digits, folder / "run")
    return folder


def test_shards_are_merged_into_the_file_of_one_command(home: Path) -> None:
    assert radii("certify", "run", *SET, cwd=home).code == 0
    (path,) = Run(home / "run").certificates.glob("*.tsv")
    alone, header = without_times(path), path.with_suffix(".json").read_bytes()
    (pictures,) = (home / "run" / "pictures").iterdir()
    shown = pictures.read_bytes()
    for each in (path, path.with_suffix(".json"), pictures):
        each.unlink()
    second = radii("certify", "run", *SET, "--shard", "2/2", cwd=home)
    assert "2-of-2.tsv: shard 2/2" in second.out
    early = radii("certify", "run", "--merge", cwd=home)
    assert early.code == 2
    assert "Shards 1 of 2 are missing" in early.error
    assert radii("certify", "run", *SET, "--shard", "1/2", cwd=home).code == 0
    merged = radii("certify", "run", "--merge", cwd=home)
    assert (merged.code, "8 images" in merged.out) == (0, True), merged.error
    assert (without_times(path), path.with_suffix(".json").read_bytes()) == (alone, header)
    assert pictures.read_bytes() == shown
    assert [each.name for each in pictures.parent.iterdir()] == [pictures.name]
    beside = {each.name for each in path.parent.iterdir()}
    assert {name for name in beside if not name.startswith(".")} == {path.name, path.with_suffix(".json").name, "parts"}
    first = json.loads(radii("certify", "run", *SET, "--shard", "1/2", "--json", cwd=home).out)
    assert first["shard"] == "1/2"
    assert json.loads(radii("certify", "run", "--merge", "--json", cwd=home).out)["file"] == str(path.relative_to(home))
    assert "l-infinity" in radii("certify", "run", "--merge", "--linf", cwd=home).out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--shard", "0/4"), "is not a shard. Write NUMBER/COUNT, such as 3/16"),
        (("--shard", "5"), "is not a shard. Write NUMBER/COUNT, such as 3/16"),
        (("--shard", "3/2"), "is not a shard. Write NUMBER/COUNT, such as 3/16"),
        (("--shard", "1/2", "--linf"), "--linf needs all images, not one shard. Give it with --merge instead."),
        (("--cluster", "nowhere", "--workers", "2"), "--workers 2 and --cluster nowhere are mutually exclusive"),
        (("--merge", "--shard", "1/2"), "--shard cannot be combined with --merge. Leave it out."),
        (("--merge", "--cluster", "nowhere"), "--cluster cannot be combined with --merge"),
        (("--merge", "--with", "sequential"), "--with cannot be combined with --merge"),
        (("--merge", "--without-labels"), "--without-labels cannot be combined with --merge"),
        (("--merge", "--max", "3"), "--max cannot be combined with --merge"),
    ],
)
def test_wrong_arguments_are_refused(words: tuple[str, ...], message: str, home: Path) -> None:
    found = radii("certify", "run", *words, cwd=home)
    assert found.code == 2
    assert message in found.error
    assert "Traceback" not in found.error


def test_parts_without_their_data_are_merged_without_pictures(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = copied(Run(home / "run"), tmp_path)
    assert radii("certify", "run", *SET, "--shard", "1/1", cwd=tmp_path).code == 0

    def unreadable(*_: object) -> None:
        raise DataError("there is no digits here", "data")

    monkeypatch.setattr("radii.certification.pictures.evaluated_images", unreadable)
    merged = radii("certify", "run", "--merge", cwd=tmp_path)
    assert (merged.code, "8 images" in merged.out) == (0, True)
    assert "no pictures for a report: there is no digits here; merge again" in merged.error
    assert not (run.path / "pictures").exists()
    monkeypatch.setattr(
        "radii.certification.pictures.evaluated_images", lambda *_: EvaluatedImages(OTHERS, {}, "digits")
    )
    assert (
        "no pictures for a report: the images there are not those that were certified"
        in radii("certify", "run", "--merge", cwd=tmp_path).error
    )
