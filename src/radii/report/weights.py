"""Whether certificates are of the weights that a run has now."""

from radii.experiment import files
from radii.experiment.certificates import Certificates
from radii.experiment.run import Run

OWN = "the run’s own"  # noqa: RUF001
ABSENT = "the weights are not in the run"
GONE = "of weights that are no longer there"
UNRECORDED = "of weights that are not on record"


def digest_of(run: Run) -> str | None:
    """The digest of the weights that a run has now."""
    return files.digest(run.weights_file) if run.finished else None


def weights_of(made: Certificates, run: Run, present: str | None) -> str:
    """Whose the certificates of a run's folder are; `present` is the digest of the weights that it has."""
    recorded = made.header.get("weights")
    if recorded is None:
        return UNRECORDED
    if present is None:
        # An archive without weights is as it was made; a run with a checkpoint is being trained anew.
        return GONE if run.checkpoint_file.is_file() else ABSENT
    return OWN if present == recorded else GONE
