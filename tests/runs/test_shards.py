"""Part files of shards, and one file of them."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from radii.runs import certificates
from radii.runs.certificates import Row
from radii.runs.resume import Request, open_file
from radii.runs.run import Run, RunError
from radii.runs.shards import Shard, merge

HEADER = {"procedure": "fixed", "parameters": {"failure": 0.001}, "weights": "w", "data": "d", "seed": 0, "images": 10}
HERE = {"instruction_set": "AVX2", "versions": {"radii": "1"}}
THERE = {"instruction_set": "AVX512", "versions": {"radii": "1"}}


def wanted(**changes: object) -> Request:
    return Request({**HEADER, "every": 1, "most": 7, **changes}, range(7), lambda index: f"digest {index}")


def row(index: int) -> Row:
    return Row(index, index % 3, index % 3, 0.1 * index, float(index), 100, {index % 3: 90, 5: 10}, f"digest {index}")


def write(run: Run, shard: Shard, most: int = 99, environment: object = HERE, **changes: object) -> Path:
    with open_file(run, wanted(**changes), environment, shard) as file:  # type: ignore[arg-type]
        for index in shard.of(range(7))[:most]:
            file.append(row(index))
    return file.path


def alone(run: Run) -> tuple[bytes, bytes]:
    with open_file(run, wanted(), HERE) as file:
        for index in range(7):
            file.append(row(index))
    return contents(file.path)


def contents(path: Path) -> tuple[bytes, bytes]:
    return path.read_bytes(), certificates.header_file(path).read_bytes()


@pytest.mark.parametrize("count", [1, 2, 3, 7, 9])
def test_merged_parts_are_the_file_of_one_process_byte_for_byte(count: int, tmp_path: Path) -> None:
    expected = alone(Run(tmp_path / "one"))
    run = Run(tmp_path / "parts")
    for number in reversed(range(1, count + 1)):
        write(run, Shard(number, count))
    (path,) = merge(run)
    assert contents(path) == expected
    assert merge(run) == [path]
    assert contents(path) == expected


def test_merge_accepts_an_equal_existing_file(tmp_path: Path) -> None:
    expected = alone(Run(tmp_path / "one"))
    run = Run(tmp_path / "parts")
    with open_file(run, wanted(), HERE) as file:
        file.append(row(0))
    for number in (1, 2):
        write(run, Shard(number, 2))
    assert contents(merge(run)[0]) == expected


def test_each_environment_is_recorded_once(tmp_path: Path) -> None:
    run = Run(tmp_path)
    for number, environment in enumerate((HERE, THERE, HERE), 1):
        write(run, Shard(number, 3), environment=environment)
    noted = certificates.read(merge(run)[0]).header["environments"]
    assert [(certificates.described(entry), entry["first_row"]) for entry in noted] == [(HERE, 0), (THERE, 1)]


def two_of_three(run: Run) -> None:
    write(run, Shard(1, 3))
    write(run, Shard(3, 3))


def unfinished(run: Run) -> None:
    write(run, Shard(1, 2), most=3)
    write(run, Shard(2, 2))


def two_counts(run: Run) -> None:
    write(run, Shard(1, 2))
    write(run, Shard(1, 3))


def two_headers(run: Run) -> None:
    write(run, Shard(1, 2))
    write(run, Shard(2, 2), engine="onnx")


def of_another_shard(run: Run) -> None:
    write(run, Shard(1, 2), most=0)
    with open_file(run, wanted(), HERE, Shard(1, 2)) as file:
        file.append(row(1))
    write(run, Shard(2, 2))


def edited(run: Run) -> None:
    path = write(run, Shard(1, 1))
    path.write_text(path.read_text().replace("digest 3", "digest 4", 1))


def doubled(run: Run) -> None:
    path = write(run, Shard(1, 2))
    write(run, Shard(2, 2))
    for each in (path, certificates.header_file(path)):
        each.with_name(each.name.replace("1-of-2", "1-of-2 copy")).write_bytes(each.read_bytes())


def of_another_name(run: Run) -> None:
    path = write(run, Shard(1, 2))
    for each in (path, certificates.header_file(path)):
        each.with_name(each.name.replace("1-of-2", "2-of-2")).write_bytes(each.read_bytes())


def another_file(run: Run) -> None:
    with open_file(run, wanted(), HERE) as file:
        file.append(Row(0, 0, 0, 9.0, 1.0, 100, {0: 100}, "digest 0"))
    write(run, Shard(1, 1))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda _: None, r"has no part files\. Certify its shards first"),
        (two_of_three, r"Shards 2 of 3 are missing beside .*1-of-3.tsv\. Certify them"),
        (unfinished, r"1-of-2.tsv has 3 of its 4 images\. Continue to certify shard 1/2"),
        (two_counts, r"has parts of 2 and of 3 shards\. Remove the parts of one"),
        (two_headers, r"Shards \d of 2 are missing beside .*, which has engine = .* has\. Certify them"),
        (of_another_shard, r"has image 1 out of order, or from another shard\. Certify shard 1/2 again"),
        (edited, "does not match its checksum"),
        (doubled, r"1-of-2 copy.tsv holds shard 1/2, whose file is .*1-of-2.tsv\. Move it away"),
        (of_another_name, r"2-of-2.tsv holds shard 1/2, whose file is .*1-of-2.tsv\. Move it away"),
        (another_file, r"has another certificate of image 0 than the parts\. Move it away"),
    ],
)
def test_incomplete_or_inconsistent_parts_are_refused(make: object, message: str, tmp_path: Path) -> None:
    run = Run(tmp_path)
    make(run)  # type: ignore[operator]
    before = sorted(tmp_path.rglob("fixed-*.tsv"))
    with pytest.raises((RunError, ValueError), match=message):
        merge(run)
    assert sorted(tmp_path.rglob("fixed-*.tsv")) == before


def test_a_part_that_is_being_written_is_not_merged(tmp_path: Path) -> None:
    run = Run(tmp_path)
    with (
        open_file(run, wanted(), HERE, Shard(1, 2)),
        pytest.raises(RunError, match=r"1-of-2.tsv is being written\. Merge when every shard has ended"),
    ):
        merge(run)


def test_a_second_seed_is_refused_across_shards(tmp_path: Path) -> None:
    run = Run(tmp_path)
    write(run, Shard(1, 2))
    with pytest.raises(RunError, match="seed = 1, but .* with seed 0"):
        write(run, Shard(1, 2), seed=1)


@pytest.mark.parametrize("text", ["0/4", "5/4", "3", "3/", "a/b", "-1/4", "1/0", "٣/16", "1/4\n"])
def test_invalid_shard_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a shard\. Write NUMBER/COUNT, such as 3/16"):
        Shard.parse(text)


def test_shards_share_out_the_images() -> None:
    shares: list[Sequence[int]] = [Shard.parse(f"{number}/4").of(range(0, 50, 3)) for number in range(1, 5)]
    assert sorted(index for share in shares for index in share) == list(range(0, 50, 3))
    assert json.dumps(str(Shard(3, 16))) == '"3/16"'


def test_part_header_without_a_required_field_is_refused(tmp_path: Path) -> None:
    run = Run(tmp_path)
    path = write(run, Shard(1, 1), most=0)
    certificates.header_file(path).write_text('{"shard": "1/1"}')
    with pytest.raises(RunError, match=r"1-of-1\.json has no 'images'"):
        merge(run)
