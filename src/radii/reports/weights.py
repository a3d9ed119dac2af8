"""Whether certificates are of the present weights of a run."""

from radii.runs.certificates import Certificates
from radii.runs.run import Run

OWN = "the run’s own"  # noqa: RUF001
ABSENT = "the weights are not in the run"
GONE = "of weights that the run no longer has"
UNRECORDED = "of unrecorded weights"


def digest_of(run: Run) -> str | None:
    """The digest of the present weights of a run."""
    return run.weights_digest() if run.finished else None


def weights_of(made: Certificates, run: Run, present: str | None) -> str:
    """Which weights the certificates of a run are of; `present` is the digest of its present weights."""
    recorded = made.header.get("weights")
    if recorded is None:
        return UNRECORDED
    if present is None:
        # An archive without weights has not changed; a run with a checkpoint is being trained again.
        return GONE if run.checkpoint_file.is_file() else ABSENT
    return OWN if present == recorded else GONE
