"""Replay certificates: certify rows again from their noise addresses, and judge votes that differ."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from radii import engines
from radii.certification.certify import (
    Certification,
    CertificationConfig,
    environment_of,
    for_workers,
    open_certification,
    stated_batch_size,
)
from radii.certification.checks import TOLERANCE, Shift, Verification, certifier_of, message_of, noise_of
from radii.certification.data import named_in
from radii.certification.recertify import UpdateCertification, open_update
from radii.certification.update import FROM, named_old
from radii.certifiers.population import OnePass
from radii.device import available
from radii.estimate import OnEstimate
from radii.runs import trust
from radii.runs.certificates import ENVIRONMENTS, FIRST_ROW, Row, recorded_difference, same_environment
from radii.runs.function import COARSE, FUNCTION, function_difference, is_coarse
from radii.smoothing.certificate import ABSTAIN
from radii.smoothing.questions import Answer, FavouredVotes, NearTies, Question, Task, Votes
from radii.workers.voter import one_thread

ROUNDING = 1e-4
"""How far float32 arithmetic in another order may change a logit of a deep network, as a share of the largest."""
COARSE_ROUNDING = 0.01
"""The same for engines of 8 or 16 bits, and for TF32 on a GPU. docs/reliability.md has the measurements."""
MEAN_ROUNDING = 1e-3
"""How far rounding may change a radius of mean probabilities, as a share of it, and at most as far as a logit."""
UNSEEN = 1e-5
"""Changes of such a radius below this share favour no claim. Engines of 32 bits differ by 5e-7 at most."""
WORTH_TIMING = 50_000
"""With fewer noisy copies in all, a replay takes about as long as its estimate."""
ONE_SIDED = 4.0
"""Standard deviations by which votes may favour the claims of a file: rounding changes votes in both directions."""

Count = Callable[[Sequence[Question]], list[Answer]]
"""Count the answers to questions about one image."""


def replay(
    verification: Verification, rows: Sequence[Row], workers: int, on_estimate: OnEstimate | None = None
) -> Iterator[Row]:
    """Certify images again from their noise addresses and compare; yield every replayed row."""
    try:
        certification = _certification(verification, workers)
    except (LookupError, ValueError, TypeError, OSError) as error:
        verification.cannot_check(f"it cannot be replayed: {message_of(error)}")
        return
    ours, theirs = certification.voting_device.type, verification.header.get("device")
    if certification.stream is None and theirs not in (None, ours):
        verification.cannot_check(
            f"its noise was drawn on a {theirs!r} device, and {ours!r} draws other numbers: replay it on such a device"
        )
        return
    if certification.stream is None and ours != "cpu":
        workers = 1  # near ties are counted in this process: it needs the same draws, and so the GPU
    if difference := _function_difference(verification, certification):
        verification.differs(f"it was made with {difference}")
        return
    here = [row for row in rows if 0 <= row.index < len(certification.samples)]
    indices = [row.index for row in here]
    is_long = sum(row.samples or 0 for row in here) > WORTH_TIMING
    if on_estimate is not None and is_long:
        certification.announce(indices, workers, on_estimate)
    for row, again in zip(here, certification.rows(indices, workers), strict=True):
        verification.replayed += 1
        if _result(row) != _result(again):
            _explain(verification, certification, row, again)
        yield row
    _check_shifts(verification)


def _check_shifts(verification: Verification) -> None:
    """Record a file whose votes favour its claims more than rounding does, over all rows or over the correct ones.

    Lower claims about wrong answers cost nothing, and so do not make up for higher ones about right answers. For radii
    of mean probabilities a row counts as one vote.
    """
    is_of_means = {bool(row.counts) for row in verification.certificates.rows} == {False}
    for shifts in (verification.shifts, [shift for shift in verification.shifts if shift.correct]):
        favour, ties = sum(shift.favour for shift in shifts), sum(shift.ties for shift in shifts)
        if _is_one_sided(favour, ties):
            what = (
                f"of {ties} that differ from the replay, {favour} more are above it than below, which rounding"
                if is_of_means
                else f"{favour} more votes are for the stated classes than in the replay, which rounding of {ties} "
                "near ties"
            )
            verification.cannot_check(
                f"its radii are not confirmed here: {what} does not explain; replay it on the machine that made it"
            )
            return


def _is_one_sided(favour: int, ties: int) -> bool:
    return favour > ONE_SIDED * math.sqrt(ties)


def _function_difference(verification: Verification, certification: Certification) -> str:
    """Describe how the function that runs here differs from the recorded one; empty if it does not."""
    engine, header = certification.classifier.engine, verification.header
    if engine != header["engine"]:
        return function_difference(header.get(FUNCTION, {}), certification.function, COARSE)
    return recorded_difference(header, certification.function, environment_of(certification.classifier))


def _certification(verification: Verification, workers: int) -> Certification:
    header = verification.header
    engine = verification.engine or header["engine"]
    trust.require([engine], verification.run.trusted, verification.path)
    part, other = named_in(verification.run, header)
    config = CertificationConfig(
        run=verification.run.path,
        certifier=certifier_of(verification),
        noise=noise_of(verification),
        seed=header["seed"],
        engine=engine,
        batch_size=_batch_size(verification),
        data=verification.data,
        split=part,
        dataset=other,
        trust=verification.run.trusted,
        label_known=header.get("label_known", True),
        stream=header.get("stream"),
        device=_device(header),
    )
    target = None
    if config.stream is not None:
        config, target = for_workers(config, verification.run, workers, None)
    if FROM in header:
        old = named_old(verification.run, header)
        return replace(open_update(config, old, verification.run), target=target)
    return replace(open_certification(config, verification.run), target=target)


def _batch_size(verification: Verification) -> int | None:
    """Return how many noisy copies a forward pass has; the draws of an older file depend on it."""
    header, asked = verification.header, verification.batch_size
    stated = stated_batch_size(header)
    if asked not in (None, stated) and "stream" not in header:
        raise ValueError(f"its draws depend on passes of {stated} copies: leave out the batch size {asked}")
    return asked or stated


def _device(header: Mapping[str, Any]) -> str | None:
    """Return the kind of device that the draws of an older file depend on, if this machine has it."""
    stated = header.get("device") if "stream" not in header else None
    return stated if stated in available() else None


def _result(row: Row) -> tuple[Any, ...]:
    return row.prediction, row.radius, row.samples, {label: count for label, count in row.counts.items() if count}


def _explain(verification: Verification, certification: Certification, row: Row, again: Row) -> None:
    """Record a row that the replay does not reproduce, unless it was made elsewhere and rounding explains it."""
    what = f"a replay gives class {again.prediction} with radius {again.radius}, not {row.prediction} with {row.radius}"
    here = environment_of(certification.classifier)
    if _same_place(verification, certification, row, again.environments or [here]):
        verification.differs(f"{what}; {_moved(row, again)} votes differ", row)
        return
    if isinstance(certification, UpdateCertification):
        verification.cannot_check(f"image {row.index}: {what}; rounding may explain that here")
        return
    # Near ties are counted in this process, which stays off the GPUs of its workers.
    rounding = rounding_of(verification.header, certification.classifier.engine, [*again.environments, here])
    moved, most = _moved(row, again), _near_ties(certification, row, rounding)
    if row.samples != again.samples and most:
        verification.cannot_check(
            f"image {row.index} took {row.samples} samples, here {again.samples}: rounding may explain that"
        )
    elif not row.counts and not again.counts:
        if not _nearly(row, again, min(MEAN_ROUNDING, rounding)):
            verification.differs(what, row)
        elif not _nearly(row, again, UNSEEN):
            verification.shifts.append(Shift(1 if row.radius > again.radius else -1, 1, row.correct))
    elif moved > most:
        verification.differs(f"{what}; {moved} votes differ, rounding explains at most {most}", row)
    else:
        verification.moved += moved
        _check_claim(verification, certification, row, again, most, rounding)


def _check_claim(
    verification: Verification, certification: Certification, row: Row, again: Row, ties: int, rounding: float
) -> None:
    """Record a claim that the replay does not prove even if rounding decided the near ties in its favour.

    Rounding decides near ties in both directions: neither a row nor a file may have them all on its side.
    """
    # What a single pass claims of all images rests on the votes for the label.
    claimed = row.label if isinstance(certification.certifier, OnePass) else row.prediction
    favour = row.counts.get(claimed, 0) - again.counts.get(claimed, 0)
    if claimed != ABSTAIN:
        verification.shifts.append(Shift(favour, ties, claimed == row.label))
    if row.prediction == ABSTAIN:
        return
    if _proves(again, row):
        return
    best = _favoured(certification, row, rounding)
    if not _proves(best, row) or _is_one_sided(favour, ties):
        verification.cannot_check(
            f"image {row.index}: class {row.prediction} with radius {row.radius} is not confirmed here: a replay gives "
            f"class {again.prediction} with radius {again.radius}, and {best.radius} if all near ties were for it"
        )


def _proves(result: Row, claim: Row) -> bool:
    return result.prediction == claim.prediction and result.radius >= claim.radius * (1 - TOLERANCE)


def _nearly(row: Row, again: Row, share: float) -> bool:
    """Return whether two results from mean probabilities are equal up to this share of the radius."""
    return row.prediction == again.prediction and math.isclose(row.radius, again.radius, rel_tol=share)


def _same_place(
    verification: Verification, certification: Certification, row: Row, here: Sequence[Mapping[str, Any]]
) -> bool:
    """Return whether a row was made with this engine, instruction set, device and versions: no vote may differ then."""
    if certification.classifier.engine != verification.header["engine"]:
        return False
    number = list(verification.certificates.rows).index(row)
    before = [
        environment for environment in verification.header.get(ENVIRONMENTS, []) if environment[FIRST_ROW] <= number
    ]
    # Workers of several kinds are recorded once, with their first row: each later row may be of any of them.
    return bool(before) and all(same_environment(one, other) for one in before for other in here)


def _moved(row: Row, again: Row) -> int:
    """Count the votes that went to another class."""
    labels = row.counts.keys() | again.counts.keys()
    return math.ceil(sum(abs(row.counts.get(label, 0) - again.counts.get(label, 0)) for label in labels) / 2)


def rounding_of(header: Mapping[str, Any], engine: str, here: Sequence[Mapping[str, Any]]) -> float:
    """Return how far rounding may change a logit between a file's environments and these, by their precision."""
    if is_coarse(engine) or not engines.only_rounds(engine):
        return COARSE_ROUNDING
    environments = [*header.get(ENVIRONMENTS, []), *here]
    tf32 = any(any(environment.get("tf32", {}).values()) for environment in environments)
    return COARSE_ROUNDING if tf32 else ROUNDING


def _near_ties(certification: Certification, row: Row, rounding: float) -> int:
    """Count the copies of an image whose two largest logits are within the rounding of the engine."""
    ties = 0

    def answer(question: Question, count: Count) -> Answer:
        nonlocal ties
        votes, near = count([question, NearTies(question.stage, question.first, question.count, rounding)])
        ties += int(near[0])
        return votes

    _replay_with(certification, row, answer)
    return ties


def _favoured(certification: Certification, row: Row, rounding: float) -> Row:
    """Certify an image again with every near tie decided in favour of the row's class."""

    def answer(question: Question, count: Count) -> Answer:
        if type(question) is Votes:
            question = FavouredVotes(question.stage, question.first, question.count, row.prediction, rounding)
        return count([question])[0]

    return _replay_with(certification, row, answer)


def _replay_with(certification: Certification, row: Row, answer: Callable[[Question, Count], Answer]) -> Row:
    """Certify the image of a row again; `answer` makes the reply to a question and may count other ones."""
    image, address, steps = certification.program(row.index)

    def count(questions: Sequence[Question]) -> list[Answer]:
        with one_thread():
            return certification.classifier.count([Task(image, address, question) for question in questions])

    reply = None
    while True:
        try:
            question = steps.send(reply)  # type: ignore[arg-type]
        except StopIteration as stopped:
            result: Row = stopped.value
            return result
        reply = answer(question, count)
