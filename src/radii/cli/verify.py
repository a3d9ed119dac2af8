"""radii verify: check the certificates of a run again."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from radii.cli.app import console, hint, printed_warnings, say, say_json
from radii.cli.arguments import LOG, OPTIONS, Data, Json, Switch, Trust, Whole
from radii.cli.estimates import announce, announce_rest
from radii.cli.progress import CountingBar
from radii.runs.run import Run

if TYPE_CHECKING:
    from radii.certification.signing import SignatureResult
    from radii.certification.verify import VerificationResult
    from radii.serving.check_log import EvidenceResult

FEWER = "--rows 2"


@OPTIONS
@dataclass(frozen=True, kw_only=True)
class Options:
    """What `radii verify` takes beside the certificates."""

    run: Path | None = None
    """The run that the file belongs to, if the file is elsewhere; the run that gave the answers of evidence."""
    rows: Whole = 10
    """The number of rows to replay in each file, or of answers, chosen at random."""
    all: Switch = False
    """Replay every row or answer."""
    engine: str | None = None
    """Use this engine instead of the one that the certificates name."""
    batch_size: Whole | None = None
    """The noisy copies of a forward pass; by default as many as the file was made with. The draws of files of version
    0.2 depend on it."""
    workers: Whole = 1
    """The number of processes, of one thread each."""
    json: Json = False
    pictures: Path | None = None
    """A folder of the pictures that answers are about, where the evidence keeps none."""
    signed: Switch = False
    """Check the signature of a run instead: weights, recipe, certificates and card are as they were signed."""
    key: Path | None = None
    """The public key of the signer, a PEM file."""
    data: Data = None
    trust: Trust = None

    @property
    def replayed(self) -> int | None:
        """The number of rows or answers to replay; None for all."""
        return None if self.all else self.rows


DEFAULTS = Options()


def verify(certificates: Path, /, *, options: Options = DEFAULTS) -> None:
    """Check certificates again: digests, checksums, seeds and radii of all rows, and the votes of some.

    Also checks the evidence of a server: the chain, sealed seeds, shares of failure, radii, and some answers again.

    Exit code 0: everything agrees with the certificates. 1: something differs. 2: something could not be checked.

    Args:
        certificates: A run directory, a certificate file in one, or a folder of evidence that `radii serve` wrote.
    """
    if not certificates.exists():
        raise ValueError(f"There is neither a run nor a certificate file {certificates}. Name an existing one.")
    is_evidence = (certificates / LOG).is_file()
    result: VerificationResult | EvidenceResult | SignatureResult
    if options.signed or options.key is not None:
        result = _verify_signature(certificates, options)
    elif is_evidence:
        result = _verify_evidence(certificates, options)
    else:
        result = _verify_rows(certificates, options)
    if options.json:
        say_json({"equal": result.exit_code == 0, "exit_code": result.exit_code, **asdict(result)})
    else:
        say(f"{certificates}: {result.in_words()}")
        if is_evidence and options.run is None and options.replayed != 0:
            hint("name the run that gave the answers with --run, to replay some of them")
    raise SystemExit(result.exit_code)


def _verify_signature(run: Path, options: Options) -> "SignatureResult":
    from radii.certification.signing import verify_signature

    if not options.signed:
        raise ValueError("--key is for the signature of a run. Add --signed.")
    if options.key is None:
        raise ValueError("--signed needs the public key of the signer. Name it with --key.")
    return verify_signature(Run(run, options.trust or ()), options.key)


def _verify_evidence(folder: Path, options: Options) -> "EvidenceResult":
    from radii.serving.audit import verify_evidence

    trusted = options.trust or ()
    with printed_warnings(), CountingBar(console) as bar:
        return verify_evidence(
            folder,
            None if options.run is None else Run(options.run, trusted),
            pictures=options.pictures,
            rows=options.replayed,
            trusted=trusted,
            on_answer=bar if options.json else announce_rest(bar, FEWER),
        )


def _verify_rows(certificates: Path, options: Options) -> "VerificationResult":
    from radii.certification.verify import verify_run

    if options.pictures is not None:
        raise ValueError(f"--pictures is for evidence, and {certificates} holds none. Leave it out.")
    file = None if certificates.is_dir() else certificates
    folder = options.run or (certificates if file is None else _run_of(file))
    with printed_warnings(), CountingBar(console) as bar:
        return verify_run(
            Run(folder, options.trust or ()),
            file,
            rows=options.replayed,
            engine=options.engine,
            batch_size=options.batch_size,
            data=options.data,
            workers=options.workers,
            on_row=bar,
            on_estimate=None if options.json else announce(bar, FEWER),
        )


def _run_of(file: Path) -> Path:
    if not file.name.endswith(".tsv"):
        raise ValueError(f"{file} is not a certificate file. Name a run, or a .tsv file that `radii certify` wrote.")
    folder = file.resolve().parent.parent
    if not Run(folder).recipe_file.is_file():
        raise ValueError(f"{file} is not in a run. Name the run that it belongs to with --run.")
    return folder
