"""Rows of a certificate file computed again from their noise addresses, and what rounding can explain."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from radii.certification.certify import CertificationConfig, CertificationSession, certify_images
from radii.certification.evaluated import named_in
from radii.certification.verify_rows import Checked, certifier_of, in_words, noise_of
from radii.provenance import rounding_environment
from radii.runs import trust
from radii.runs.certificates import Row

ROUNDING = 1e-4
"""How far float32 arithmetic in another order may move a logit of a deep network, as a share of the largest."""
INT8_ROUNDING = 0.05
"""The same for eight-bit arithmetic, whose steps are coarser."""
MEAN_ROUNDING = 1e-3
"""How far rounding may move a radius of mean probabilities, as a share of it."""


def replay(checked: Checked, rows: Sequence[Row], workers: int) -> Iterator[Row]:
    """Certify images again from their noise addresses and compare; yields each replayed row."""
    try:
        session = _session(checked)
    except (LookupError, ValueError, TypeError, OSError) as error:
        checked.cannot(f"it cannot be replayed: {in_words(error)}")
        return
    here = [row for row in rows if 0 <= row.index < len(session.images)]
    for row, again in zip(here, certify_images(session, [row.index for row in here], workers), strict=True):
        checked.replayed += 1
        if _answer(row) != _answer(again):
            _explain(checked, session, row, again)
        yield row


def _session(checked: Checked) -> CertificationSession:
    header = checked.header
    engine = checked.engine or header["engine"]
    trust.require([engine], checked.run.trusted, checked.path)
    part, other = named_in(checked.run, header)
    return CertificationSession(
        CertificationConfig(
            run=checked.run.path,
            certifier=certifier_of(checked),
            noise=noise_of(checked),
            seed=header["seed"],
            engine=engine,
            batch_size=header["batch_size"],
            data=checked.data,
            split=part,
            dataset=other,
            trust=checked.run.trusted,
            label_known=header.get("label_known", True),
        )
    )


def _answer(row: Row) -> tuple[Any, ...]:
    return row.prediction, row.radius, row.samples, {label: count for label, count in row.counts.items() if count}


def _explain(checked: Checked, session: CertificationSession, row: Row, again: Row) -> None:
    """Report a row that a replay does not reproduce, unless it was made elsewhere and rounding explains it."""
    what = f"a replay gives class {again.prediction} with radius {again.radius}, not {row.prediction} with {row.radius}"
    if _same_place(checked, session, row):
        checked.differs(f"{what}; {_moved(row, again)} votes differ", row)
        return
    moved, most = _moved(row, again), _near_ties(session, row)
    if row.samples != again.samples and most:
        checked.cannot(f"image {row.index} took {row.samples} samples, here {again.samples}, as rounding may decide")
    elif not row.counts and not again.counts:
        if not _nearly(row, again):
            checked.differs(what, row)
    elif moved > most:
        checked.differs(f"{what}; {moved} votes differ, rounding explains at most {most}", row)
    else:
        checked.moved += moved


def _nearly(row: Row, again: Row) -> bool:
    """Whether two results from mean probabilities are equal up to rounding."""
    return row.prediction == again.prediction and math.isclose(row.radius, again.radius, rel_tol=MEAN_ROUNDING)


def _same_place(checked: Checked, session: CertificationSession, row: Row) -> bool:
    """Whether a row was made with this engine, instruction set, device and versions: then no vote may differ."""
    if session.config.engine != checked.header["engine"]:
        return False
    number = list(checked.made.rows).index(row)
    before = [each for each in checked.header.get("environments", []) if each["first_row"] <= number]
    here = {**rounding_environment(session.config.engine), "first_row": 0}
    return bool(before) and {**before[-1], "first_row": 0} == here


def _moved(row: Row, again: Row) -> int:
    """How many votes are for another class."""
    labels = row.counts.keys() | again.counts.keys()
    return math.ceil(sum(abs(row.counts.get(label, 0) - again.counts.get(label, 0)) for label in labels) / 2)


def _near_ties(session: CertificationSession, row: Row) -> int:
    """How many copies of an image have their two largest logits within the rounding of the engine."""
    rounding = INT8_ROUNDING if "int8" in session.config.engine else ROUNDING
    classifier, image = session.classifier, session.images.batch(torch.tensor([row.index]))[0]
    engine, form = classifier.prepared_for(image)
    counting = _NearTies(form, rounding)
    classifier.adopt(engine, image, counting)
    try:
        session.certify(row.index)
    finally:
        classifier.adopt(engine, image, form)
    return counting.found


class _NearTies(nn.Module):
    """A base classifier that counts the inputs whose two largest logits are nearly equal."""

    def __init__(self, base: nn.Module, rounding: float) -> None:
        super().__init__()
        self.base, self.rounding, self.found = base, rounding, 0

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.base(images)
        first, second = logits.topk(2, dim=1).values.unbind(1)
        # Both may move, towards each other.
        self.found += int((first - second <= 2 * self.rounding * logits.abs().amax(1)).sum())
        return logits
