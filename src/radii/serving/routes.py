"""The HTTP interface of a service: the Open Inference Protocol, pictures, metrics, and a page for people."""

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from torch import Tensor

from radii.serving import oip
from radii.serving.answer import Answer
from radii.serving.copies import data_uri, show_copies
from radii.serving.counters import Counters
from radii.serving.decoder import MOST_BYTES, Decoders, PictureError
from radii.serving.guard import AllowedHosts, Guard, server_failed
from radii.serving.model import ServedModel
from radii.serving.request import BusyError, FailedError
from radii.serving.service import Service

LOG = logging.getLogger("radii.serving")
BODY_SECONDS = 30.0
"""Seconds in which a client must send the body of its request."""
EVENTS = "text/event-stream"
PAGE = Path(__file__).with_name("page.html")


class Api:
    """The routes of a service, their state and their counters."""

    def __init__(self, service: Service, tokens: Collection[str] = (), hosts: AllowedHosts | None = None) -> None:
        """Require one of the `tokens`, if there are any, and one of the `hosts`, by default loopback."""
        self.service = service
        self.tokens = frozenset(tokens)
        self.hosts = hosts or AllowedHosts()
        self.counters = Counters()
        self.ready = True
        self.decoders: Decoders | None = None

    def app(self) -> Guard:
        """Return the application, for any ASGI server."""
        model = "/v2/models/{name}"
        routes = [
            Route("/", self.page),
            Route("/predict", self.predict, methods=["POST"]),
            Route("/metrics", self.metrics),
            Route("/v2", self.server_metadata),
            Route("/v2/health/live", self.live),
            Route("/v2/health/ready", self.is_ready),
            *(
                route
                for path in (model, model + "/versions/{version}")
                for route in (
                    Route(path, self.model_metadata),
                    Route(path + "/ready", self.model_ready),
                    Route(path + "/infer", self.infer, methods=["POST"]),
                )
            ),
        ]
        handlers: Mapping[Any, Any] = {
            HTTPException: _refused,
            BusyError: _busy,
            FailedError: _failed,
            ClientDisconnect: _disconnected,
            Exception: _broken,
        }
        app = Starlette(routes=routes, exception_handlers=handlers, lifespan=self._lifespan)
        app.router.redirect_slashes = False
        return Guard(app, self)

    @asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncIterator[None]:
        self.decoders = Decoders()
        try:
            yield
        finally:
            self.decoders.close()

    # For people and monitors

    async def page(self, request: Request) -> Response:
        model = self.service.model
        about = {
            "name": model.name,
            "mode": model.mode,
            "shape": model.shape,
            "classes": model.class_names,
            "norm": model.header["norm"],
            "noise": model.header["noise"],
            "failure": model.failure,
            "prepared": model.header["prepared"],
            "weights": model.weights,
            "token": bool(self.tokens),
            "evidence": self.service.evidence is not None,
        }
        script = json.dumps(about).replace("<", "\\u003c")  # no text may end the script
        return HTMLResponse(PAGE.read_text(encoding="utf-8").replace("/*ABOUT*/null", script))

    async def metrics(self, request: Request) -> Response:
        service = self.service
        gauges = (
            ("radii_in_flight", "gauge", "Pictures that are being answered.", service.in_flight),
            ("radii_queue_limit", "gauge", "Pictures that may be in flight.", service.queue_limit),
            ("radii_passes_total", "counter", "Forward passes.", service.passes),
            ("radii_rows_total", "counter", "Noisy copies in forward passes, without padding.", service.rows),
            ("radii_samples_total", "counter", "Samples of finished answers.", service.samples),
        )
        return PlainTextResponse(self.counters.text(gauges), media_type="text/plain; version=0.0.4; charset=utf-8")

    # The Open Inference Protocol

    async def live(self, request: Request) -> Response:
        return JSONResponse({"live": True})

    async def is_ready(self, request: Request) -> Response:
        return JSONResponse({"ready": self.ready}, 200 if self.ready else 503)

    async def server_metadata(self, request: Request) -> Response:
        return JSONResponse(oip.server_metadata())

    async def model_metadata(self, request: Request) -> Response:
        return JSONResponse(oip.model_metadata(self._named_model(request)))

    async def model_ready(self, request: Request) -> Response:
        return JSONResponse({"name": self._named_model(request).name, "ready": self.ready}, 200 if self.ready else 503)

    async def infer(self, request: Request) -> Response:
        model = self._named_model(request)
        body = await _body(request)
        parse = partial(oip.parse_infer, body, request.headers.get(oip.HEADER_LENGTH), model)
        try:
            # Large JSON takes long to parse: a thread keeps the event loop free.
            asked = parse() if len(body) < 1 << 16 else await asyncio.to_thread(parse)
        except oip.ProtocolError as error:
            raise HTTPException(400, str(error)) from error
        if len(asked.images) > self.service.queue_limit:
            raise HTTPException(413, f"At most {self.service.queue_limit} images are answered at once.")
        answers = await self._answers(model, [torch.from_numpy(image) for image in asked.images])
        content, headers = oip.infer_response(asked, model, answers)
        return Response(content, headers=headers)

    def _named_model(self, request: Request) -> ServedModel:
        """Return the model that is served; refuse other names and versions."""
        model, named = self.service.model, request.path_params
        if named["name"] != model.name:
            raise HTTPException(404, f"There is no model {named['name'][:50]!r} here. The model is {model.name!r}.")
        if named.get("version", oip.version_of(model)) != oip.version_of(model):
            raise HTTPException(404, f"The version is {oip.version_of(model)}, the beginning of the weights' digest.")
        return model

    # Pictures

    async def predict(self, request: Request) -> Response:
        if request.headers.get("content-type", "").startswith("multipart/"):
            raise HTTPException(415, "Send the bytes of one picture as the body, such as with curl --data-binary.")
        content = await _body(request)
        if not content:
            raise HTTPException(400, "The body is empty. Send the bytes of one picture, PNG or JPEG.")
        arrived = time.monotonic()
        model = self.service.model
        image = await self._prepare(model, content)
        if EVENTS in request.headers.get("accept", ""):
            return StreamingResponse(self._events(model, image), media_type=EVENTS)
        deadline = None if self.service.deadline is None else arrived + self.service.deadline
        (answer,) = await self._answers(model, [image], deadline)
        return JSONResponse(answer.as_data())

    async def _prepare(self, model: ServedModel, content: bytes) -> Tensor:
        """Decode a picture and prepare it as the test images were; raise a BusyError if it takes too long."""
        assert self.decoders is not None
        if self.service.in_flight + self.decoders.waiting >= self.service.queue_limit:
            raise BusyError(1)
        try:
            async with asyncio.timeout(self.service.deadline):
                pixels = await self.decoders.prepare(content, model.dataset, model.shape)
        except TimeoutError:  # such as while a decoder starts: a late answer is none
            raise BusyError(1, "the picture could not be decoded by the deadline") from None
        except PictureError as error:
            raise HTTPException(400, str(error)) from error
        return torch.from_numpy(np.frombuffer(pixels, np.float32).reshape(model.shape).copy())

    async def _answers(self, model: ServedModel, images: list[Tensor], deadline: float | None = None) -> list[Answer]:
        futures = self.service.submit(images, model=model, deadline=deadline)
        answers: list[Answer] = await asyncio.gather(*map(asyncio.wrap_future, futures))
        for answer in answers:
            self.counters.answer(answer)
        return answers

    async def _events(self, model: ServedModel, image: Tensor) -> AsyncIterator[bytes]:
        """Send noisy copies, votes as they arrive, and the answer."""
        loop = asyncio.get_running_loop()
        arrived: asyncio.Queue[tuple[int, Mapping[int, int]] | None] = asyncio.Queue()

        def progress(samples: int, votes: Mapping[int, int]) -> None:
            loop.call_soon_threadsafe(arrived.put_nowait, (samples, votes))

        yield _event("picture", data_uri(image.numpy()))
        try:
            yield _event("copies", await asyncio.to_thread(show_copies, model, image))
            (future,) = self.service.submit([image], model=model, progress=progress)
            answer = asyncio.ensure_future(asyncio.wrap_future(future))
            answer.add_done_callback(lambda _: arrived.put_nowait(None))
            while (votes := await arrived.get()) is not None:
                named = {model.class_names[label]: count for label, count in votes[1].items()}
                yield _event("votes", {"samples": votes[0], "votes": named})
            result = await answer
        except (BusyError, FailedError) as error:
            yield _event("error", str(error))
            return
        self.counters.answer(result)
        yield _event("answer", result.as_data())


def _event(kind: str, content: Any) -> bytes:
    return f"event: {kind}\ndata: {json.dumps(content)}\n\n".encode()


async def _refused(_: Request, error: HTTPException) -> Response:
    return JSONResponse({"error": error.detail}, error.status_code, headers=error.headers)


async def _busy(_: Request, error: BusyError) -> Response:
    reason = str(error)
    sentence = f"{reason[:1].upper()}{reason[1:]}. Try again later."
    return JSONResponse({"error": sentence}, 503, {"retry-after": str(error.seconds)})


async def _failed(_: Request, error: FailedError) -> Response:
    later = {"retry-after": "1"} if error.temporary else {}
    return JSONResponse({"error": f"There is no answer: {error}."}, 503 if error.temporary else 500, later)


async def _disconnected(_: Request, __: ClientDisconnect) -> Response:
    return Response(status_code=499)


async def _broken(_: Request, error: Exception) -> Response:
    """Answer without the traceback, which the log has."""
    LOG.error("a request failed", exc_info=error)
    return server_failed()


async def _body(request: Request) -> bytes:
    """Read the body of a request; refuse one that is too long, too slow or compressed."""
    if request.headers.get("content-encoding", "identity") != "identity":
        raise HTTPException(415, "Compressed bodies are not read. Send the body as it is.")
    stated = request.headers.get("content-length", "")
    too_long = HTTPException(413, f"The body is too long. {MOST_BYTES:,} bytes at most are read.")
    if stated.isdecimal() and int(stated) > MOST_BYTES:
        raise too_long
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for chunk in request.stream():
                body += chunk
                if len(body) > MOST_BYTES:
                    raise too_long
    except TimeoutError:
        raise HTTPException(408, f"The body did not arrive within {BODY_SECONDS:g} s.") from None
    return bytes(body)
