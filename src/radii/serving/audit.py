"""Audit evidence: check the whole log, and replay some of its answers."""

import random
from collections.abc import Callable, Collection
from pathlib import Path

from radii.errors import ParameterError
from radii.runs.run import Run
from radii.serving.check_log import Claim, EvidenceResult, LogCheck
from radii.serving.evidence import is_evidence
from radii.serving.replay_answers import AnswerReplay

OnAnswer = Callable[[int, int], None]


def verify_evidence(
    folder: Path | str,
    run: Run | Path | str | None = None,
    *,
    pictures: Path | None = None,
    rows: int | None = 10,
    trusted: Collection[str] = (),
    on_answer: OnAnswer = lambda *_: None,
) -> EvidenceResult:
    """Check a folder of evidence, and replay `rows` answers, chosen at random, with the run that gave them.

    If `rows` is None, all answers are replayed. Pictures are those that the evidence keeps, and those in the folder
    `pictures`.
    """
    folder = Path(folder)
    if not is_evidence(folder):
        raise ParameterError(
            f"{folder} holds no evidence. Name a folder that `radii serve --evidence` wrote.", "folder"
        )
    if rows is not None and rows < 0:
        raise ParameterError(f"rows = {rows}, expected a whole number >= 0", "rows")
    run = run if isinstance(run, Run) or run is None else Run(run, trusted)
    log = LogCheck(folder, frozenset(trusted) if run is None else run.trusted)
    replay = AnswerReplay(log, run, pictures)
    chosen: list[Claim] = []
    rng = random.SystemRandom()
    for claim in log.claims():
        if rows == 0 or not replay.can_replay(claim):
            continue
        if rows is None:
            replay.replay(claim)
            on_answer(log.result.replayed, log.result.answers)
        elif len(chosen) < rows:
            chosen.append(claim)
        elif (place := rng.randrange(replay.replayable)) < rows:  # every answer gets the same chance
            chosen[place] = claim
    for claim in chosen:
        replay.replay(claim)
        on_answer(log.result.replayed, len(chosen))
    if rows != 0:
        replay.report_not_replayed(everything=rows is None)
    return log.result
