"""radii push: push a run to the Hugging Face hub."""

from pathlib import Path

from radii.cli.app import hint, say
from radii.cli.arguments import Switch, Trust, command
from radii.runs.run import Run


def push(run: Path, address: str, /, *, private: Switch = False, trust: Trust = None) -> None:
    """Push a trained run to the Hugging Face hub: weights, recipe, certificates and a model card; no pictures.

    Log in first with `hf auth login`.

    Args:
        run: A trained run directory.
        address: hf://owner/name. The repository is created if there is none.
        private: Create a private repository.
    """
    from radii.interop.hub import push as push_run

    pushed = Run(run, trust or ())
    page = push_run(pushed, address, private=private)
    say(f"{run}: pushed to {address}, {page}")
    if not any(pushed.certificates.glob("*.tsv")):
        hint(f"it has no certificates yet; next: {command('certify', run, trust=trust)}, and push again")
