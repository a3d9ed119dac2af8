"""Checks of evidence: what was served is confirmed, and every forged line is found."""

import copy
import hashlib
import json
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from radii.datasets import create
from radii.serving.audit import verify_evidence
from radii.serving.evidence import LOG, PICTURES, EvidenceError, EvidenceLog, read_log, seal, table_digest
from radii.serving.model import ModelConfig, ServedModel, load_model
from radii.serving.service import Service
from tests.cli.running import radii

Records = list[dict[str, Any]]


@pytest.fixture(scope="module")
def served(digits_model: ServedModel, trained_digits: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Evidence of twelve certificates, one of them stopped, one asked twice, and of votes and single passes."""
    folder = tmp_path_factory.mktemp("served") / "evidence"
    log = EvidenceLog(folder)
    service = Service(replace(digits_model), evidence=log, keep_pictures=True, workers=1)
    images = list(create("digits").split("test").batch(torch.arange(10)))
    for future in service.submit([*images, images[0]]):
        future.result(120)
    service.submit([images[1]], deadline=0.0)[0].result(120)
    for mode in ("vote", "one-pass"):
        model = load_model(ModelConfig(run=trained_digits, mode=mode, engine="torch"))
        service.exchange(model)
        while service.model is not model:
            pass
        for future in service.submit(images[:4]):
            future.result(120)
    service.close()
    log.close()
    return folder


def rewritten(served: Path, folder: Path, change: Callable[[Records], object]) -> Path:
    """Copy evidence with changed records and a chain that is right again, as a forger would."""
    records = [entry.record for entry in read_log(served)]
    for record in records:
        del record["previous"], record["time"]
    change(records)
    log = EvidenceLog(folder)
    log.append(records)
    log.close()
    shutil.copytree(served / PICTURES, folder / PICTURES)
    return folder


def answers(records: Records) -> Records:
    return [record for record in records if record["kind"] == "answer"]


def test_all_answers_are_replayed_and_equal(served: Path, trained_digits: Path) -> None:
    result = verify_evidence(served, trained_digits, rows=None)
    assert result.differences == result.unchecked == []
    assert (result.answers, result.replayed, result.unanswered, result.exit_code) == (20, 20, 0, 0)
    assert result.claims["certificate: deadline"] == 1
    assert sum(result.claims.values()) == 20
    assert result.lines == 43
    some = verify_evidence(served, trained_digits, rows=3)
    assert (some.replayed, some.exit_code) == (3, 0)


def test_pictures_may_be_elsewhere(digits_model: ServedModel, trained_digits: Path, tmp_path: Path) -> None:
    log = EvidenceLog(tmp_path / "e")
    service = Service(replace(digits_model), evidence=log, workers=1)
    (tmp_path / "pictures").mkdir()
    (tmp_path / "pictures" / "other.png").write_bytes(b"no picture")
    for number, image in enumerate(create("digits").split("test").batch(torch.arange(3))):
        pixels = (image[0] * 255).round().byte().numpy()
        Image.fromarray(pixels).save(tmp_path / "pictures" / f"{number}.png")
        service.submit([torch.from_numpy(pixels.astype(np.float32) / np.float32(255))[None]])[0].result(120)
    service.close()
    log.close()
    assert (
        "3 answers have no picture here: name a folder of pictures"
        in verify_evidence(tmp_path / "e", trained_digits).in_words()
    )
    result = verify_evidence(tmp_path / "e", trained_digits, pictures=tmp_path / "pictures")
    assert (result.exit_code, result.replayed) == (0, 3)


def test_without_a_run_only_the_log_is_checked(served: Path) -> None:
    assert verify_evidence(served, rows=0).exit_code == 0
    result = verify_evidence(served)
    assert result.exit_code == 2
    assert "20 answers need their run" in result.in_words()


def forge(number: int, **fields: object) -> Callable[[Records], object]:
    return lambda records: answers(records)[number].update(fields)


def sealed_again(records: Records) -> None:
    """Choose another seed after the answer was seen, and seal that."""
    seed = 5
    answers(records)[3]["seed"] = f"{seed:032x}"
    for record in records:
        if record["kind"] == "sealed" and record["id"] == answers(records)[3]["id"]:
            record["sealed_seed"] = seal(seed)


def other_header(records: Records) -> None:
    records[0]["header"]["noise"]["sigma"] = 0.5


def left_out(records: Records) -> None:
    """Leave out the first question about a picture that was asked about twice."""
    first = next(record for record in records if record["kind"] == "sealed")
    records[:] = [record for record in records if record.get("id") != first["id"]]


def doubled_question(records: Records) -> None:
    """Write a question once more before its answer, which then takes the place of the first."""
    at = next(number for number, record in enumerate(records) if record["kind"] == "sealed")
    records.insert(at, dict(records[at]))


def numbered_again(records: Records) -> None:
    for record in records:
        if record.get("asked") == 2:
            record.update(asked=1, failure=0.0005)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (forge(0, radius=0.3), "not radius 0.3"),
        (forge(0, prediction=3), "nothing, not radius"),
        (forge(2, seed="0" * 32), "not the one that was sealed"),
        (forge(11, prediction=0, radius=0.1, counts={"0": 64}), "samples"),
        (sealed_again, "a replay gives"),
        (other_header, "another digest than it states"),
        (left_out, "was asked about 1 times"),
        (numbered_again, "was asked about 2 times"),
        (lambda records: records.append(dict(answers(records)[0])), "does not fit the lines before"),
        (lambda records: records.append({"kind": "comment"}), "unknown kind"),
        (lambda records: records.append({"kind": "sealed", "id": "x"}), "does not fit"),
        (forge(13, counts={"0": 128}), "a replay gives"),
        (forge(19, prediction=9), "one noisy pass gives one vote"),
        (forge(19, radius=0.5), "one noisy pass gives one vote"),
        (forge(19, prediction=9, counts={"9": 1}), "a replay gives"),
        (doubled_question, "taken by another question without an answer"),
    ],
)
def test_forged_lines_are_reported(
    served: Path, trained_digits: Path, tmp_path: Path, change: Callable[[Records], object], words: str
) -> None:
    result = verify_evidence(rewritten(served, tmp_path / "e", change), trained_digits, rows=None)
    assert result.exit_code == 1
    assert any(words in difference for difference in result.differences), result.differences


def test_answers_of_other_weights_or_pictures_are_not_replayed(
    served: Path, trained_digits: Path, tmp_path: Path
) -> None:
    run = Path(shutil.copytree(trained_digits, tmp_path / "run"))
    content = bytearray((run / "model.safetensors").read_bytes())
    content[-1] ^= 1
    (run / "model.safetensors").write_bytes(bytes(content))
    result = verify_evidence(served, run)
    assert (result.exit_code, result.replayed) == (2, 0)
    assert "other weights than the run has" in result.in_words()
    folder = rewritten(served, tmp_path / "e", lambda _: None)
    for length in (4 * 64, 7):
        for picture in (folder / PICTURES).iterdir():
            picture.write_bytes(bytes(length))
        changed = verify_evidence(folder, trained_digits)
        assert changed.exit_code == 1
        assert "the picture that was kept for it has changed" in changed.in_words()


def test_log_that_was_cut_at_a_line_is_reported(served: Path, trained_digits: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(served, tmp_path / "e"))
    lines = (folder / LOG).read_bytes().splitlines(keepends=True)
    (folder / LOG).write_bytes(b"".join(lines[:-2]))
    result = verify_evidence(folder, trained_digits, rows=0)
    assert (result.exit_code, result.lines) == (1, len(lines) - 2)
    assert f"does not hold the last of the {len(lines)} lines" in result.in_words()


def test_command_line_checks_evidence(served: Path, trained_digits: Path, tmp_path: Path) -> None:
    good = radii("verify", str(served), "--run", str(trained_digits), "--rows", "2", cwd=tmp_path)
    assert (good.code, "2 replayed" in good.out) == (0, True)
    forged = rewritten(served, tmp_path / "e", forge(0, radius=0.3))
    bad = radii("verify", str(forged), "--rows", "0", "--json", cwd=tmp_path)
    assert bad.code == 1
    assert json.loads(bad.out)["differences"]
    wrong = radii("verify", str(trained_digits), "--pictures", ".", cwd=tmp_path)
    assert "--pictures is for evidence" in wrong.error
    with pytest.raises(ValueError, match="holds no evidence"):
        verify_evidence(tmp_path)


HOSTILE: tuple[Any, ...] = (
    *(None, True, -1, 1e308, 10**12),
    *("", "-5", "f" * 40, "y" * 100_000),
    *([], {}, [1], {"a": 1}, [0.1] * 5000),
)


def places(record: dict[str, Any]) -> list[tuple[str, ...]]:
    """Return the fields of a record, and those of the tables in it."""
    inner = [
        (*place, key)
        for place in (("header",), ("header", "parameters"), ("header", "noise"), ("header", "function"))
        for key in _at(record, place)
    ]
    return [*((key,) for key in record), *inner]


def _at(record: Any, place: Sequence[str]) -> Any:
    for key in place:
        record = record.get(key, {})
    return record


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["opened", "sealed", "answer"])
def test_hostile_values_in_a_right_chain_are_reported(
    kind: str, served: Path, trained_digits: Path, tmp_path: Path
) -> None:
    """Whoever sends evidence computes its digests: every value must end in a sentence, in time."""
    every = [entry.record for entry in read_log(served)]
    answer = answers(every)[0]
    records = [every[0], *(record for record in every if record.get("id") == answer["id"])]
    number = ["opened", "sealed", "answer"].index(kind)
    cases = [(place, value) for place in places(records[number]) for value in HOSTILE]
    for case, (place, value) in enumerate(cases):
        changed = copy.deepcopy(records)
        for record in changed:
            record.pop("previous", None)
            record.pop("time", None)
        _at(changed[number], place[:-1])[place[-1]] = value
        if kind == "opened" and place[0] == "header":
            digest = table_digest(changed[0]["header"]) if isinstance(changed[0]["header"], dict) else "x"
            changed[0]["header_digest"] = changed[1]["header_digest"] = digest
        log = EvidenceLog(tmp_path / f"{case}")
        log.append(changed)
        log.close()
        began = time.monotonic()
        with_run = {"run": trained_digits, "pictures": None} if case % 5 == 0 else {"rows": 0}
        result = verify_evidence(tmp_path / f"{case}", **with_run)
        assert time.monotonic() - began < 10, (place, value)
        assert max(map(len, [*result.differences, *result.unchecked]), default=0) < 2000, (place, value)
        shutil.rmtree(tmp_path / f"{case}")


@pytest.mark.parametrize(
    ("place", "value", "words"),
    [
        ("norm", "linf", "its header states radii in linf, the noise has them in l2"),
        ("classes", list("ABCDEFGHIJ"), "its header names other classes than the run has"),
        ("mode", "vote", "the mode vote has no certifier 'sequential'"),
        ("code", {"nets:Tiny": "0" * 64}, "the code of nets:Tiny has changed"),
        ("artefact", "0" * 64, "the artefact of the engine 'torch' has changed, or is missing"),
    ],
)
def test_headers_that_state_other_things_than_the_run_are_reported(
    served: Path, trained_digits: Path, tmp_path: Path, place: str, value: object, words: str
) -> None:
    """Whoever forges a header computes its digest too."""

    def change(records: Records) -> None:
        before = records[0]["header_digest"]
        records[0]["header"][place] = value
        records[0]["header_digest"] = table_digest(records[0]["header"])
        for record in records:
            if record.get("header_digest") == before:
                record["header_digest"] = records[0]["header_digest"]

    result = verify_evidence(rewritten(served, tmp_path / "e", change), trained_digits, rows=None)
    assert result.exit_code == 1
    assert any(words in difference for difference in result.differences), result.differences


def test_deep_and_endless_lines_are_reported(served: Path, tmp_path: Path) -> None:
    folder = tmp_path / "deep"
    folder.mkdir()
    body = b'{"previous":"' + b"0" * 64 + b'","kind":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    digest = hashlib.sha256(body).hexdigest().encode()
    (folder / LOG).write_bytes(body[:-1] + b',"digest":"' + digest + b'"}\n')
    assert "Line 1 of" in verify_evidence(folder, rows=0).in_words()
    endless = Path(shutil.copytree(served, tmp_path / "endless"))
    with (endless / LOG).open("ab") as log:
        log.truncate(1 << 40)
    result = verify_evidence(endless, rows=0)
    assert (result.exit_code, result.answers) == (1, 20)
    assert "has more than" in result.in_words()
    with pytest.raises(EvidenceError, match="The last line of .* has more than"):
        EvidenceLog(endless)


def test_pictures_outside_the_evidence_and_endless_ones_are_not_read(
    served: Path, trained_digits: Path, tmp_path: Path
) -> None:
    picture = next((served / PICTURES).iterdir())
    shutil.copy(picture, tmp_path / "outside.f32")

    def elsewhere(records: Records) -> None:
        for record in records:
            if record["kind"] in ("sealed", "answer") and "picture" in record:
                record["picture"] = "../../outside"

    result = verify_evidence(rewritten(served, tmp_path / "e", elsewhere), trained_digits, rows=None)
    assert result.replayed == 0
    assert any("picture = '../../outside', expected a digest" in difference for difference in result.differences)
    folder = rewritten(served, tmp_path / "holes", lambda _: None)
    for kept in (folder / PICTURES).iterdir():
        with kept.open("wb") as hole:
            hole.truncate(1 << 40)
    assert "the picture that was kept for it has changed" in verify_evidence(folder, trained_digits).in_words()
