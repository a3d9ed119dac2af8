"""Item 10: certificates that others check."""

import random
from pathlib import Path
from shutil import copytree

from radii.certification.verify import verify_run
from radii.runs import certificates
from radii.runs.run import Run
from tools.stress import edits
from tools.stress.about import retrain
from tools.stress.outcome import Effort, Outcome

EDITS = (
    *(edits.radius_up, edits.a_vote_moved, edits.a_vote_more, edits.another_label, edits.another_class),
    *(edits.no_class, edits.an_abstention, edits.another_digest, edits.another_image, edits.samples_fewer),
)


OF_NO_COUNTS = tuple(edit for edit in EDITS if edit not in (edits.a_vote_moved, edits.a_vote_more))
"""What can be edited where votes are not on file, as of `soft`."""


def verification(effort: Effort) -> Outcome:
    """`radii verify`, replaying every row, on files of every certifier: untouched, with a cell of a random row edited
    by somebody who leaves the checksums alone and by somebody who makes them anew, and with other weights under the
    old name."""
    made, rng = edits.certified_run(effort.folder / "made"), random.Random(effort.seed)
    missed, alarms, tries = [], [], 0
    for procedure in ["fixed"] if effort.short else edits.FIELDS:
        path = _only(made, effort.folder / procedure, procedure)
        alarms += [procedure] if verify_run(_run(path), rows=None).exit_code else []
        for number in range(1):
            for edit in EDITS if certificates.read(path).rows[0].counts else OF_NO_COUNTS:
                tries += 2
                missed += [f"{told}, {procedure} {number}" for told in _missed(path, edit, rng)]
        retrain(_run(path))
        tries += 1
        missed += [] if verify_run(_run(path), rows=1).exit_code == 1 else [f"other weights, {procedure}"]
    return Outcome({"edits": tries}, {"missed": missed, "false alarms": alarms})


def _run(path: Path) -> Run:
    return Run(path.parents[1])


def _only(made: Path, folder: Path, procedure: str) -> Path:
    """A copy of the run with certificates of one procedure."""
    copytree(made, folder)
    run = Run(folder / "run")
    for path in run.certificates.iterdir():
        path.unlink()
    return edits.certify(run, procedure)


def _missed(path: Path, edit: edits.Edit, rng: random.Random) -> list[str]:
    """By which of the two editors a row can be edited so that nobody sees it."""
    header = certificates.header_file(path)
    before = path.read_text(), header.read_text()
    rows = certificates.read(path).rows
    line = 1 + rng.choice([number for number, row in enumerate(rows) if row.correct])
    edits.reseal(path, edit, line)
    knowing = verify_run(_run(path), rows=None).exit_code == 1
    old, new = before[0].splitlines(), path.read_text().splitlines()
    kept = ["\t".join([*there.split("\t")[:-1], here.split("\t")[-1]]) for there, here in zip(new, old, strict=True)]
    path.write_text("\n".join(kept) + "\n")
    naive = verify_run(_run(path), rows=0).exit_code == 1
    path.write_text(before[0])
    header.write_text(before[1])
    return [
        f"{edit.__name__} by {who}"
        for who, found in (("a knowing editor", knowing), ("a naive one", naive))
        if not found
    ]
