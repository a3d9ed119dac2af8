"""radii pull: pull a run from the Hugging Face hub."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from radii.cli.app import hint, say
from radii.cli.arguments import RUN_FLAGS, command


def pull(address: str, /, *, run: Annotated[Path | None, Parameter(name=RUN_FLAGS)] = None) -> None:
    """Pull a run from the Hugging Face hub into a new directory. Nothing of it is executed.

    Args:
        address: hf://owner/name, or hf://owner/name@revision for a branch, tag or commit.
        run: The run directory to make; by default runs/NAME.
    """
    from radii.interop.hub import Address, named_code
    from radii.interop.hub import pull as pull_run

    pulled = pull_run(address, run or Path("runs") / Address.parse(address).repository.rpartition("/")[2])
    files = len(list(pulled.certificates.glob("*.tsv")))
    say(f"{pulled.path}: pulled from {address}, with {files} certificate file{'s' * (files != 1)}")
    for name in named_code(pulled):
        hint(f"its recipe names the code {name}: read it, and trust it with --trust before you use the run")
    hint(f"next: {command('verify' if files else 'certify', pulled.path)}")
