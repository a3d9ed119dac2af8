"""The service without HTTP: guarantees, deadlines, the queue, failures, and another model."""

import math
import sqlite3
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch

from radii.certification.one_pass import answer_once
from radii.certifiers import certify_image
from radii.certifiers.sequential import Sequential
from radii.serving.evidence import INDEX, LOG, EvidenceLog, read_log, seal
from radii.serving.request import BusyError, FailedError
from radii.serving.service import Service
from radii.smoothing.addresses import NoiseAddress
from tests.serving.conftest import MakeModel, MakeService, Slow, at_distance


def test_radii_are_true_and_clear_pictures_get_one(make_model: MakeModel, make_service: MakeService) -> None:
    service = make_service(make_model(radii=(0.0, 0.1, 0.2, 0.3, 0.4), failure=0.01))
    distances = [0.05 * step for step in range(11)]
    futures = service.submit([at_distance(distance) for distance in distances])
    for distance, future in zip(distances, futures, strict=True):
        answer = future.result(60)
        assert answer.radius is None or answer.radius <= distance
        assert distance < 0.15 or (answer.class_name == "above" and answer.radius is not None)
        assert "plane" not in answer.promise()
        assert answer.asked == 1


def test_answers_are_those_of_the_certifier_alone(
    make_model: MakeModel, make_service: MakeService, tmp_path: Path
) -> None:
    log = EvidenceLog(tmp_path / "e")
    model = make_model(radii=(0.1, 0.2), failure=0.01)
    service = make_service(model, evidence=log, workers=2)
    images = {f"{number}": at_distance(0.04 * number) for number in range(12)}
    answers = [future.result(60) for future in service.submit(list(images.values()))]
    records = {entry.record["id"]: entry.record for entry in read_log(tmp_path / "e") if "seed" in entry.record}
    certifier = Sequential(radii=(0.1, 0.2), failure=0.005, most_samples=10_000)
    for image, answer in zip(images.values(), answers, strict=True):
        seed = int(records[answer.id]["seed"], 16)
        assert seal(seed) == answer.sealed
        alone = certify_image(certifier, model.classifier, image, NoiseAddress(seed))
        assert alone == answer.certificate
        assert alone.counts == answer.certificate.counts


def test_one_pass_answers_are_those_of_predict_once(
    make_model: MakeModel, make_service: MakeService, tmp_path: Path
) -> None:
    log = EvidenceLog(tmp_path / "e")
    model = make_model("one-pass")
    service = make_service(model, evidence=log)
    images = [at_distance(0.1)] * 40
    answers = [future.result(60) for future in service.submit(images)]
    records = {entry.record["id"]: entry.record for entry in read_log(tmp_path / "e") if "seed" in entry.record}
    seeds = [int(records[answer.id]["seed"], 16) for answer in answers]
    again = answer_once(model.classifier, images, seeds)
    assert [answer.certificate.prediction for answer in answers] == [one.prediction for one in again]
    assert {answer.certificate.prediction for answer in answers} == {0, 1}
    assert all(answer.asked is None and answer.radius is None for answer in answers)
    assert "Nothing is promised" in answers[0].promise()
    assert len(set(seeds)) == 40


def test_repeated_questions_share_one_failure_probability(make_model: MakeModel, make_service: MakeService) -> None:
    service = make_service(make_model("vote", failure=0.1))
    answers = [service.submit([at_distance(0.5)])[0].result(60) for _ in range(7)]
    assert [answer.asked for answer in answers] == [1, 2, 3, 4, 5, 6, 7]
    assert sum(answer.failure or 0 for answer in answers) <= 0.1
    assert "number 7" in answers[-1].promise()
    assert service.submit([at_distance(0.4)])[0].result(60).asked == 1


def test_a_smaller_failure_does_not_undo_what_a_larger_one_spent(
    make_model: MakeModel, make_service: MakeService, tmp_path: Path
) -> None:
    stated = []
    for failure in (0.1, 0.01, 0.2):
        evidence = EvidenceLog(tmp_path / "evidence")
        service = make_service(make_model("vote", failure=failure), evidence=evidence)
        answer = service.submit([at_distance(0.5)])[0].result(60)
        stated.append((answer.asked, answer.as_data()["failure_over_life"]))
        service.close()
        evidence.close()
        (tmp_path / "evidence" / INDEX).unlink()  # the log alone has to tell it
    assert stated == [(1, 0.1), (2, 0.1), (3, 0.2)]


def test_negative_zeros_do_not_make_another_picture(make_model: MakeModel, make_service: MakeService) -> None:
    """-0.0 equals 0.0 but has other bytes: signs must not buy a new failure probability."""
    service = make_service(make_model("vote", failure=0.1))
    black = torch.zeros(1, 2, 2)
    answers = [service.submit([picture])[0].result(60) for picture in (black, -black)]
    assert [answer.asked for answer in answers] == [1, 2]
    assert len({answer.picture for answer in answers}) == 1


def test_repeated_requests_do_not_raise_the_failure_probability(
    make_model: MakeModel, make_service: MakeService
) -> None:
    """At the true radius every certificate is false: many pictures, each asked often."""
    service = make_service(make_model(failure=0.05, radii=(0.25,), most_samples=200), queue_limit=2_000)
    pictures = [at_distance(0.25) - 1e-6 * number for number in range(60)]
    asked = [service.submit([picture] * 12) for picture in pictures]
    wrong = sum(any(not future.result(60).abstained for future in futures) for futures in asked)
    assert wrong <= 60 * 0.05 + 3 * math.sqrt(60 * 0.05 * 0.95)


def test_service_abstains_when_the_failure_probability_is_spent(
    make_model: MakeModel, make_service: MakeService
) -> None:
    service = make_service(make_model(failure=1e-30, most_samples=350, radii=(0.0,)))
    answers = [service.submit([at_distance(0.5)])[0].result(60) for _ in range(1 << 5)]
    assert not answers[0].abstained
    certificate = service.model.steps(1e-200)
    assert certificate is None


def test_deadline_gives_what_is_proven_by_then(make_model: MakeModel, make_service: MakeService) -> None:
    slow = Slow(0.05)
    model = make_model(base=slow, radii=(0.0, 0.4), failure=0.01, most_samples=100_000)
    service = make_service(model, deadline=1.0)
    service.submit([at_distance(0.5)], deadline=math.inf)[0].result(60)  # the first pass is slower
    (clear,) = service.submit([at_distance(0.5)], deadline=math.inf)
    near_answer = service.submit([at_distance(0.405)])[0].result(60)
    assert near_answer.stopped
    assert (near_answer.class_name, near_answer.radius) == ("above", 0.0)
    assert near_answer.seconds < 3
    assert clear.result(60).radius == 0.4


def test_deadline_before_the_first_vote_abstains(make_model: MakeModel, make_service: MakeService) -> None:
    service = make_service(make_model("vote"))
    answer = service.submit([at_distance(0.5)], deadline=time.monotonic())[0].result(60)
    assert answer.stopped
    assert answer.abstained
    assert (answer.radius, answer.class_name, answer.certificate.samples) == (None, None, 0)
    assert "by the deadline" in answer.promise()


def test_pictures_near_the_threshold_do_not_hold_up_others(make_model: MakeModel, make_service: MakeService) -> None:
    model = make_model(base=Slow(0.002), radii=(0.3,), failure=0.01, most_samples=20_000)
    service = make_service(model)
    near = service.submit([at_distance(0.3)] * 6)
    time.sleep(0.2)
    clear = service.submit([at_distance(0.5)])[0].result(60)
    assert clear.radius == 0.3
    assert sum(not future.done() for future in near) >= 3
    assert service.rows / service.passes > 100
    for future in near:
        future.result(300)


def test_full_queue_refuses_all_or_nothing(make_model: MakeModel, make_service: MakeService) -> None:
    slow = Slow()
    service = make_service(make_model("vote", base=slow), queue_limit=3)
    slow.gate.clear()
    waiting = service.submit([at_distance(0.5)] * 2)
    with pytest.raises(BusyError) as refused:
        service.submit([at_distance(0.4)] * 2)
    assert refused.value.seconds >= 1
    assert service.in_flight == 2
    waiting += service.submit([at_distance(0.4)])
    slow.gate.set()
    assert [future.result(60).class_name for future in waiting] == ["above"] * 3


def test_failing_model_fails_its_requests_alone(
    make_model: MakeModel, make_service: MakeService, tmp_path: Path
) -> None:
    slow = Slow()
    service = make_service(make_model("vote", base=slow), evidence=EvidenceLog(tmp_path / "e"))
    assert service.submit([at_distance(0.5)])[0].result(60).class_name == "above"
    slow.broken = True
    with pytest.raises(FailedError) as failed:
        service.submit([at_distance(0.5)])[0].result(60)
    assert "secret" not in str(failed.value)
    slow.broken = False
    assert service.submit([at_distance(0.5)])[0].result(60).asked == 3
    kinds = [entry.record["kind"] for entry in read_log(tmp_path / "e")]
    assert kinds == ["opened", "sealed", "answer", "sealed", "failed", "sealed", "answer"]


def test_request_fails_if_the_evidence_cannot_be_written(
    make_model: MakeModel, make_service: MakeService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = EvidenceLog(tmp_path / "e")
    service = make_service(make_model("vote"), evidence=log)

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "full")

    with monkeypatch.context() as patch:
        patch.setattr("radii.disk.append", full)
        with pytest.raises(FailedError, match="evidence cannot be written"):
            service.submit([at_distance(0.5)])[0].result(60)
    assert service.submit([at_distance(0.5)])[0].result(60).asked == 1


def test_log_names_the_file_that_a_full_disk_refused(
    make_model: MakeModel,
    make_service: MakeService,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    service = make_service(make_model("vote"), evidence=EvidenceLog(tmp_path / "e"), keep_pictures=True)

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("radii.disk.os.write", full)
        with pytest.raises(FailedError, match="^the evidence cannot be written$"):
            service.submit([at_distance(0.5)])[0].result(60)
    assert f"the evidence cannot be written: {tmp_path / 'e' / LOG}: No space left on device" in caplog.text
    (tmp_path / "e" / "pictures").write_text("in the way")
    with pytest.raises(FailedError):
        service.submit([at_distance(0.5)])[0].result(60)
    assert f"the picture cannot be kept: {tmp_path / 'e' / 'pictures'}" in caplog.text


def test_index_that_another_program_reads_stops_no_answer(
    make_model: MakeModel, make_service: MakeService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite3, "connect", partial(sqlite3.connect, timeout=0.1))  # without it, 5 s
    log = EvidenceLog(tmp_path / "e")
    service = make_service(make_model("vote"), evidence=log)
    assert service.submit([at_distance(0.5)])[0].result(60).asked == 1
    reader = sqlite3.connect(tmp_path / "e" / INDEX, isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM asked").fetchall()  # holds a lock, as a backup does
    assert service.submit([at_distance(0.5)])[0].result(60).asked == 2
    reader.close()
    assert service.submit([at_distance(0.5)])[0].result(60).asked == 3
    (tmp_path / "e" / INDEX).unlink()
    with pytest.raises(FailedError, match="evidence cannot be written"):
        service.submit([at_distance(0.5)])[0].result(60)
    assert [service.submit([at_distance(0.5)])[0].result(60).asked for _ in range(3)] == [4, 5, 6]
    asked = [entry.record["asked"] for entry in read_log(tmp_path / "e") if "asked" in entry.record]
    assert asked == [1, 2, 3, 4, 5, 6]


def test_picture_that_cannot_be_kept_is_refused_without_its_path(
    make_model: MakeModel, make_service: MakeService, tmp_path: Path
) -> None:
    service = make_service(make_model("vote"), evidence=EvidenceLog(tmp_path / "e"), keep_pictures=True)
    (tmp_path / "e" / "pictures").write_text("in the way")
    with pytest.raises(FailedError, match="^the evidence cannot be written$") as failed:
        service.submit([at_distance(0.5)])[0].result(60)
    assert failed.value.temporary
    (tmp_path / "e" / "pictures").unlink()
    assert service.submit([at_distance(0.5)])[0].result(60).asked == 2


@pytest.mark.parametrize("damage", ["removed", "emptied", "replaced", "longer", "folder"])
def test_log_that_changes_under_a_server_gets_no_further_lines(
    make_model: MakeModel, make_service: MakeService, tmp_path: Path, damage: str
) -> None:
    folder = tmp_path / "e"
    service = make_service(make_model("vote"), evidence=EvidenceLog(folder))
    service.submit([at_distance(0.5)])[0].result(60)
    file, content = folder / LOG, (folder / LOG).read_bytes()
    if damage == "folder":  # and another server begins there
        folder.rename(tmp_path / "old")
        make_service(make_model("vote"), evidence=EvidenceLog(folder)).submit([at_distance(0.5)])[0].result(60)
    elif damage == "emptied":
        file.write_bytes(b"")
    elif damage == "longer":
        file.write_bytes(content + b"{}\n")
    else:
        file.unlink()
        if damage == "replaced":
            file.write_bytes(content[:-10] + b"0" * 10)
    before = file.read_bytes() if file.exists() else None
    for _ in range(2):
        with pytest.raises(FailedError, match="evidence cannot be written"):
            service.submit([at_distance(0.5)])[0].result(60)
    assert (file.read_bytes() if file.exists() else None) == before


def test_model_that_cannot_be_recorded_is_not_served(
    make_model: MakeModel, make_service: MakeService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = make_service(make_model("vote", weights="old"), evidence=EvidenceLog(tmp_path / "e"))

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "full")

    with monkeypatch.context() as patch:
        patch.setattr("radii.disk.append", full)
        with pytest.raises(FailedError):
            service.exchange(make_model("vote", weights="new")).result(60)
    assert service.submit([at_distance(0.5)])[0].result(60).model.weights == "old"


def test_index_of_a_closed_service_has_counted_all_lines(make_model: MakeModel, tmp_path: Path) -> None:
    for times in (1, 2):
        log = EvidenceLog(tmp_path / "e")
        service = Service(make_model("vote"), evidence=log, workers=1)
        assert service.submit([at_distance(0.5)])[0].result(60).asked == times
        service.close()
        assert log.index.counted() == (
            (tmp_path / "e" / LOG).stat().st_size,
            3 * times,
            list(read_log(tmp_path / "e"))[-1].digest,
        )
        log.close()


def test_requests_in_flight_keep_their_model(make_model: MakeModel, make_service: MakeService) -> None:
    slow = Slow()
    service = make_service(make_model("vote", base=slow, weights="old"))
    slow.gate.clear()
    before = service.submit([at_distance(0.5)])[0]
    service.exchange(make_model("vote", weights="new"))
    while service.model.weights == "old":
        time.sleep(0.005)
    after = service.submit([at_distance(0.5)])[0]
    slow.gate.set()
    assert (before.result(60).model.weights, after.result(60).model.weights) == ("old", "new")
    assert (before.result().asked, after.result().asked) == (1, 1)


def test_picture_prepared_for_a_model_is_answered_by_it(make_model: MakeModel, make_service: MakeService) -> None:
    old, new = make_model("vote", weights="old"), replace(make_model("vote", weights="new"), shape=(3, 2, 2))
    service = make_service(old)
    service.exchange(new)
    while service.model is old:
        time.sleep(0.005)
    assert service.submit([at_distance(0.5)], model=old)[0].result(60).model is old
    with pytest.raises(ValueError, match=r"expected \[3, 2, 2\]"):
        service.submit([at_distance(0.5)])


def test_progress_reports_votes_as_they_arrive(make_service: MakeService) -> None:
    seen: list[tuple[int, object]] = []
    service = make_service()
    service.submit([at_distance(0.5)], progress=lambda samples, votes: seen.append((samples, votes)))[0].result(60)
    assert [samples for samples, _ in seen][:2] == [64, 64]


def test_wrong_pictures_are_refused(make_service: MakeService) -> None:
    service = make_service()
    with pytest.raises(ValueError, match=r"shape \[3, 2, 2\], expected \[1, 2, 2\]"):
        service.submit([torch.zeros(3, 2, 2)])
    with pytest.raises(ValueError, match="pixels from"):
        service.submit([torch.full((1, 2, 2), 2.0)])
    assert service.in_flight == 0


def test_closed_service_refuses(make_model: MakeModel) -> None:
    service = Service(make_model("vote"), workers=1)
    waiting = service.submit([at_distance(0.5)])
    service.close()
    assert waiting[0].done()
    with pytest.raises(FailedError, match="stopping"):
        service.submit([at_distance(0.5)])
