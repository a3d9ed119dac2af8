"""radii serve: answer requests about pictures over HTTP."""

import re
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from radii.cli.app import hint, print_error, printed_warnings, say
from radii.cli.arguments import OPTIONS, Engine, Fields, Strings, Switch, Trust, Whole, parse_fields, parse_numbers
from radii.errors import MissingExtraError
from radii.runs.recipe import parse_value

if TYPE_CHECKING:
    from radii.serving.model import ModelConfig
    from radii.serving.service import Service

_TIME = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s)?")


@OPTIONS
@dataclass(frozen=True, kw_only=True)
class Options:
    """What `radii serve` takes beside a run."""

    port: Whole = 8000
    """The port to listen on; 0 takes a free one."""
    host: str = "127.0.0.1"
    """The address to listen on; by default this machine alone can connect."""
    deadline: str | None = None
    """The time for an answer, such as 200ms or 2s. Then the largest radius that is proven by then is answered, or an
    abstention."""
    radius: str | None = None
    """The radius to certify, or several, such as 0.25,0.5; the largest that is proven is answered. By default up to two
    standard deviations of the noise."""
    mode: Annotated[Literal["certificate", "vote", "one-pass"], Parameter(show_choices=True)] = "certificate"
    """certificate proves a radius, vote the class alone; one-pass answers by one noisy copy and proves nothing about a
    picture."""
    evidence: Path | None = None
    """A folder for a record of every answer; `radii verify` checks it."""
    keep_pictures: Switch = False
    """Also keep the prepared pictures there, so that all answers can be replayed."""
    queue: Whole = 256
    """The number of pictures in flight; more are refused with 503 and Retry-After."""
    workers: Whole | None = None
    """The number of threads that run forward passes; by default one per core."""
    token_file: Path | None = None
    """A file of tokens, one a line; clients send one as Authorization: Bearer TOKEN."""
    host_name: Strings = None
    """A name by which clients call the server, such as that of a proxy before it. Requests to other names are refused,
    because a web page could make its own name point here. Addresses need not be stated, and no names where --host is
    not this machine alone and clients send a token."""
    engine: Engine = "auto"
    noise: str | None = None
    """The noise; by default that of the run's certificates."""
    set: Fields = None
    trust: Trust = None


DEFAULTS = Options()


def serve(run: Path, /, *, options: Options = DEFAULTS) -> None:
    """Answer requests about pictures over HTTP: the Open Inference Protocol, POST /predict, and a page for people.

    The noise is fresh and secret for every request. SIGHUP loads the run again without losing a request; SIGTERM and
    Ctrl-C finish the requests in flight. Logs are lines of JSON on stderr.

    Args:
        run: A trained run directory.
    """
    try:
        from radii.serving.server import ServerConfig
        from radii.serving.server import serve as run_server
    except ModuleNotFoundError as error:
        if error.name not in ("starlette", "uvicorn", "h11"):
            raise
        raise MissingExtraError(f"Serving needs {error.name}, which is not installed.", "serve") from error

    config = ServerConfig(
        model=_model_config(run, options),
        host=options.host,
        port=options.port,
        deadline=None if options.deadline is None else _seconds(options.deadline),
        queue=options.queue,
        workers=options.workers,
        evidence=options.evidence,
        keep_pictures=options.keep_pictures,
        token_file=options.token_file,
        host_names=tuple(options.host_name or ()),
    )
    if config.hosts.network and options.token_file is None:
        print_error(f"Everybody who reaches {options.host} may ask. Name a file of tokens with --token-file.")
    any_name = config.hosts.network and options.token_file is not None and not options.host_name
    with printed_warnings():
        run_server(config, partial(_say_ready, any_name))


def _model_config(run: Path, options: Options) -> "ModelConfig":
    from radii.serving.model import ModelConfig

    return ModelConfig(
        run=run,
        mode=options.mode,
        radii=() if options.radius is None else parse_numbers("--radius", options.radius),
        fields=parse_fields(options.set),
        engine=options.engine,
        noise=None if options.noise is None else parse_value(options.noise),
        trust=tuple(options.trust or ()),
    )


def _say_ready(any_name: bool, address: str, service: "Service") -> None:
    model = service.model
    what: str = model.mode
    if model.mode == "certificate":
        what += f" of radius {', '.join(f'{radius:g}' for radius in model.header['parameters']['radii'])}"
    if model.failure is not None:
        what += f", failure {model.failure:g} a picture"
    say(f"{model.name} at {address}: {what}")
    if any_name:
        hint("clients may call it by any name, because they send a token; --host-name allows some names alone")
    hint("Ctrl-C stops it; SIGHUP loads the run again")


def _seconds(text: str) -> float:
    """Parse a time such as 200ms, 2s or 2 (seconds)."""
    time = _TIME.fullmatch(text.strip())
    if time is None:
        raise ValueError(f"--deadline {text!r}: expected a time, such as 200ms or 2s.")
    return float(time[1]) / (1000 if time[2] == "ms" else 1)
