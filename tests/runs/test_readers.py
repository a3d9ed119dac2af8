"""Invalid files of an untrusted run: each is an error of one sentence that names the file."""

import json
import os
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from radii import disk
from radii.reports import accuracies, inputs
from radii.reports.details import details
from radii.runs import certificates, readers, recipe
from radii.runs.lineage import teachers
from radii.runs.run import Run, RunError

DEEP = "[" * 100_000
LONG = "7" * 400
COLUMNS = "idx\tlabel\tpredict\tradius\tcorrect\ttime\n"


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path)


JSON_READERS: dict[str, Callable[[Run], object]] = {
    "origin.json": lambda run: run.source("teacher"),
    "environment.json": lambda run: run.environment(),
    "transfer.json": lambda run: readers.transfer_cost(run.path / "transfer.json"),
    "header.json": lambda run: readers.header(run.path / "header.json"),
}


@pytest.mark.parametrize("name", JSON_READERS)
@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (DEEP, "is nested too deeply"),
        ('{"a":' * 100_000, "is nested too deeply"),
        ("[]", "does not hold a JSON object"),
        ("7", "does not hold a JSON object"),
        (f'{{"seed": {LONG}}}', "a number of 400 digits"),
        ('{"sigma": NaN}', "NaN is not a JSON number"),
        ("", "is not JSON"),
        (b"\xff\xfe\x00", "is not text"),
    ],
    ids=["deep list", "deep object", "list", "number", "400 digits", "nan", "empty", "binary"],
)
def test_invalid_json_is_an_error_with_the_file_name(name: str, content: str | bytes, sentence: str, run: Run) -> None:
    path = run.path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ValueError, match=sentence) as caught:
        JSON_READERS[name](run)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("origin.json", {"teacher": []}, "teacher = .*expected an object with a path and a hash"),
        ("origin.json", {"teacher": {"path": "a\0b", "hash": ""}}, "expected an object with a path"),
        ("origin.json", {"teacher": {"path": "a" * 300, "hash": ""}}, "expected an object with a path"),
        ("origin.json", {"teacher": {"path": 1, "hash": ""}}, "expected an object with a path"),
        ("transfer.json", {}, "has no 'method'"),
        ("transfer.json", {"method": "a", "method_seconds_per_epoch": "b", "steps_timed": 1}, "expected seconds"),
        ("header.json", {"every": 0}, "every = 0, expected a whole number >= 1"),
        ("header.json", {"images": 10**30}, "images = 1000"),
        ("header.json", {"sigma": "a"}, "sigma = 'a', expected a number above 0"),
        ("header.json", {"format": "2"}, "format = '2', expected a whole number >= 1"),
        ("header.json", {"weights": []}, r"weights = \[\], expected a text"),
        ("header.json", {"data": {}}, "data = {}, expected a text"),
        ("header.json", {"artefact": []}, r"artefact = \[\], expected a text or null"),
        ("header.json", {"code": None}, "code = None, expected an object of texts"),
        ("header.json", {"code": {"a:b": []}}, "code = .*expected an object of texts"),
        ("header.json", {"batch_size": "many"}, "batch_size = 'many', expected a whole number from 1 to 1048576"),
        ("header.json", {"batch_size": 10**9}, "batch_size = 1000000000, expected a whole number from 1 to 1048576"),
        ("header.json", {"noise": {"name": 1}}, "noise.name = 1, expected a name"),
        ("header.json", {"environments": 1}, "environments = 1, expected a list of objects with a first_row"),
        ("header.json", {"environments": [1]}, "environments = .*expected a list of objects with a first_row"),
        ("header.json", {"environments": [{}]}, "environments = .*expected a list of objects with a first_row"),
        ("header.json", {"parameters": []}, "parameters = .*expected an object"),
        ("header.json", {"parameters": {"failure": 1}}, "parameters.failure = 1, expected a number between 0 and 1"),
    ],
)
def test_field_of_the_wrong_type_is_named(name: str, content: Any, sentence: str, run: Run) -> None:
    (run.path / name).write_text(json.dumps(content))
    with pytest.raises(ValueError, match=sentence):
        JSON_READERS[name](run)


def test_too_large_or_endless_file_is_not_read(run: Run) -> None:
    run.environment_file.write_bytes(b" " * (readers.MOST_TEXT + 1))
    with pytest.raises(ValueError, match="has more than 16,777,216 bytes"):
        run.environment()
    with pytest.raises(ValueError, match="/dev/zero is not a file"):
        certificates.read(Path("/dev/zero"))


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("epoch,seconds\n0,1.0,2\n", "line 2 does not have the cells"),
        ("epoch,seconds\n0\n", "line 2 does not have the cells"),
        ("epoch,loss\n0,1\n", "seconds = None, expected a time above 0"),
        ("epoch,seconds\n0,nan\n", "seconds = 'nan'"),
        (f"epoch,seconds\n0,{LONG}\n", "seconds = '777"),
        ('epoch,seconds\n0,"' + "a" * 200_000 + '"\n', "is not CSV"),
        ("epoch,seconds\n0,\0\n", "seconds = |is not CSV"),
    ],
)
def test_invalid_history_is_an_error(content: str, sentence: str, run: Run) -> None:
    run.history_file.write_text(content)
    with pytest.raises(ValueError, match=sentence) as caught:
        run.history()
    assert str(run.history_file) in str(caught.value)


@pytest.mark.parametrize(
    "line",
    [
        "0\t1\t1\t1e8\t1\t0",
        f"{LONG}\t1\t1\t0.5\t1\t0",
        f"0\t1\t1\t0.5\t1\t{LONG}",
        "0\t1\t1\t0.5\t1\t1e308",
        "0\t1\t1\t0.5\t1\tnan",
        "0\t1\t1\t0.5\t1\t,0:0:0",
        f"0\t1\t1\t0.5\t1\t{LONG} days, 0:0:0",
    ],
)
def test_invalid_number_in_a_certificate_is_an_error(line: str, tmp_path: Path) -> None:
    path = tmp_path / "log.tsv"
    path.write_text(f"{COLUMNS}{line}\n")
    with pytest.raises(ValueError, match="line 2") as caught:
        certificates.read(path)
    assert str(path) in str(caught.value)
    assert len(str(caught.value)) < 500


def test_the_largest_radius_makes_a_table_of_some_thousand_columns_at_most(tmp_path: Path) -> None:
    path = tmp_path / "log.tsv"
    path.write_text(f"{COLUMNS}0\t1\t1\t{readers.MOST_RADIUS}\t1\t{readers.MOST_SECONDS}\n")
    (entry,) = inputs.read([path])
    assert len(accuracies.csv_text([entry]).splitlines()[0].split(",")) < 5000
    assert details(entry)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (f"a = {'[' * 100_000}", "nest too deeply"),
        (f"seed = {LONG}", "a whole number of 400 digits, expected one of 64 bits"),
        (f'model = {{ name = "lenet", width = {LONG} }}', "a whole number of 400 digits"),
        (b"\x7fELF\xff", "is not text"),
        (b"a = 1\n" * 200_000, "more than 1,048,576 bytes"),
        ("a = \0", "is not TOML"),
    ],
    ids=["deep", "400 digits", "400 digits inside", "binary", "large", "nul"],
)
def test_invalid_recipe_is_an_error(content: str | bytes, sentence: str, tmp_path: Path) -> None:
    path = tmp_path / "recipe.toml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(recipe.RecipeError, match=sentence) as caught:
        recipe.read(path)
    assert str(path) in str(caught.value)


def test_a_number_of_400_digits_is_refused_where_it_is_typed() -> None:
    with pytest.raises(ValueError, match="400 digits"):
        recipe.apply_settings({}, [f"estimation={LONG}"])


@pytest.mark.parametrize("links", [["a", "a"], ["a", "b", "a"], ["a", "b", "c", "b"]])
def test_teachers_in_a_circle_are_refused(links: list[str], tmp_path: Path) -> None:
    for pupil, teacher in pairwise(links):
        (tmp_path / pupil).mkdir(exist_ok=True)
        (tmp_path / pupil / "origin.json").write_text(json.dumps({"teacher": {"path": f"../{teacher}", "hash": ""}}))
    with pytest.raises(RunError, match="origin.json names .* as the teacher, which makes a circle"):
        teachers(Run(tmp_path / "a"))


def test_teachers_are_listed_nearest_first(tmp_path: Path) -> None:
    for pupil, teacher in ("ab", "bc"):
        (tmp_path / pupil).mkdir()
        (tmp_path / pupil / "origin.json").write_text(json.dumps({"teacher": {"path": f"../{teacher}", "hash": ""}}))
    assert [each.name for each in teachers(Run(tmp_path / "a", ["trusted"]))] == ["b", "c"]
    assert teachers(Run(tmp_path / "a", ["trusted"]))[1].trusted == {"trusted"}


def weights(path: Path, header: bytes, size: int | None = None) -> Path:
    path.write_bytes((len(header) if size is None else size).to_bytes(8, "little") + header)
    return path


@pytest.mark.parametrize(
    ("header", "size", "sentence"),
    [
        (b"{}", 1 << 63, "has a header of 9,223,372,036,854,775,808 bytes"),
        (b"{}", 100, "has a header of 100 bytes"),
        (DEEP.encode(), None, "is nested too deeply"),
        (b"[]", None, "does not hold a JSON object"),
        (b'{"__metadata__": []}', None, "metadata that is not text"),
        (b'{"__metadata__": {"spec": 7}}', None, "metadata that is not text"),
        (b'{"__metadata__": {"spec": "[]"}}', None, "the spec in .* does not hold a JSON object"),
        (b'{"__metadata__": {"spec": "{\\"class_names\\": 7}"}}', None, "class_names = 7, expected a list"),
        (b"", None, "is not JSON"),
    ],
)
def test_invalid_safetensors_header_is_an_error(header: bytes, size: int | None, sentence: str, run: Run) -> None:
    weights(run.weights_file, header, size)
    with pytest.raises(ValueError, match=sentence) as caught:
        run.class_names()
    assert str(run.weights_file) in str(caught.value)


@pytest.mark.parametrize(
    "header",
    [
        '{"parameters": {"estimation": 1000000000000}}',
        '{"parameters": {"radii": [' + ", ".join(["0.25"] * 100_000) + "]}}",
        '{"sigma": 1e400}',
        '{"anything": -1e400}',
    ],
)
def test_header_of_endless_work_is_refused(tmp_path: Path, header: str) -> None:
    (tmp_path / "a.json").write_text(header)
    with pytest.raises(ValueError, match=r"at most|too large|above 0") as refused:
        readers.header(tmp_path / "a.json")
    assert "a.json" in str(refused.value)


def test_row_of_endless_work_is_refused() -> None:
    with pytest.raises(ValueError, match="1000000000000 samples"):
        certificates.parse_line("a.tsv", (*certificates.COHEN, "samples"), "0\t1\t1\t0.5\t1\t1.0\t1000000000000")


def test_pipe_among_certificates_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.tsv")
    with pytest.raises(ValueError, match="is not a file"):
        certificates.has_rows(tmp_path / "a.tsv")


def test_weights_longer_than_their_header_says_are_refused_before_they_are_read(digits_run: Callable[..., Run]) -> None:
    run = digits_run()
    assert run.weights_digest() == disk.digest(run.weights_file)
    os.truncate(run.weights_file, 1 << 40)  # with a hole
    with pytest.raises(ValueError, match="longer than its header says"):
        Run(run.path).weights_digest()
