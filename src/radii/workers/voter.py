"""Count votes in a worker: the classifier is sent once, and every task carries its image."""

import os
import pickle
import shutil
import socket
import tempfile
import threading
import time
import uuid
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path

import torch

from radii import disk
from radii.device import keep_freed_memory
from radii.engines import SmoothedClassifier
from radii.errors import ParameterError
from radii.provenance import class_digests, rounding_environment
from radii.smoothing.questions import Answer, Task
from radii.workers.pool import portable
from radii.workers.scheduler import Report


@dataclass(frozen=True)
class Missing:
    """The worker does not have the classifier: send it."""


@dataclass(frozen=True)
class Shipment:
    """A classifier for workers in other processes, with the files of an engine that calibrates.

    The receiver trusts nothing about its own code: it compares the source of the classes with the sender's.
    """

    token: str
    content: bytes
    """The classifier, pickled by cloudpickle: classes of the user's script, and of functions, travel by value."""
    code: Mapping[str, str | None]
    """The digests of the source of the classes."""
    artefact: Mapping[str, bytes] = field(default_factory=dict)
    """The engine's files by their suffix."""

    def open(self) -> SmoothedClassifier:
        """Unpickle the classifier; raise a ParameterError if the code here differs from the sender's."""
        classifier: SmoothedClassifier = pickle.loads(self.content)
        here = class_digests(classifier.base)
        for name, digest in self.code.items():
            by_value = name.startswith("__main__") or "<locals>" in name
            if digest is not None and not by_value and here.get(name) != digest:
                raise ParameterError(f"the code of {name} changed since the certification began: start it again")
        if self.artefact:
            folder = Path(tempfile.mkdtemp(prefix="radii-"))
            weakref.finalize(classifier, shutil.rmtree, folder, ignore_errors=True)
            for suffix, content in self.artefact.items():
                disk.write(folder / f"artefact{suffix}", content)
            classifier.artefact = folder / "artefact"
        return classifier


class Shipped:
    """The classifier that workers get: pickled once, when the first worker asks for it."""

    def __init__(self, classifier: SmoothedClassifier) -> None:
        self.classifier = classifier
        self.token = uuid.uuid4().hex

    @cached_property
    def shipment(self) -> Shipment:
        """The classifier in a form that can be sent; a ParameterError if it cannot be pickled."""
        import cloudpickle

        classifier, stem = self.classifier, self.classifier.artefact
        files = sorted(stem.parent.glob(f"{stem.name}.*")) if stem is not None else ()
        try:
            content = cloudpickle.dumps(classifier)
        except Exception as error:  # every class may raise errors of its own
            name = type(classifier.base).__name__
            raise ParameterError(f"the model {name} cannot be pickled: {error}", "classifier") from error
        artefact = {path.suffix: path.read_bytes() for path in files}
        return Shipment(self.token, content, class_digests(classifier.base), artefact)


class _Voters:
    """The classifiers of this process: the one that was sent last, and those that are in use here."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[str, SmoothedClassifier] = {}
        self._here: dict[str, SmoothedClassifier] = {}

    @contextmanager
    def holding(self, shipped: Shipped) -> Iterator[None]:
        """Give threads of this process the classifier itself."""
        self._here[shipped.token] = shipped.classifier
        try:
            yield
        finally:
            del self._here[shipped.token]

    def get(self, token: str, shipment: Shipment | None) -> SmoothedClassifier | None:
        """The classifier of a token, opened once whatever the number of threads; None if it has to be sent."""
        if (here := self._here.get(token)) is not None:
            return here
        with self._lock:
            if token not in self._open and shipment is not None:
                keep_freed_memory()
                self._open = {token: shipment.open()}
            return self._open.get(token)


VOTERS = _Voters()


def count_votes(token: str, tasks: Sequence[Task], shipment: Shipment | None = None) -> Report | Missing:
    """Answer tasks with the classifier of this token. Errors are reported: what is raised is the executor's."""
    try:
        classifier = VOTERS.get(token, shipment)
    except Exception as error:
        return Report((), 0.0, _worker_name(), _environment("torch"), portable(error))
    return Missing() if classifier is None else answered(classifier, tasks)


def answered(classifier: SmoothedClassifier, tasks: Sequence[Task]) -> Report:
    """Answer tasks on one thread; an error of the model is part of the report."""
    began, answers, error = time.perf_counter(), list[Answer](), None
    try:
        with one_thread():
            answers = classifier.count(tasks)
    except Exception as raised:
        error = portable(raised)
    return Report(answers, time.perf_counter() - began, _worker_name(), _environment(classifier.engine), error)


def _worker_name() -> str:
    return f"{socket.gethostname()} {os.getpid()} {threading.get_ident()}"


_environment = cache(rounding_environment)


class _OneThread:
    """How many callers hold it, and the number of threads before the first of them."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.holders = 0
        self.before = 1


_HELD = _OneThread()


@contextmanager
def one_thread() -> Iterator[None]:
    """Run forward passes on one thread: images are independent, while threads of one pass wait for each other.

    Several threads of a process may hold it; the last one that leaves restores the number.
    """
    with _HELD.lock:
        _HELD.before = _HELD.before if _HELD.holders else torch.get_num_threads()
        _HELD.holders += 1
    torch.set_num_threads(1)  # partly a setting of each thread
    try:
        yield
    finally:
        with _HELD.lock:
            _HELD.holders -= 1
            if not _HELD.holders:
                torch.set_num_threads(_HELD.before)
