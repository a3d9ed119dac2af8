"""Divide the failure probability of a picture and weights among all requests about them."""

import hashlib
import sqlite3
from pathlib import Path

KEY_BYTES = 16
"""Bytes of the digest by which a picture and weights are remembered."""


def share_of(asked: int) -> float:
    """Return the share of the failure probability that the answer number `asked` (1, 2, ...) may spend.

    The answers from 2**n to 2**(n + 1) - 1 have 2**-(2 n + 1) each, together 2**-(n + 1), and all answers together 1.
    The share falls in steps, because each share needs a test of its own.
    """
    if asked < 1:
        raise ValueError(f"asked = {asked}, expected a whole number >= 1")
    return 2.0 ** -(2 * asked.bit_length() - 1)


class AskedIndex:
    """Counts how often each picture was asked about, with which weights; in a file, or in memory without one.

    The evidence is the truth. The file saves reading all of it, and records how much of it is counted.
    """

    def __init__(self, file: Path | None = None, *, read_only: bool = False) -> None:
        # Without a file SQLite keeps large tables in a temporary one, so memory does not grow with the answers.
        name = "" if file is None else f"{file.resolve().as_uri()}?mode={'ro' if read_only else 'rwc'}"
        self._database = sqlite3.connect(name, check_same_thread=False, isolation_level=None, uri=True)
        try:
            if not read_only:
                self._database.executescript(
                    "PRAGMA synchronous = OFF;"
                    "CREATE TABLE IF NOT EXISTS asked"
                    " (key BLOB PRIMARY KEY, times INTEGER NOT NULL, failure REAL NOT NULL) WITHOUT ROWID;"
                    "CREATE TABLE IF NOT EXISTS counted (bytes INTEGER, lines INTEGER, head TEXT);"
                )
            self.counted()
        except sqlite3.Error:
            self._database.close()
            raise
        self._database.execute("BEGIN")

    def ask(self, picture: str, weights: str, failure: float = 0.0) -> int:
        """Count one more question about a picture, and return its number, from 1 on.

        `failure` is the probability that is divided among all questions.
        """
        row = self._database.execute(
            "INSERT INTO asked VALUES (?, 1, ?) ON CONFLICT (key) DO UPDATE"
            " SET times = times + 1, failure = max(failure, excluded.failure) RETURNING times",
            (_key(picture, weights), failure),
        ).fetchone()
        return int(row[0])

    def failure_over_life(self, picture: str, weights: str) -> float:
        """Return the probability that any answer about a picture is wrong: the largest that was ever divided."""
        row = self._database.execute("SELECT failure FROM asked WHERE key = ?", (_key(picture, weights),)).fetchone()
        return float(row[0]) if row else 0.0

    def times(self, picture: str, weights: str) -> int:
        """Return how often a picture was asked about."""
        row = self._database.execute("SELECT times FROM asked WHERE key = ?", (_key(picture, weights),)).fetchone()
        return int(row[0]) if row else 0

    def counted(self) -> tuple[int, int, str] | None:
        """Return how many bytes and lines of the evidence are counted, and the digest of the last of them."""
        row = self._database.execute("SELECT bytes, lines, head FROM counted").fetchone()
        return (int(row[0]), int(row[1]), str(row[2])) if row else None

    def keep(self, size: int = 0, lines: int = 0, head: str = "") -> None:
        """Keep the questions that were counted since the last call, up to this place of the evidence."""
        self._database.execute("DELETE FROM counted")
        self._database.execute("INSERT INTO counted VALUES (?, ?, ?)", (size, lines, head))
        self._database.execute("COMMIT")
        self._database.execute("BEGIN")

    def forget(self) -> None:
        """Forget the questions that were counted since the last `keep`."""
        if self._database.in_transaction:  # some errors end it
            self._database.execute("ROLLBACK")
        self._database.execute("BEGIN")

    def close(self) -> None:
        """Close the database; questions that were counted since the last `keep` are forgotten."""
        self._database.close()


def _key(picture: str, weights: str) -> bytes:
    return hashlib.sha256(f"{picture} {weights}".encode()).digest()[:KEY_BYTES]
