"""Certificate files: complete lines, one header, and files of any tool in Cohen's columns."""

import json
import pickle
import random
import re
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from radii.runs import readers
from radii.runs.certificate_writer import CertificateFile
from radii.runs.certificates import (
    COLUMNS,
    FORMAT,
    Row,
    described,
    header_file,
    parse_line,
    read,
    read_header,
    recorded_difference,
    to_line,
    to_text,
)

HEADER: dict[str, Any] = {"procedure": "fixed", "parameters": {"failure": 0.001}, "seed": 0, "sigma": 0.25, "every": 20}
ROWS = [
    Row(0, 7, 7, 0.1 + 0.2, 1.25, 100_100, {7: 99_990, 1: 10}, "00ff00ff00ff00ff"),
    Row(20, 2, -1, 0.0, 0.5, 100_100, {2: 50_000, 3: 50_000}),
    Row(40, 1, 3, 0.9528641408474767, 1e-05),
]
COHEN = "idx\tlabel\tpredict\tradius\tcorrect\ttime\n0\t3\t3\t0.48\t1\t0:00:14.5\n100\t8\t-1\t0.0\t0\t1 day, 0:01:00\n"


def filled(path: Path) -> CertificateFile:
    file = CertificateFile(path, HEADER)
    for row in ROWS:
        file.append(row)
    return file


def test_rows_round_trip(tmp_path: Path) -> None:
    file = filled(tmp_path / "deep" / "fixed.tsv")
    assert file.rows() == ROWS
    assert [row.index for row in file.rows()] == [0, 20, 40]
    assert [row.correct for row in file.rows()] == [True, False, False]
    found = read(file.path)
    assert (found.name, found.rows, found.header) == ("fixed", ROWS, {**HEADER, "format": 2})
    assert (found.sigma, found.failure, found.certifier) == (0.25, 0.001, "fixed")


def test_lines_are_cohens_columns_first_in_full_precision(tmp_path: Path) -> None:
    lines = filled(tmp_path / "fixed.tsv").path.read_text().splitlines()
    cohen = ["idx", "label", "predict", "radius", "correct", "time"]
    assert lines[0].split("\t") == [*cohen, "samples", "counts", "digest", "checksum"]
    *cells, checksum = lines[1].split("\t")
    assert cells == ["0", "7", "7", "0.30000000000000004", "1", "1.25", "100100", "1:10 7:99990", "00ff00ff00ff00ff"]
    assert len(checksum) == 16


def test_numpy_numbers_are_written_plainly(tmp_path: Path) -> None:
    file = CertificateFile(tmp_path / "fixed.tsv", HEADER)
    number: Any = np.int64(1)
    file.append(Row(number, number, number, np.float64(0.5), np.float64(1.0), number, {number: number}))
    assert file.rows() == [Row(1, 1, 1, 0.5, 1.0, 1, {1: 1})]


@pytest.mark.parametrize("cut", range(1, 60))
def test_partial_line_is_removed_and_not_duplicated(tmp_path: Path, cut: int) -> None:
    file = filled(tmp_path / "fixed.tsv")
    whole = file.path.read_bytes()
    file.path.write_bytes(whole[:-cut])
    assert read(file.path).rows == ROWS[: 2 if cut <= len(whole.splitlines()[-1]) + 1 else 1]
    again = CertificateFile(file.path, HEADER)
    for row in ROWS:
        if row.index not in {done.index for done in again.rows()}:
            again.append(row)
    assert file.path.read_bytes() == whole


@pytest.mark.parametrize("rest", ["", "idx\tlab", "\t".join(COLUMNS)])
def test_file_cut_in_its_first_line_is_restarted(tmp_path: Path, rest: str) -> None:
    file = CertificateFile(tmp_path / "fixed.tsv", HEADER)
    file.path.write_text(rest)
    CertificateFile(file.path, HEADER).append(ROWS[0])
    assert read(file.path).rows == ROWS[:1]


def test_invalid_last_line_is_removed(tmp_path: Path) -> None:
    file = filled(tmp_path / "fixed.tsv")
    whole = file.path.read_bytes()
    file.path.write_bytes(whole + b"60\t\xff\0\0\t1\n")
    assert CertificateFile(file.path, HEADER).rows() == ROWS
    assert file.path.read_bytes() == whole


@pytest.mark.parametrize(
    ("header", "named"),
    [
        ({**HEADER, "seed": 1}, "seed = 0, not 1"),
        ({**HEADER, "parameters": {"failure": 0.01}}, "parameters.failure = 0.001, not 0.01"),
        ({**HEADER, "engine": "torch"}, "engine = None, not 'torch'"),
    ],
)
def test_file_with_another_header_is_refused_and_unchanged(tmp_path: Path, header: dict[str, Any], named: str) -> None:
    file = filled(tmp_path / "fixed.tsv")
    before = file.path.read_bytes(), header_file(file.path).read_bytes()
    with pytest.raises(ValueError, match=named):
        CertificateFile(file.path, header)
    assert (file.path.read_bytes(), header_file(file.path).read_bytes()) == before


def test_file_is_continued_with_the_same_header(tmp_path: Path) -> None:
    header = {**HEADER, "parameters": {"radii": (0.25, 0.5)}}
    CertificateFile(tmp_path / "a.tsv", header)
    CertificateFile(tmp_path / "a.tsv", header)


def test_file_of_another_tool_is_not_continued(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text(COHEN)
    with pytest.raises(ValueError, match=r"has no header a\.json beside it"):
        CertificateFile(tmp_path / "a.tsv", HEADER)
    assert (tmp_path / "a.tsv").read_text() == COHEN
    header_file(tmp_path / "a.tsv").write_text(json.dumps({**HEADER, "format": 2}))
    with pytest.raises(ValueError, match="does not have the columns"):
        CertificateFile(tmp_path / "a.tsv", HEADER)


@pytest.mark.parametrize("text", ["{", "[1]"])
def test_invalid_header_is_an_error(tmp_path: Path, text: str) -> None:
    file = filled(tmp_path / "a.tsv")
    header_file(file.path).write_text(text)
    with pytest.raises(ValueError, match=r"a\.json .*JSON"):
        read(file.path)


def test_cohens_files_are_read(tmp_path: Path) -> None:
    path = tmp_path / "cifar10-sigma0.50-cohen.tsv"
    path.write_text(COHEN)
    found = read(path)
    assert found.rows == [Row(0, 3, 3, 0.48, 14.5), Row(100, 8, -1, 0.0, 86_460.0)]
    assert (found.name, found.sigma, found.certifier, found.failure) == ("cifar10-sigma0.50-cohen", 0.5, None, None)


def test_variants_of_cohens_files_are_read(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_bytes(b"idx\tlabel\tpredict\textra\tradius\tcorrect\ttime\r\n5\t1\t1\tx\t0.5\t1\t15.4\r\n\r\n")
    assert read(path).rows == [Row(5, 1, 1, 0.5, 15.4)]
    path.write_text(COHEN.rstrip("\n"))
    assert len(read(path).rows) == 2, "a foreign file may lack the last newline"


@pytest.mark.parametrize(
    ("name", "sigma"),
    [
        ("noise_0.50/test/log.tsv", 0.5),
        ("sigma_0.25", 0.25),
        ("x-sigma1.tsv", 1.0),
        ("NOISE-0.12.tsv", 0.12),
        ("x.tsv", None),
    ],
)
def test_sigma_comes_from_the_path(tmp_path: Path, name: str, sigma: float | None) -> None:
    path = tmp_path / "f" / name
    path.parent.mkdir(parents=True)
    path.write_text(COHEN)
    assert read(path).sigma == sigma


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no column 'idx'"),
        ("idx\tlabel\tpredict\tcorrect\ttime\n0\t1\t1\t1\t2.0\n", "no column 'radius'"),
        ("idx\tlabel\tpredict\tradius\tcorrect\ttime\n", "holds no certificates"),
        (COHEN + "0\t3\t3\t0.48\t1\t0:00:14.5\n", "line 4: image 0 occurs twice"),
        (COHEN + "1\t3\t3\n", "line 4 has 3 cells, expected 6"),
        (COHEN + "1\t3\tx\t0.1\t1\t1.0\n", "line 4 is not a certificate"),
        (COHEN + "1\t3\t3\tnan\t1\t1.0\n", "line 4 has radius nan"),
        (COHEN + "1\t3\t3\t-0.5\t1\t1.0\n", "line 4 has radius -0.5"),
        (COHEN + "1\t3\t4\t0.5\t1\t1.0\n", "line 4 states correct = 1, but its label is 3 and its prediction 4"),
        (COHEN + "1\t3\t3\t0.5\t1\t1:00\n", "line 4 is not a certificate"),
    ],
)
def test_error_names_the_file_and_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "a.tsv"
    path.write_text(text)
    with pytest.raises(ValueError, match=message) as caught:
        read(path)
    assert "a.tsv" in str(caught.value)


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"cannot read the certificate file .*gone\.tsv"):
        read(tmp_path / "gone.tsv")


def test_an_abstention_is_never_correct() -> None:
    assert not replace(ROWS[1], label=-1).correct


def test_published_corruption_logs_are_read(logs: Path) -> None:
    found = [read(path) for path in sorted((logs / "cifar10c-sigma0.25-cat-rs").glob("*.tsv"))]
    assert len(found) == 15
    assert {(len(each.rows), each.sigma) for each in found} == {(500, 0.25)}


OLD = "idx\tlabel\tpredict\tradius\tcorrect\ttime\tsamples\tcounts\n0\t7\t7\t0.5\t1\t1.25\t110\t7:100\n"


def test_files_of_version_0_1_are_read(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text(OLD)
    header_file(tmp_path / "a.tsv").write_text(json.dumps(HEADER))
    found = read(tmp_path / "a.tsv")
    assert found.rows == [Row(0, 7, 7, 0.5, 1.25, 110, {7: 100})]
    assert found.header == HEADER


@pytest.mark.slow
def test_every_mutation_is_refused(tmp_path: Path) -> None:
    """A byte of a file of ours is changed; what is read is refused or, at the very end, a line that is not whole."""
    path = filled(tmp_path / "fixed.tsv").path
    whole, rng = path.read_bytes(), random.Random(0)
    passed = []
    for _ in range(1_200):
        at, byte = rng.randrange(len(whole) - 1), rng.randrange(256)
        if whole[at] == byte:
            continue
        path.write_bytes(whole[:at] + bytes([byte]) + whole[at + 1 :])
        try:
            if list(read(path).rows) != ROWS:
                passed.append((at, byte))
        except ValueError as error:
            assert "fixed.tsv" in str(error)
    assert passed == []


def lines_of(path: Path) -> list[str]:
    return path.read_text().splitlines(keepends=True)


@pytest.mark.parametrize("order", [[0, 2, 3], [0, 1, 3], [0, 2, 1, 3], [0, 3]])
def test_removed_or_exchanged_line_is_an_error(tmp_path: Path, order: list[int]) -> None:
    path = filled(tmp_path / "fixed.tsv").path
    lines = lines_of(path)
    path.write_text("".join(lines[number] for number in order))
    with pytest.raises(ValueError, match=r"line \d does not match its checksum"):
        read(path)
    with pytest.raises(ValueError, match=r"line \d does not match its checksum"):
        CertificateFile(path, HEADER)


@pytest.mark.parametrize("line", [1, 2, 3])
def test_edited_line_is_an_error_and_is_not_removed(tmp_path: Path, line: int) -> None:
    path = filled(tmp_path / "fixed.tsv").path
    lines = lines_of(path)
    lines[line] = lines[line].replace("\t0", "\t1", 1) if line != 2 else lines[line].replace("3:50000", "3:50001")
    path.write_text("".join(lines))
    for opened in (read, lambda path: CertificateFile(path, HEADER)):
        with pytest.raises(ValueError, match="checksum|correct"):
            opened(path)
    assert path.read_text() == "".join(lines)


def test_edited_header_is_an_error(tmp_path: Path) -> None:
    path = filled(tmp_path / "fixed.tsv").path
    header_file(path).write_text(header_file(path).read_text().replace("0.001", "0.0001"))
    with pytest.raises(ValueError, match="line 2 does not match its checksum"):
        read(path)


def test_columns_cannot_be_dropped(tmp_path: Path) -> None:
    path = filled(tmp_path / "fixed.tsv").path
    path.write_text("".join("\t".join(line.split("\t")[:8]) + "\n" for line in lines_of(path)))
    with pytest.raises(ValueError, match="does not have the columns"):
        read(path)


def test_without_its_header_the_lines_are_still_chained(tmp_path: Path) -> None:
    path = filled(tmp_path / "fixed.tsv").path
    header_file(path).unlink()
    assert read(path).rows == ROWS
    path.write_text("".join(lines_of(path)[:2] + lines_of(path)[3:]))
    with pytest.raises(ValueError, match="line 3 does not match its checksum"):
        read(path)


@pytest.mark.parametrize(("recorded", "here"), [("cpu", None), (None, "cpu")])
def test_logits_of_another_device_than_the_votes_may_differ_by_its_rounding(
    recorded: str | None, here: str | None
) -> None:
    """A process that stays off the GPUs of its workers computes the logits of the header on the CPU."""
    gpu = {"device": "NVIDIA A100", "batch_size": 2048}
    logits = [{"logits": [[1.0, size]]} for size in (2.0, 2.002)]
    one, other = (
        {**table, **({} if device is None else {"device": device})}
        for table, device in zip(logits, (recorded, here), strict=True)
    )
    header = {"engine": "torch", "function": one, "environments": [{**gpu, "first_row": 0}]}
    assert recorded_difference(header, other, gpu) == ""
    assert "another function" in recorded_difference({**header, "function": logits[0]}, logits[1], gpu)


def test_environment_is_recorded_where_it_changes(tmp_path: Path) -> None:
    here, there = {"instruction_set": "AVX2"}, {"instruction_set": "AVX512"}
    path = tmp_path / "fixed.tsv"
    for environment, row in zip((here, here, there), ROWS, strict=True):
        CertificateFile(path, HEADER, there)  # one that made no row leaves no trace
        CertificateFile(path, HEADER, environment).append(row)
    noted = read(path).header["environments"]
    assert [(described(entry), entry["first_row"]) for entry in noted] == [(here, 0), (there, 2)]
    assert read(path).rows == ROWS


def remove_first(noted: list[dict[str, Any]]) -> None:
    del noted[0]


def remove_checksum(noted: list[dict[str, Any]]) -> None:
    del noted[1]["checksum"]


def later(noted: list[dict[str, Any]]) -> None:
    noted[1]["first_row"] = 2


def another_version(noted: list[dict[str, Any]]) -> None:
    noted[0]["torch"] = "9.9"


@pytest.mark.parametrize("edit", [remove_first, remove_checksum, later, another_version])
def test_edited_environment_is_an_error(tmp_path: Path, edit: Callable[[list[dict[str, Any]]], None]) -> None:
    path = tmp_path / "fixed.tsv"
    for torch, row in zip(("2.0", "2.1", "2.1"), ROWS, strict=True):
        CertificateFile(path, HEADER, {"torch": torch}).append(row)
    assert read(path).rows == ROWS
    header = json.loads(header_file(path).read_text())
    edit(header["environments"])
    header_file(path).write_text(json.dumps(header))
    with pytest.raises(ValueError, match="environment from row . on does not match its checksum"):
        read(path)
    with pytest.raises(ValueError, match="environment from row . on does not match its checksum"):
        CertificateFile(path, HEADER, {"torch": "2.1"})


def test_file_without_checksums_of_its_environments_is_continued(tmp_path: Path) -> None:
    path = tmp_path / "fixed.tsv"
    CertificateFile(path, HEADER, {"torch": "2.0"}).append(ROWS[0])
    header = json.loads(header_file(path).read_text())
    del header["environments"][0]["checksum"]
    header_file(path).write_text(json.dumps(header))
    CertificateFile(path, HEADER, {"torch": "2.1"}).append(ROWS[1])
    assert ["checksum" in entry for entry in read(path).header["environments"]] == [False, True]


def test_file_of_50_000_images_and_1000_classes_is_within_the_limits() -> None:
    votes = dict.fromkeys(range(1000), 1000)
    row = Row(49_999, 999, 999, 0.12345678901234567, 12.345678901234567, 1_000_000, votes, "0" * 64)
    line = f"{to_line(row)}\t{'0' * 16}\n"
    assert len(line) < readers.MOST_LINE
    assert 50_000 * len(line) < readers.MOST_CERTIFICATES
    with pytest.raises(ValueError, match="characters"):
        parse_line("a.tsv", COLUMNS, "0" * (readers.MOST_LINE + 1))


def test_counts_of_many_classes_stay_text_and_read_like_a_dict(tmp_path: Path) -> None:
    votes = dict.fromkeys(range(1000), 100)
    rows = [Row(number, 3, 3, 0.25, 1.5, 100_100, votes, "0" * 16) for number in range(200)]
    header = {"procedure": "fixed", "format": FORMAT}
    (tmp_path / "many.json").write_text(json.dumps(header))
    (tmp_path / "many.tsv").write_text(to_text(header, rows))
    tracemalloc.start()
    certificates = read(tmp_path / "many.tsv")
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 3 * (tmp_path / "many.tsv").stat().st_size
    first = certificates.rows[0].counts
    assert first == votes
    assert (first[999], first.get(1000, 0), len(first), sum(first.values())) == (100, 0, 1000, 100_000)
    assert pickle.loads(pickle.dumps(certificates.rows[0])) == rows[0]
    assert to_text(header, certificates.rows) == (tmp_path / "many.tsv").read_text()


@pytest.mark.parametrize(
    ("header", "environment", "words"),
    [
        ({"parameters": {"guess": [0.5] * 2000}}, {}, "parameters.guess lists 2000 values, 1000 at most"),
        ({}, {"batch_size": 1 << 30}, "environments = "),
        ({}, {"text": "x" * (1 << 24)}, "would be larger than 16,777,216 bytes"),
    ],
)
def test_header_that_could_not_be_read_again_is_not_written(
    tmp_path: Path, header: dict[str, Any], environment: dict[str, Any], words: str
) -> None:
    path = tmp_path / "a.tsv"
    with pytest.raises(ValueError, match=re.escape(words)):
        CertificateFile(path, {**HEADER, **header}, environment)
    if not header:  # it is continued where the environment can be written
        read_header(header_file(path))
        assert CertificateFile(path, HEADER, {"batch_size": 8}).rows() == []
