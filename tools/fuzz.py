"""Give damaged files to a reader: it must read each one or refuse it with an error of one sentence."""

import math
import random
import re
import resource
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

SECONDS = 10.0
"""The limit of one reading."""
MEGABYTES = 512
"""The limit of the memory that a reader may add to the process."""
LONGEST = 2000
"""The limit of an error message, in characters."""
NUMBERS = (b"0", b"-1", b"1e8", b"1e308", b"nan", b"-inf", b"9223372036854775808", b"7" * 400, b"1" * 5000, b"0.5", b"")
TOKENS = (
    b"[" * 3000,
    b"{" * 3000,
    b'{"a":' * 3000,
    b"\0",
    b"\n",
    b"\t",
    b'"',
    b",",
    b"[]",
    b"{}",
    b"null",
    b"[/x]",
    b"\xff",
)
WORDS = (b"\0" * 8, b"\xff" * 8, b"\xff\xff\xff\x7f", b"\0\0\0\x80", b"\xff" * 7 + b"\x7f")


class Hang(BaseException):
    """A reading that took too long; no reader may catch it."""


@dataclass(frozen=True)
class Reader:
    """A reader with a file that it reads."""

    make: Callable[[Path], Path]
    """Write a whole file, and all that it needs beside it, to an empty folder."""
    read: Callable[[Path], object]
    unpack: Callable[[bytes], bytes] = bytes
    pack: Callable[[bytes], bytes] = bytes
    """Unpack the content to damage it, and pack it again: the checksum of a packed file would notice any other
    damage."""
    around: Callable[[], AbstractContextManager[object]] = nullcontext
    """A context for all readings."""


def damaged(content: bytes, rng: random.Random) -> bytes:
    """Damage the content in one to three places."""
    for _ in range(rng.choice((1, 1, 2, 3))):
        content = rng.choice(DAMAGES)(content, rng)
    return content


def _flip(content: bytes, rng: random.Random) -> bytes:
    changed = bytearray(content)
    for _ in range(rng.randint(1, 8)):
        if changed:
            changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _cut(content: bytes, rng: random.Random) -> bytes:
    return content[: rng.randint(0, len(content))]


def _remove(content: bytes, rng: random.Random) -> bytes:
    at = rng.randint(0, len(content))
    return content[:at] + content[at + rng.randint(1, 64) :]


def _insert(content: bytes, rng: random.Random) -> bytes:
    at = rng.randint(0, len(content))
    what = rng.choice((rng.choice(TOKENS), rng.randbytes(rng.randint(1, 64)), content[at : at + rng.randint(1, 200)]))
    return content[:at] + what + content[at:]


def _number(content: bytes, rng: random.Random) -> bytes:
    """Replace a number that is written in digits."""
    found = list(re.finditer(rb"-?\d[\d.]*(?:e-?\d+)?", content[: 1 << 16]))
    if not found:
        return _word(content, rng)
    chosen = rng.choice(found)
    return content[: chosen.start()] + rng.choice(NUMBERS) + content[chosen.end() :]


def _word(content: bytes, rng: random.Random) -> bytes:
    """Replace some bytes by an extreme number, most often near the beginning, where sizes are stated."""
    at, word = rng.randrange(max(1, min(len(content), rng.choice((16, 64, 512, 1 << 20))))), rng.choice(WORDS)
    return content[:at] + word + content[at + len(word) :]


DAMAGES = (_flip, _cut, _remove, _insert, _number, _word)


def outcome(reader: Reader, path: Path, folder: Path) -> str:
    """Read a file and return `read`, `refused`, or what went wrong, beginning with an exclamation mark."""
    began = time.perf_counter()
    try:
        with _deadline():
            reader.read(path)
    except (ValueError, OSError) as error:
        message = str(error)
        if str(folder) not in message:
            return f"! names no file: {type(error).__name__}: {message[:300]}"
        if "\n" in message.strip() or len(message) > LONGEST:
            return f"! is no sentence: {type(error).__name__}: {message[:300]!r}"
        return "refused"
    except Hang:
        return f"! took more than {SECONDS:g} s"
    except Exception as error:
        return f"! {type(error).__name__}: {str(error)[:300]}"
    return "read" if time.perf_counter() - began < SECONDS else f"! took more than {SECONDS:g} s"


def fuzz(reader: Reader, folder: Path, count: int, seed: int = 0, seconds: float = math.inf) -> Counter[str]:
    """Return how often damaged files were read, refused or failed; stop after `count` files or `seconds`."""
    path = reader.make(folder)
    before, began = _peak(), time.monotonic()
    with reader.around():
        if (sound := outcome(reader, path, folder)) != "read":
            return Counter([f"! the whole file: {sound}"])
        found: Counter[str] = Counter()
        for result in _outcomes(reader, path, folder, count, seed):
            found[result] += 1
            if time.monotonic() - began > seconds:
                break
    if (grown := _peak() - before) > MEGABYTES:
        found[f"! took {grown} MB of memory"] += 1
    return found


def _outcomes(reader: Reader, path: Path, folder: Path, count: int, seed: int) -> Iterator[str]:
    """Yield the outcome of every damaged file; a failure comes with the file's number."""
    whole = reader.unpack(path.read_bytes())
    for number in range(count):
        path.write_bytes(reader.pack(damaged(whole, random.Random(f"{seed} {number}"))))
        result = outcome(reader, path, folder)
        yield result if result[0] != "!" else f"{result} (seed {seed}, number {number})"


def complaints(found: Counter[str]) -> list[str]:
    """Return the failures among the outcomes."""
    return [result for result in found if result[0] == "!"]


@contextmanager
def _deadline() -> Iterator[None]:
    def end(_: int, __: FrameType | None) -> None:
        raise Hang

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _peak() -> int:
    """Return the most memory that this process has had, in megabytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
