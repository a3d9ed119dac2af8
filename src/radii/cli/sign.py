"""radii sign: sign the certificates, weights and card of a run."""

import getpass
from pathlib import Path

from radii.cli.app import hint, say
from radii.cli.arguments import Switch, Trust, command
from radii.runs.run import Run


def sign(run: Path, /, *, key: Path, new_key: Switch = False, trust: Trust = None) -> None:
    """Sign a run: the digests of its weights, recipe and certificates, and what they claim, as an in-toto statement.

    Nothing is sent anywhere. `radii verify RUN --signed` checks the signature with the public key.

    Args:
        run: A trained run directory.
        key: Your private key, a PEM file: Ed25519, ECDSA or RSA.
        new_key: Make a new Ed25519 key first, in this file, and its public key beside it, ending in .pub.
    """
    from radii.certification import signing

    opened = Run(run, trust or ())
    opened.weights()
    if new_key:
        public = signing.new_key(key)
        say(f"{key}: your new key; keep it secret. Others check with {public}")
    password = None
    if not new_key and key.is_file() and signing.needs_password(key):
        password = getpass.getpass(f"Password of {key}: ").encode()
    signature = signing.sign(opened, key, password=password)
    say(str(signature))
    if not any(opened.certificates.glob("*.tsv")):
        hint(f"it has no certificates yet; next: {command('certify', run, trust=trust)}, and sign again")
