"""Decode pictures in processes of their own: a picture that kills its decoder costs one answer, not the server.

A decoder reads requests from stdin and writes prepared pixels to stdout. It ends when stdin ends, so none outlives its
server.
"""

import asyncio
import json
import os
import signal
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

MOST_BYTES = 16 << 20
"""Bytes of a request."""
MOST_PIXELS = 1 << 25
"""Pixels of a picture before it is prepared."""
MOST_MEMORY = 2 << 30
"""Bytes that decoding may take besides what the decoder has at its start."""
SECONDS = 10.0
"""Seconds that decoding may take."""
START_SECONDS = 120.0
"""Seconds until a new decoder must be ready."""
PROCESSES = 2
"""Decoder processes of a server."""
_LENGTHS = struct.Struct("<IQ")
_REPLY = struct.Struct("<?Q")


class PictureError(ValueError):
    """A picture that cannot be used; the message says why."""


class Decoders:
    """Several decoder processes. One that fails is replaced; pictures do not wait for it while others are ready."""

    def __init__(self) -> None:
        self.all = [Decoder() for _ in range(PROCESSES)]
        self.waiting = 0
        """Pictures that are being decoded, or wait for a decoder."""
        self._idle: asyncio.Queue[Decoder] = asyncio.Queue()
        self._starting: set[asyncio.Future[None]] = set()
        for decoder in self.all:
            decoder.start()
            self._release(decoder)

    async def prepare(
        self, content: bytes, dataset: tuple[str, Mapping[str, Any]], shape: tuple[int, int, int]
    ) -> bytes:
        """Return the float32 pixels of a picture, prepared as the test images of a dataset were."""
        spec = json.dumps({"name": dataset[0], "fields": dict(dataset[1]), "shape": shape}).encode()
        self.waiting += 1
        try:
            decoder = await self._idle.get()
            task = asyncio.ensure_future(asyncio.to_thread(decoder.prepare, spec, content))
            # A client that leaves does not make the decoder free.
            task.add_done_callback(lambda _: self._release(decoder))
            return await asyncio.shield(task)
        finally:
            self.waiting -= 1

    def _release(self, decoder: "Decoder") -> None:
        """Give a decoder the next picture, once it is ready."""
        if decoder.ready:
            self._idle.put_nowait(decoder)
            return
        start = asyncio.ensure_future(asyncio.to_thread(decoder.wait))
        self._starting.add(start)
        start.add_done_callback(self._starting.discard)
        start.add_done_callback(lambda _: self._idle.put_nowait(decoder))  # one that cannot start refuses its picture

    def close(self) -> None:
        for decoder in self.all:
            decoder.kill()


class Decoder:
    """A decoder process. Its methods block, so they are called in threads."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[bytes] | None = None
        self.ready = False

    def start(self) -> None:
        """Start a process, without waiting until it is ready."""
        self.ready = False
        self.process = subprocess.Popen(
            [sys.executable, "-c", "from radii.serving.decoder import main; main()", json.dumps(sys.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for the server
            env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONSAFEPATH": "1"},
        )

    def wait(self) -> None:
        """Wait until the process is ready, or has ended."""
        process = self.process
        if process is None or process.stdout is None:
            return
        timer = threading.Timer(START_SECONDS, process.kill)
        timer.start()
        try:
            self.ready = process.stdout.read(1) == b"."
        except (OSError, ValueError):  # it was closed
            self.ready = False
        finally:
            timer.cancel()

    def prepare(self, spec: bytes, content: bytes) -> bytes:
        """Return the pixels of a picture; raise a PictureError if it cannot be decoded."""
        if self.process is None or self.process.poll() is not None:
            self.kill()
            self.start()
        if not self.ready:
            self.wait()
        process = self.process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        late = threading.Event()
        timer = threading.Timer(SECONDS, _stop, (process, late))
        timer.start()
        try:
            process.stdin.write(_LENGTHS.pack(len(spec), len(content)) + spec + content)
            process.stdin.flush()
            good, length = _REPLY.unpack(_exactly(process.stdout, _REPLY.size))
            reply = _exactly(process.stdout, length)
        except (OSError, EOFError) as error:
            self.kill()
            self.start()
            reason = "took too long to decode" if late.is_set() else "ended its decoder"
            raise PictureError(f"The picture {reason}. Send it as PNG or JPEG.") from error
        finally:
            timer.cancel()
        if not good:
            raise PictureError(reply.decode())
        return reply

    def kill(self) -> None:
        process, self.process = self.process, None
        if process is not None:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    with suppress(OSError):  # what could not be sent
                        pipe.close()


def _stop(process: "subprocess.Popen[bytes]", late: threading.Event) -> None:
    late.set()
    process.kill()


def _exactly(stream: IO[bytes], length: int) -> bytes:
    content = stream.read(length)
    if len(content) < length:
        raise EOFError
    return content


# In the decoder process


def main() -> None:
    """Prepare pictures until stdin ends."""
    sys.path[:] = json.loads(sys.argv[1])
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    requests, replies = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    sys.stdout = sys.stderr  # nothing but replies
    import radii.datasets  # noqa: F401  takes seconds: before the first picture

    _limit_memory()
    replies.write(b".")
    replies.flush()
    with tempfile.TemporaryDirectory(prefix="radii-") as folder:
        while request := _read_request(requests):
            good, reply = _prepared(*request, Path(folder) / "picture")
            replies.write(_REPLY.pack(good, len(reply)) + reply)
            replies.flush()


def _read_request(stream: IO[bytes]) -> tuple[bytes, bytes] | None:
    head = stream.read(_LENGTHS.size)
    if len(head) < _LENGTHS.size:
        return None
    spec, content = _LENGTHS.unpack(head)
    return stream.read(spec), stream.read(content)


def _prepared(spec: bytes, content: bytes, file: Path) -> tuple[bool, bytes]:
    """Prepare a picture; return True and its pixels, or False and what is wrong."""
    from PIL import Image, UnidentifiedImageError

    from radii import datasets

    try:
        stated = json.loads(spec)
        file.write_bytes(content)
        Image.MAX_IMAGE_PIXELS = None  # the limit below replaces Pillow's
        with Image.open(file) as image:
            width, height = image.size
        if width * height > MOST_PIXELS:
            raise ValueError(f"the picture is {width} x {height} pixels, {MOST_PIXELS:,} at most are read")
        read = datasets.preparation(stated["name"], stated["fields"], tuple(stated["shape"])).read
        pixels = read(file).float().contiguous()
        return True, pixels.numpy().tobytes()
    except Exception as error:  # decoders raise errors of many kinds
        if isinstance(error, UnidentifiedImageError):
            return False, b"The body is not a picture that can be read. Send a PNG or JPEG file."
        reason = " ".join(str(error).replace(str(file), "the picture").split()) or type(error).__name__
        return False, (reason[:1].upper() + reason[1:]).encode()


def _limit_memory() -> None:
    """Limit the memory of this process, if the system reports how much it has."""
    import resource

    statistics = Path("/proc/self/statm")
    if statistics.is_file():
        present = int(statistics.read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (present + MOST_MEMORY, present + MOST_MEMORY))
