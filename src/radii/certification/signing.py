"""Sign a run: weights, recipe, certificates and card as an in-toto statement in a DSSE envelope, by a key of the user.

Needs the extra radii[sign]. Nothing is sent anywhere. Whoever has the public key can check the signature, also with
other tools that read such envelopes.
"""

import importlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

from radii import disk
from radii.errors import MissingExtraError, ParameterError
from radii.provenance import artefact_path
from radii.reports.model_card import certified
from radii.runs import readers
from radii.runs.run import Run, RunError

SIGNATURE = "signature.json"
STATEMENT = "https://in-toto.io/Statement/v1"
PAYLOAD = "application/vnd.in-toto+json"
PREDICATE = "https://github.com/radii/radii/attestations/certification/v1"
FILES = (
    *("recipe.toml", "model.safetensors", "environment.json", "data.json", "check.json", "origin.json"),
    *("training.csv", "transfer.json"),
)
"""The files of a run that are signed, besides certificates and what an engine compiled. engine.json is not: whoever
uses a run records there which of the certified engines is fastest on this machine."""
FOLDERS = ("certificates", "population", "attacks")
FEWEST_BITS = 2_048
"""Bits of an RSA key."""


class KeyFileError(ParameterError):
    """A key that cannot be used; the message says why."""


@dataclass(frozen=True)
class SignatureResult:
    """The outcome of a check of a signature."""

    differences: tuple[str, ...]
    files: int = 0
    time: str = ""
    """When the signer's clock says that it was signed."""
    key: str = ""
    """The id of the key: a digest of the public key."""

    @property
    def exit_code(self) -> int:
        """0 if everything is as it was signed, 1 if something differs."""
        return 1 if self.differences else 0

    def in_words(self) -> str:
        """Describe the outcome in one line."""
        if self.differences:
            more = len(self.differences) - 1
            return f"differs: {self.differences[0]}" + (f"; and {more} more" if more else "")
        return f"signed: {self.files} files, by the key {self.key[:16]} on {self.time}"


def sign(run: Run | Path | str, key: Path | str, *, password: bytes | None = None) -> Path:
    """Sign a trained run with a private key, a PEM file; return the signature, a file in the run.

    >>> import radii, tempfile
    >>> from radii.certification.signing import new_key, sign, verify_signature
    >>> folder = tempfile.mkdtemp()
    >>> run = radii.train("digits/gaussian-0.25", run=f"{folder}/g", settings=["training.epochs=1"])
    >>> public = new_key(f"{folder}/key.pem")
    >>> sign(run, f"{folder}/key.pem").name
    'signature.json'
    >>> verify_signature(run, public).exit_code
    0
    """
    run = run if isinstance(run, Run) else Run(run)
    run.weights()
    library = _library()
    private = _private_key(Path(key), password)
    envelope = library.dsse.Envelope(json.dumps(statement(run), sort_keys=True).encode(), PAYLOAD, {})
    envelope.sign(library.signer.CryptoSigner(private, library.signer.SSlibKey.from_crypto(private.public_key())))
    file = run.path / SIGNATURE
    disk.write_json(file, envelope.to_dict())
    return file


def statement(run: Run) -> dict[str, Any]:
    """Return what is signed: the digests of the run's files, and what its certificates claim."""
    return {
        "_type": STATEMENT,
        "subject": [{"name": name, "digest": {"sha256": digest}} for name, digest in _digests(run)],
        "predicateType": PREDICATE,
        "predicate": {
            "run": run.name,
            "weights": run.weights_digest(),
            "certified": _claims(run),
            "time": datetime.now(UTC).isoformat(timespec="seconds"),
            "radii": metadata.version("radii"),
        },
    }


def _claims(run: Run) -> Any:
    """Return the card as JSON would give it back."""
    return json.loads(json.dumps(certified(run)))


def _digests(run: Run) -> Iterator[tuple[str, str]]:
    """Yield the path in the run and the SHA-256 of every file that is signed."""
    for path in sorted(_signed_files(run)):
        yield path.relative_to(run.path).as_posix(), disk.digest(path)


def _signed_files(run: Run) -> Iterator[Path]:
    yield from (path for name in FILES if (path := run.path / name).is_file())
    for folder in FOLDERS:
        yield from (path for path in (run.path / folder).glob("*") if path.is_file() and path.name[0] != ".")
    marker = artefact_path(run, "", run.weights_digest()).name  # the files of engines end with the weights' digest
    yield from (path for path in run.path.glob(f"*{marker}.*") if path.is_file())


def verify_signature(run: Run | Path | str, key: Path | str) -> SignatureResult:
    """Check that a run is as the owner of this public key, a PEM file, signed it."""
    run = run if isinstance(run, Run) else Run(run)
    library, file = _library(), run.path / SIGNATURE
    public = library.signer.SSlibKey.from_crypto(_public_key(Path(key)))
    if not file.is_file():
        raise RunError(f"{run.path} is not signed: it has no {SIGNATURE}. Sign it with `radii sign`.")
    try:
        envelope = library.dsse.Envelope.from_dict(readers.json_object(file))
        envelope.verify([public], 1)
    except library.exceptions.VerificationError:
        return SignatureResult((f"{file} was not signed by this key",))
    except (ValueError, LookupError, TypeError, AttributeError, library.exceptions.Error):
        return SignatureResult((f"{file} is damaged",))
    if envelope.payload_type != PAYLOAD:
        return SignatureResult((f"{file} signs something else than a run",))
    stated = json.loads(envelope.payload)
    if stated.get("_type") != STATEMENT or stated.get("predicateType") != PREDICATE:
        return SignatureResult((f"{file} signs something else than a run",))
    differences = list(_differences(run, stated))
    predicate = stated["predicate"]
    return SignatureResult(tuple(differences), len(stated["subject"]), predicate["time"], public.keyid)


def _differences(run: Run, stated: dict[str, Any]) -> Iterator[str]:
    signed = {subject["name"]: subject["digest"]["sha256"] for subject in stated["subject"]}
    digests = dict(_digests(run))
    yield from (f"{run.path / name} was changed" for name in signed if digests.get(name, signed[name]) != signed[name])
    yield from (f"{run.path / name} is missing" for name in signed if name not in digests)
    yield from (f"{run.path / name} was not signed" for name in digests if name not in signed)
    if signed == digests and _claims(run) != stated["predicate"]["certified"]:
        yield f"the certificates of {run.path} give other numbers than were signed: another version of radii reads them"


# Keys


def new_key(path: Path | str) -> Path:
    """Write a new Ed25519 key, readable by its owner alone, and its public key beside it; return that."""
    serialization, ed25519 = _cryptography("serialization"), _cryptography("asymmetric.ed25519")
    file = Path(path)
    public = file.with_suffix(".pub")
    for existing in (file, public):
        if existing.exists():
            raise KeyFileError(f"{existing} exists. A key is never replaced: name another file.", "key")
    key = ed25519.Ed25519PrivateKey.generate()
    pem = serialization.Encoding.PEM
    content = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    disk.write(file, content, private=True)
    disk.write(public, key.public_key().public_bytes(pem, serialization.PublicFormat.SubjectPublicKeyInfo))
    return public


def needs_password(key: Path) -> bool:
    """Return whether a private key is encrypted."""
    return b"ENCRYPTED" in _content(key)


def _private_key(file: Path, password: bytes | None) -> Any:
    serialization, content = _cryptography("serialization"), _content(file)
    try:
        key = serialization.load_pem_private_key(content, password)
    except TypeError as error:
        raise KeyFileError(f"{file} is encrypted, or a password was given for a key without one.", "key") from error
    except Exception as error:  # the library raises errors of many kinds
        raise KeyFileError(f"{file} is not a private key in PEM format, or the password is wrong.", "key") from error
    return _checked(file, key)


def _public_key(file: Path) -> Any:
    serialization, content = _cryptography("serialization"), _content(file)
    try:
        key = serialization.load_pem_public_key(content)
    except Exception as error:
        raise KeyFileError(f"{file} is not a public key in PEM format.", "key") from error
    return _checked(file, key)


def _checked(file: Path, key: Any) -> Any:
    """Refuse keys that the envelope has no scheme for, and short ones."""
    kind = type(key).__name__.removeprefix("_")
    if not kind.startswith(("Ed25519", "RSA", "ECPrivate", "ECPublic", "EllipticCurve")):
        raise KeyFileError(f"{file} is a {kind}. Use an Ed25519, ECDSA or RSA key.", "key")
    if kind.startswith("RSA") and key.key_size < FEWEST_BITS:
        raise KeyFileError(f"{file} is an RSA key of {key.key_size} bits. Use one of {FEWEST_BITS} or more.", "key")
    return key


def _content(file: Path) -> bytes:
    if not file.is_file():
        raise KeyFileError(f"There is no key {file}. Name a PEM file.", "key")
    return file.read_bytes()


class _Library(NamedTuple):
    """The modules of securesystemslib."""

    dsse: Any
    exceptions: Any
    signer: Any


def _library() -> _Library:
    names = ("securesystemslib.dsse", "securesystemslib.exceptions", "securesystemslib.signer")
    return _Library(*map(_module, names))


def _cryptography(name: str) -> Any:
    return _module(f"cryptography.hazmat.primitives.{name}")


def _module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise MissingExtraError(f"Signing needs {name.partition('.')[0]}, which is not installed.", "sign") from error
