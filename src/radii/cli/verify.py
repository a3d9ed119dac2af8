"""radii verify: check the certificates of a run again."""

from dataclasses import asdict
from pathlib import Path
from typing import NoReturn

from radii.cli.app import console, hint, printed_warnings, say, say_json
from radii.cli.arguments import LOG, Data, Json, Switch, Trust, Whole
from radii.cli.estimates import announce, announce_rest
from radii.cli.progress import CountingBar
from radii.runs.run import Run

FEWER = "--rows 2"


def verify(
    certificates: Path,
    /,
    *,
    run: Path | None = None,
    rows: Whole = 10,
    all: Switch = False,
    engine: str | None = None,
    batch_size: Whole | None = None,
    workers: Whole = 1,
    json: Json = False,
    pictures: Path | None = None,
    signed: Switch = False,
    key: Path | None = None,
    data: Data = None,
    trust: Trust = None,
) -> None:
    """Check certificates again: digests, checksums, seeds and radii of all rows, and the votes of some.

    Also checks the evidence of a server: the chain, sealed seeds, shares of failure, radii, and some answers again.

    Exit code 0: everything agrees with the certificates. 1: something differs. 2: something could not be checked.

    Args:
        certificates: A run directory, a certificate file in one, or a folder of evidence that `radii serve` wrote.
        run: The run that the file belongs to, if the file is elsewhere; the run that gave the answers of evidence.
        rows: The number of rows to replay in each file, or of answers, chosen at random.
        all: Replay every row or answer.
        engine: Use this engine instead of the one that the certificates name.
        batch_size: The noisy copies of a forward pass; by default as many as the file was made with. The draws of files
            of version 0.2 depend on it.
        workers: The number of processes, of one thread each.
        pictures: A folder of the pictures that answers are about, where the evidence keeps none.
        signed: Check the signature of a run instead: weights, recipe, certificates and card are as they were signed.
        key: The public key of the signer, a PEM file.
    """
    from radii.certification.verify import verify_run

    if not certificates.exists():
        raise ValueError(f"There is neither a run nor a certificate file {certificates}. Name an existing one.")
    if signed or key is not None:
        _verify_signature(certificates, signed, key, json, trust)
    if (certificates / LOG).is_file():
        _verify_evidence(certificates, run, pictures, None if all else rows, json, trust)
    if pictures is not None:
        raise ValueError(f"--pictures is for evidence, and {certificates} holds none. Leave it out.")
    file = None if certificates.is_dir() else certificates
    folder = run or (certificates if file is None else _run_of(file))
    with printed_warnings(), CountingBar(console) as bar:
        result = verify_run(
            Run(folder, trust or ()),
            file,
            rows=None if all else rows,
            engine=engine,
            batch_size=batch_size,
            data=data,
            workers=workers,
            on_row=bar,
            on_estimate=None if json else announce(bar, FEWER),
        )
    if json:
        say_json({"equal": result.equal, "exit_code": result.exit_code, **asdict(result)})
    else:
        say(f"{certificates}: {result.in_words()}")
    raise SystemExit(result.exit_code)


def _verify_signature(run: Path, signed: bool, key: Path | None, json: bool, trust: list[str] | None) -> NoReturn:
    """Check the signature of a run, and exit."""
    from radii.certification.signing import verify_signature

    if not signed:
        raise ValueError("--key is for the signature of a run. Add --signed.")
    if key is None:
        raise ValueError("--signed needs the public key of the signer. Name it with --key.")
    result = verify_signature(Run(run, trust or ()), key)
    if json:
        say_json({"exit_code": result.exit_code, **asdict(result)})
    else:
        say(f"{run}: {result.in_words()}")
    raise SystemExit(result.exit_code)


def _verify_evidence(
    folder: Path, run: Path | None, pictures: Path | None, rows: int | None, json: bool, trust: list[str] | None
) -> NoReturn:
    """Check the evidence of a server, and exit."""
    from radii.serving.audit import verify_evidence

    with printed_warnings(), CountingBar(console) as bar:
        opened = None if run is None else Run(run, trust or ())
        on_answer = bar if json else announce_rest(bar, FEWER)
        result = verify_evidence(folder, opened, pictures=pictures, rows=rows, trusted=trust or (), on_answer=on_answer)
    if json:
        say_json({"equal": result.equal, "exit_code": result.exit_code, **asdict(result)})
    else:
        say(f"{folder}: {result.in_words()}")
        if run is None and rows != 0:
            hint("name the run that gave the answers with --run, to replay some of them")
    raise SystemExit(result.exit_code)


def _run_of(file: Path) -> Path:
    """Return the run that a certificate file lies in."""
    if not file.name.endswith(".tsv"):
        raise ValueError(f"{file} is not a certificate file. Name a run, or a .tsv file that `radii certify` wrote.")
    folder = file.resolve().parent.parent
    if not Run(folder).recipe_file.is_file():
        raise ValueError(f"{file} is not in a run. Name the run that it belongs to with --run.")
    return folder
