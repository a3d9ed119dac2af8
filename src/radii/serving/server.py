"""Run a service as a server: its options, its socket, signals, logs, and another model without a pause."""

import asyncio
import json
import logging
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from radii import disk
from radii.errors import ParameterError
from radii.serving.evidence import EvidenceLog
from radii.serving.guard import AllowedHosts
from radii.serving.model import ModelConfig, load_model
from radii.serving.routes import Api
from radii.serving.service import Service

LOG = logging.getLogger("radii.serving")
HEAD_SECONDS = 20.0
"""Seconds in which a client must send the head of its request."""
STOP_SECONDS = 60
"""Seconds that requests in flight have when the server stops."""
IDLE_CONNECTIONS = 1_024
"""Connections besides those in the queue."""
BACKLOG = 2_048
"""Connections that wait to be accepted."""
FEWEST_CHARACTERS = 16
"""Characters of a token."""


@dataclass(frozen=True, kw_only=True)
class ServerConfig:
    """The options of a server."""

    model: ModelConfig
    host: str = "127.0.0.1"
    port: int = 8000
    deadline: float | None = None
    """Seconds until an answer, whatever is proven by then."""
    queue: int = 256
    """Pictures in flight, at most."""
    workers: int | None = None
    """Threads that run forward passes; by default one per core."""
    evidence: Path | None = None
    keep_pictures: bool = False
    token_file: Path | None = None
    host_names: tuple[str, ...] = ()
    """Names by which clients call the server, such as the name of a proxy."""

    @property
    def hosts(self) -> AllowedHosts:
        """The hosts that requests may name."""
        return AllowedHosts(self.host, self.host_names)

    def __post_init__(self) -> None:
        for name, value, least in (("queue", self.queue, 1), ("workers", self.workers, 1), ("port", self.port, 0)):
            if value is not None and value < least:
                raise ParameterError(f"{name} = {value}, expected a whole number >= {least}", name)
        AllowedHosts(self.host, self.host_names)  # raises for a wrong name
        if self.port > 65_535:
            raise ParameterError(f"port = {self.port}, expected at most 65535", "port")
        if self.deadline is not None and not 0 < self.deadline < 3_600:
            raise ParameterError(
                f"deadline = {self.deadline:g} s, expected more than 0 and less than an hour", "deadline"
            )
        if self.keep_pictures and self.evidence is None:
            raise ParameterError("Pictures are kept in the evidence. Name a folder for it.", "evidence")


def serve(config: ServerConfig, on_ready: Callable[[str, Service], None]) -> None:
    """Serve a run until SIGTERM or Ctrl-C; SIGHUP loads it again. `on_ready` is called with the address."""
    tokens = read_tokens(config.token_file)
    with ExitStack() as stack:
        listening = stack.enter_context(_bound(config.host, config.port))
        evidence = None
        if config.evidence is not None:
            disk.make_folder(config.evidence)
            stack.enter_context(disk.locked(config.evidence))
            evidence = EvidenceLog(config.evidence)
            stack.callback(evidence.close)
        service = Service(
            load_model(config.model),
            evidence=evidence,
            keep_pictures=config.keep_pictures,
            queue_limit=config.queue,
            deadline=config.deadline,
            workers=config.workers,
        )
        stack.callback(service.close)
        stack.enter_context(_logging())
        if evidence is not None and evidence.repaired:
            LOG.warning("repaired", extra={"details": {"bytes_cut_from_the_evidence": evidence.repaired}})
        api = Api(service, tokens, config.hosts)
        listening.listen(BACKLOG)  # clients may connect as soon as `on_ready` says so
        host, port = listening.getsockname()[:2]
        on_ready(f"http://{f'[{host}]' if ':' in host else host}:{port}", service)
        asyncio.run(_run(config, api, listening))


def read_tokens(file: Path | None) -> frozenset[str]:
    """Read the tokens of a file, one a line."""
    if file is None:
        return frozenset()
    try:
        lines = [line.strip() for line in file.read_text(encoding="utf-8").splitlines()]
    except UnicodeDecodeError as error:
        raise ParameterError(f"{file} is not a text file. Write one token a line.", "token_file") from error
    tokens = frozenset(line for line in lines if line and not line.startswith("#"))
    if not tokens:
        raise ParameterError(f"{file} holds no token. Write one a line.", "token_file")
    if min(map(len, tokens)) < FEWEST_CHARACTERS:
        raise ParameterError(
            f"A token in {file} is shorter than {FEWEST_CHARACTERS} characters. Use a longer one, such as from "
            "`openssl rand -hex 32`.",
            "token_file",
        )
    return tokens


@contextmanager
def _bound(host: str, port: int) -> Iterator[socket.socket]:
    """Yield a socket that is bound to an address; its errors come before anything is loaded."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError) as error:
        raise ParameterError(
            f"{host!r} is not an address of this machine. Name one, such as 127.0.0.1.", "host"
        ) from error
    listening = socket.socket(family, kind, protocol)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind(address)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise ParameterError(f"{host} port {port} cannot be used: {reason}. Name another port.", "port") from error
        yield listening
    finally:
        listening.close()


async def _run(config: ServerConfig, api: Api, listening: socket.socket) -> None:
    server = _Server(
        uvicorn.Config(
            api.app(),
            http=_Protocol,
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            limit_concurrency=config.queue + IDLE_CONNECTIONS,
            timeout_graceful_shutdown=STOP_SECONDS,
        )
    )
    loop = asyncio.get_running_loop()
    reloads = asyncio.Lock()
    running: set[asyncio.Task[None]] = set()

    def stop() -> None:
        api.ready = False
        server.force_exit = server.should_exit  # the second time
        server.should_exit = True

    def reload() -> None:
        task = asyncio.create_task(_reload(config, api, reloads))
        running.add(task)
        task.add_done_callback(running.discard)

    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop)
        loop.add_signal_handler(signal.SIGHUP, reload)
    await server.serve(sockets=[listening])
    await asyncio.gather(*running)


async def _reload(config: ServerConfig, api: Api, reloads: asyncio.Lock) -> None:
    """Load the run and the tokens again. If that fails, the old ones stay."""
    async with reloads:
        try:
            tokens = read_tokens(config.token_file)
            model = await asyncio.to_thread(load_model, config.model)
            await asyncio.wrap_future(api.service.exchange(model))
        except Exception as error:  # anything may be wrong with the new run
            LOG.exception("reload failed", extra={"details": {"error": type(error).__name__}})
            return
        api.tokens = tokens
        api.counters.reloads += 1
        LOG.info("reloaded", extra={"details": {"model": model.name, "weights": model.weights}})


class _Server(uvicorn.Server):
    """uvicorn's server without its signal handlers: SIGTERM ends the process with exit code 0."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class _Protocol(H11Protocol):
    """Disconnects clients that do not send the head of a request in time."""

    _limit: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._limit = self.loop.call_later(HEAD_SECONDS, self._check_head)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:  # the head is here
            self._stop_clock()
        elif self._limit is None:
            self._limit = self.loop.call_later(HEAD_SECONDS, self._check_head)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_clock()
        super().connection_lost(exc)

    def _stop_clock(self) -> None:
        if self._limit is not None:
            self._limit.cancel()
            self._limit = None

    def _check_head(self) -> None:
        self._limit = None
        idle = self.cycle is None or self.cycle.response_complete
        if idle and self.conn.their_state is h11.IDLE and not self.transport.is_closing():
            self.transport.close()


# Logs


class _Lines(logging.Formatter):
    """Writes each event as a line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        now = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line = {"time": now, "level": record.levelname.lower(), "event": record.getMessage()}
        line |= getattr(record, "details", {})
        if record.exc_info:
            line["traceback"] = "".join(traceback.format_exception(*record.exc_info))
        return json.dumps(line)


@contextmanager
def _logging() -> Iterator[None]:
    """Write the events of the server, and warnings of uvicorn, to stderr."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Lines())
    levels = {"radii.serving": logging.INFO, "uvicorn.error": logging.WARNING, "asyncio": logging.WARNING}
    loggers = [logging.getLogger(name) for name in levels]
    for logger, level in zip(loggers, levels.values(), strict=True):
        logger.addHandler(handler)
        logger.setLevel(level)
        logger.propagate = False
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeHandler(handler)
            logger.propagate = True
