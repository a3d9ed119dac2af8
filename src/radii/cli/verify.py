"""The command that verifies certificates."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from radii.cli.app import app, console, printed_warnings, say, say_json
from radii.cli.arguments import Data, Json, Trust, Whole
from radii.cli.progress import CountingBar
from radii.runs.run import Run


@app.command
def verify(
    certificates: Path,
    /,
    *,
    run: Path | None = None,
    rows: Whole = 10,
    all: Annotated[bool, Parameter(negative="")] = False,
    engine: str | None = None,
    workers: Whole = 1,
    json: Json = False,
    data: Data = None,
    trust: Trust = None,
) -> None:
    """Check certificates again: digests, checksums, seeds and radii of all, votes of some; exit code 0, 1 or 2.

    0: everything agrees with the certificates, 1: something differs, 2: something could not be checked.

    Args:
        certificates: A run directory, or a certificate file of one.
        run: The run of the file, if the file is elsewhere.
        rows: The number of rows of each file, chosen at random, to replay.
        all: Replay every row.
        engine: The engine to use instead of the certificates' own.
        workers: Processes of one thread each.
    """
    from radii.certification.verify import verify_run

    if not certificates.exists():
        raise ValueError(f"there is neither a run nor a certificate file {certificates}: name an existing one")
    file = None if certificates.is_dir() else certificates
    place = run or (certificates if file is None else file.resolve().parent.parent)
    with printed_warnings(), CountingBar(console) as bar:
        result = verify_run(
            Run(place, trust or ()),
            file,
            rows=None if all else rows,
            engine=engine,
            data=data,
            workers=workers,
            on_row=bar,
        )
    if json:
        say_json({"equal": result.equal, "exit_code": result.exit_code, **asdict(result)})
    else:
        say(f"{certificates}: {result.in_words()}")
    raise SystemExit(result.exit_code)
