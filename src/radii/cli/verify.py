"""radii verify: check the certificates of a run again."""

from dataclasses import asdict
from pathlib import Path

from radii.cli.app import app, console, printed_warnings, say, say_json
from radii.cli.arguments import Data, Json, Switch, Trust, Whole
from radii.cli.progress import CountingBar
from radii.runs.run import Run


@app.command
def verify(
    certificates: Path,
    /,
    *,
    run: Path | None = None,
    rows: Whole = 10,
    all: Switch = False,
    engine: str | None = None,
    workers: Whole = 1,
    json: Json = False,
    data: Data = None,
    trust: Trust = None,
) -> None:
    """Check certificates again: digests, checksums, seeds and radii of all rows, and the votes of some.

    Exit code 0: everything agrees with the certificates. 1: something differs. 2: something could not be checked.

    Args:
        certificates: A run directory, or a certificate file in one.
        run: The run that the file belongs to, if the file is elsewhere.
        rows: The number of rows to replay in each file, chosen at random.
        all: Replay every row.
        engine: Use this engine instead of the one that the certificates name.
        workers: The number of processes, of one thread each.
    """
    from radii.certification.verify import verify_run

    if not certificates.exists():
        raise ValueError(f"There is neither a run nor a certificate file {certificates}. Name an existing one.")
    file = None if certificates.is_dir() else certificates
    folder = run or (certificates if file is None else _run_of(file))
    with printed_warnings(), CountingBar(console) as bar:
        result = verify_run(
            Run(folder, trust or ()),
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


def _run_of(file: Path) -> Path:
    """Return the run that a certificate file lies in."""
    if not file.name.endswith(".tsv"):
        raise ValueError(f"{file} is not a certificate file, expected a run or a .tsv file that `radii certify` wrote.")
    folder = file.resolve().parent.parent
    if not Run(folder).recipe_file.is_file():
        raise ValueError(f"{file} is not in a run. Name the run that it belongs to with --run.")
    return folder
