"""radii serve: answer requests about pictures over HTTP."""

import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from radii.cli.app import hint, print_error, printed_warnings, say
from radii.cli.arguments import Fields, Strings, Switch, Trust, Whole, parse_fields, parse_numbers
from radii.errors import MissingExtraError
from radii.runs.recipe import parse_value

if TYPE_CHECKING:
    from radii.serving.service import Service

_TIME = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s)?")


def serve(
    run: Path,
    /,
    *,
    port: Whole = 8000,
    host: str = "127.0.0.1",
    deadline: str | None = None,
    radius: str | None = None,
    mode: Annotated[Literal["certificate", "vote", "one-pass"], Parameter(show_choices=True)] = "certificate",
    evidence: Path | None = None,
    keep_pictures: Switch = False,
    queue: Whole = 256,
    workers: Whole | None = None,
    token_file: Path | None = None,
    host_name: Strings = None,
    engine: str = "auto",
    noise: str | None = None,
    set: Fields = None,
    trust: Trust = None,
) -> None:
    """Answer requests about pictures over HTTP: the Open Inference Protocol, POST /predict, and a page for people.

    The noise is fresh and secret for every request. SIGHUP loads the run again without losing a request; SIGTERM and
    Ctrl-C finish the requests in flight. Logs are lines of JSON on stderr.

    Args:
        run: A trained run directory.
        port: The port to listen on; 0 takes a free one.
        host: The address to listen on; by default this machine alone can connect.
        deadline: The time for an answer, such as 200ms or 2s. Then the largest radius that is proven by then is
            answered, or an abstention.
        radius: The radius to certify, or several, such as 0.25,0.5; the largest that is proven is answered. By default
            up to two standard deviations of the noise.
        mode: certificate proves a radius, vote the class alone, one-pass answers by one noisy copy and proves nothing
            about one picture.
        evidence: A folder for a record of every answer; `radii verify` checks it.
        keep_pictures: Also keep the prepared pictures there, so that all answers can be replayed.
        queue: The number of pictures in flight; more are refused with 503 and Retry-After.
        workers: The number of threads that run forward passes; by default one per core.
        token_file: A file of tokens, one a line; clients send one as Authorization: Bearer TOKEN.
        host_name: A name by which clients call the server, such as that of a proxy before it. Requests to other names
            are refused, because a web page could make its own name point here. Addresses need not be stated, and no
            names where --host is not this machine alone and clients send a token.
        engine: The engine that runs the forward passes; auto takes the one that the model was certified with.
        noise: The noise; by default that of the run's certificates.
    """
    try:
        from radii.serving.server import ServerConfig
        from radii.serving.server import serve as run_server
    except ModuleNotFoundError as error:
        if error.name not in ("starlette", "uvicorn", "h11"):
            raise
        raise MissingExtraError(f"Serving needs {error.name}, which is not installed.", "serve") from error
    from radii.serving.model import ModelConfig

    config = ServerConfig(
        model=ModelConfig(
            run=run,
            mode=mode,
            radii=() if radius is None else parse_numbers("--radius", radius),
            fields=parse_fields(set),
            engine=engine,
            noise=None if noise is None else parse_value(noise),
            trust=tuple(trust or ()),
        ),
        host=host,
        port=port,
        deadline=None if deadline is None else _seconds(deadline),
        queue=queue,
        workers=workers,
        evidence=evidence,
        keep_pictures=keep_pictures,
        token_file=token_file,
        host_names=tuple(host_name or ()),
    )
    if config.hosts.network and token_file is None:
        print_error(f"everybody who reaches {host} may ask: name a file of tokens with --token-file")
    any_name = config.hosts.network and token_file is not None and not host_name
    with printed_warnings():
        run_server(config, partial(_say_ready, any_name))


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
        raise ValueError(f"--deadline {text!r}: expected a time, such as 200ms or 2s")
    return float(time[1]) / (1000 if time[2] == "ms" else 1)
