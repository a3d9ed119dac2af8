"""Signatures of runs: what was signed is confirmed, and whatever was changed is named."""

import base64
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed25519, rsa

from radii import disk
from radii.certification.certify import CertificationConfig, certify_run
from radii.certification.signing import SIGNATURE, KeyFileError, new_key, sign, verify_signature
from radii.certifiers.fixed import Fixed
from radii.runs.run import Run
from tests.cli.running import radii

PEM, PKCS8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
PLAIN = serialization.NoEncryption()


@pytest.fixture(scope="module")
def signed(trained_digits: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certified run that is signed by key.pem beside it."""
    folder = tmp_path_factory.mktemp("signed")
    run = Run(shutil.copytree(trained_digits, folder / "run"))
    certify_run(
        CertificationConfig(run=run.path, certifier=Fixed(estimation=100), max_images=4, engine="torch"), workers=1
    )
    new_key(folder / "key.pem")
    sign(run, folder / "key.pem")
    return folder


@pytest.fixture
def copied(signed: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(signed, tmp_path / "copied"))


def test_signed_run_is_confirmed(signed: Path) -> None:
    result = verify_signature(signed / "run", signed / "key.pub")
    assert (result.exit_code, result.differences) == (0, ())
    assert result.files >= 5
    assert "signed: " in result.in_words()
    assert (signed / "key.pem").stat().st_mode & 0o077 == 0


def test_envelope_is_checked_by_others(signed: Path) -> None:
    """By the definition of DSSE and in-toto, without the library that made it."""
    envelope = json.loads((signed / "run" / SIGNATURE).read_text())
    payload, kind = base64.b64decode(envelope["payload"]), envelope["payloadType"]
    public = serialization.load_pem_public_key((signed / "key.pub").read_bytes())
    assert isinstance(public, ed25519.Ed25519PublicKey)
    encoded = b"DSSEv1 %d %b %d %b" % (len(kind), kind.encode(), len(payload), payload)
    public.verify(base64.b64decode(envelope["signatures"][0]["sig"]), encoded)
    statement = json.loads(payload)
    assert kind == "application/vnd.in-toto+json"
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    assert "model.safetensors" in {subject["name"] for subject in statement["subject"]}
    (card,) = statement["predicate"]["certified"]
    assert card["images"] == 4


def certificates(run: Path) -> Path:
    return next((run / "certificates").glob("*.tsv"))


def edit_radius(run: Path) -> None:
    lines = certificates(run).read_text().splitlines(keepends=True)
    cells = lines[1].split("\t")
    cells[3] = repr(float(cells[3]) + 0.01)
    certificates(run).write_text("".join([lines[0], "\t".join(cells), *lines[2:]]))


def edit_weights(run: Path) -> None:
    content = bytearray((run / "model.safetensors").read_bytes())
    content[-1] ^= 1
    (run / "model.safetensors").write_bytes(bytes(content))


def edit_statement(run: Path) -> None:
    envelope = json.loads((run / SIGNATURE).read_text())
    statement = json.loads(base64.b64decode(envelope["payload"]))
    statement["predicate"]["certified"][0]["certified_accuracy"]["0"] = 1.0
    envelope["payload"] = base64.b64encode(json.dumps(statement).encode()).decode()
    (run / SIGNATURE).write_text(json.dumps(envelope))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (edit_radius, ".tsv was changed"),
        (edit_weights, "model.safetensors was changed"),
        (edit_statement, "was not signed by this key"),
        (lambda run: certificates(run).unlink(), ".tsv is missing"),
        (lambda run: (run / "certificates" / "other.tsv").write_text("idx\n"), "other.tsv was not signed"),
        (lambda run: disk.append(run / "recipe.toml", b"\n"), "recipe.toml was changed"),
        (lambda run: (run / SIGNATURE).write_text("{}"), "is damaged"),
        (lambda run: (run / SIGNATURE).write_text('{"payload": 1, "payloadType": 2, "signatures": [3]}'), "is damaged"),
    ],
)
def test_every_change_is_named(copied: Path, change: Callable[[Path], object], words: str) -> None:
    change(copied / "run")
    result = verify_signature(copied / "run", copied / "key.pub")
    assert result.exit_code == 1
    assert any(words in difference for difference in result.differences), result.differences


def test_other_keys_do_not_confirm(signed: Path, tmp_path: Path) -> None:
    public = new_key(tmp_path / "other.pem")
    assert "was not signed by this key" in verify_signature(signed / "run", public).in_words()


@pytest.mark.parametrize("password", [None, b"secret"])
def test_keys_of_openssl_work(copied: Path, password: bytes | None) -> None:
    keys = (ec.generate_private_key(ec.SECP256R1()), rsa.generate_private_key(65_537, 2_048))
    for key in keys:
        lock = PLAIN if password is None else serialization.BestAvailableEncryption(password)
        (copied / "mine.pem").write_bytes(key.private_bytes(PEM, PKCS8, lock))
        public = key.public_key().public_bytes(PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
        (copied / "mine.pub").write_bytes(public)
        sign(copied / "run", copied / "mine.pem", password=password)
        assert verify_signature(copied / "run", copied / "mine.pub").exit_code == 0
        if password is not None:
            for wrong in (None, b"wrong"):
                with pytest.raises(KeyFileError):
                    sign(copied / "run", copied / "mine.pem", password=wrong)


def test_wrong_keys_are_refused_in_words(copied: Path) -> None:
    run, file = copied / "run", copied / "wrong.pem"
    with pytest.raises(KeyFileError, match="There is no key"):
        sign(run, file)
    file.write_text("no key")
    with pytest.raises(KeyFileError, match="not a private key"):
        sign(run, file)
    with pytest.raises(KeyFileError, match="not a public key"):
        verify_signature(run, copied / "key.pem")
    file.write_bytes(rsa.generate_private_key(65_537, 1_024).private_bytes(PEM, PKCS8, PLAIN))
    with pytest.raises(KeyFileError, match="1024 bits"):
        sign(run, file)
    file.write_bytes(dsa.generate_private_key(1_024).private_bytes(PEM, PKCS8, PLAIN))
    with pytest.raises(KeyFileError, match="Use an Ed25519"):
        sign(run, file)
    with pytest.raises(KeyFileError, match="never replaced"):
        new_key(copied / "key.pem")


def test_command_line_signs_and_checks(digits_run: Callable[..., Run], tmp_path: Path) -> None:
    digits_run("run")
    made = radii("sign", "run", "--key", "k.pem", "--new-key", cwd=tmp_path)
    assert (made.code, "k.pub" in made.out) == (0, True)
    good = radii("verify", "run", "--signed", "--key", "k.pub", cwd=tmp_path)
    assert (good.code, "run: signed: " in good.out) == (0, True)
    edit_weights(tmp_path / "run")
    bad = radii("verify", "run", "--signed", "--key", "k.pub", "--json", cwd=tmp_path)
    assert (bad.code, json.loads(bad.out)["exit_code"]) == (1, 1)
    assert "Name it with --key" in radii("verify", "run", "--signed", cwd=tmp_path).error
    (tmp_path / "run" / SIGNATURE).unlink()
    unsigned = radii("verify", "run", "--signed", "--key", "k.pub", cwd=tmp_path)
    assert (unsigned.code, "is not signed" in unsigned.error) == (2, True)
