"""Count votes in a worker. The classifier is sent once, and every task carries its image."""

import io
import json
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
from typing import TYPE_CHECKING, Any

import torch

from radii import disk
from radii.device import VARIABLE, available, keep_freed_memory
from radii.errors import ParameterError
from radii.onnx_graph import has_graph
from radii.provenance import class_digests, rounding_environment
from radii.runs import readers
from radii.runs.certificates import CHECKSUM, FIRST_ROW
from radii.runs.readers import is_text
from radii.smoothing.questions import Answer, Task
from radii.workers.pool import WorkerError, picklable
from radii.workers.scheduler import Report

if TYPE_CHECKING:
    from radii.engines import SmoothedClassifier

MOST_ENVIRONMENT = 10_000
"""Characters of an environment as JSON."""


@dataclass(frozen=True)
class Missing:
    """A worker's answer if it does not have the classifier yet."""


@dataclass(frozen=True)
class Shipment:
    """A classifier to send to workers, with the files of an engine that calibrates.

    The receiver compares the source of its own classes with the sender's.
    """

    token: str
    content: bytes
    """The classifier, pickled by cloudpickle: classes from the user's script, or defined in functions, go by value."""
    code: Mapping[str, str | None]
    """The digests of the source of the classes."""
    artefact: Mapping[str, bytes] = field(default_factory=dict)
    """The engine's files by their suffix."""
    device: str = "cpu"
    """The kind of device to count on, without a number: a worker may see one GPU of several."""

    def open(self) -> "SmoothedClassifier":
        """Unpickle the classifier; raise a ParameterError if the code here differs from the sender's."""
        classifier: SmoothedClassifier = pickle.loads(self.content)
        if self.device != "cpu":
            classifier.base.to(worker_device(self.device))
        here = _code(classifier)
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
    """The classifier that workers get. It is pickled once, when the first worker asks for it."""

    def __init__(self, classifier: "SmoothedClassifier", target: torch.device | None = None) -> None:
        self.classifier = classifier
        self.target = classifier.device if has_graph(classifier.base) else target or classifier.device
        self.token = uuid.uuid4().hex

    @cached_property
    def shipment(self) -> Shipment:
        """The pickled classifier; raises a ParameterError if it cannot be pickled."""
        classifier, stem = self.classifier, self.classifier.artefact
        files = sorted(stem.parent.glob(f"{stem.name}.*")) if stem is not None else ()
        try:
            content = _pickled(classifier, self.target.type)
        except Exception as error:  # every class may raise errors of its own
            name = type(classifier.base).__name__
            raise ParameterError(f"the model {name} cannot be pickled: {error}", "classifier") from error
        artefact = {path.suffix: path.read_bytes() for path in files}
        return Shipment(self.token, content, _code(classifier), artefact, self.target.type)


def _code(classifier: "SmoothedClassifier") -> dict[str, str | None]:
    return class_digests([*classifier.base.modules(), classifier.noise])


def _pickled(classifier: "SmoothedClassifier", device: str) -> bytes:
    """Pickle a classifier by cloudpickle. Tensors of a GPU are sent as a CPU's and moved to the worker's device."""
    import cloudpickle

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc]
        def reducer_override(self, value: Any) -> Any:
            if isinstance(value, torch.Tensor) and value.device.type != "cpu":
                trained = isinstance(value, torch.nn.Parameter)
                return _placed, (value.detach().cpu(), device, trained, value.requires_grad)
            return super().reducer_override(value)

    content = io.BytesIO()
    Pickler(content).dump(classifier)
    return content.getvalue()


def _placed(tensor: torch.Tensor, device: str, trained: bool, requires_grad: bool) -> torch.Tensor:
    moved = tensor.to(worker_device(device))
    return torch.nn.Parameter(moved, requires_grad) if trained else moved.requires_grad_(requires_grad)


def worker_device(kind: str) -> torch.device:
    """Return the device of a kind on which this process counts; the CPU if there is none.

    RADII_DEVICE may name a GPU by its number; it is ignored if this process does not see that one.
    """
    here, named = available(), os.environ.get(VARIABLE, kind)
    if named in here and torch.device(named).type == kind:
        return torch.device(named)
    return torch.device(kind if kind in here else "cpu")


class _Voters:
    """The classifiers of this process: the one that was sent last, and those that its own threads use."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[str, SmoothedClassifier] = {}
        self._here: dict[str, SmoothedClassifier] = {}

    @contextmanager
    def holding(self, shipped: Shipped) -> Iterator[None]:
        """Let threads of this process use the classifier itself."""
        self._here[shipped.token] = shipped.classifier
        try:
            yield
        finally:
            del self._here[shipped.token]

    def get(self, token: str, shipment: Shipment | None) -> "SmoothedClassifier | None":
        """Return the classifier of a token, opened once for all threads; None if it must be sent first."""
        if (here := self._here.get(token)) is not None:
            return here
        with self._lock:
            if token not in self._open and shipment is not None:
                keep_freed_memory()
                self._open = {token: shipment.open()}
            return self._open.get(token)


VOTERS = _Voters()


def count_votes(token: str, tasks: Sequence[Task], shipment: Shipment | None = None) -> Report | Missing:
    """Answer tasks with the classifier of this token. Errors are part of the report, never raised."""
    try:
        classifier = VOTERS.get(token, shipment)
    except Exception as error:
        return Report((), 0.0, _worker_name(), _environment("torch", torch.device("cpu"), 1), picklable(error))
    return Missing() if classifier is None else answer(classifier, tasks)


def answer(classifier: "SmoothedClassifier", tasks: Sequence[Task]) -> Report:
    """Answer tasks on one thread; an error of the model is part of the report."""
    began, answers, error = time.perf_counter(), list[Answer](), None
    try:
        with one_thread():
            answers = classifier.count(tasks)
    except Exception as raised:
        error = picklable(raised)
    seconds, asked = time.perf_counter() - began, [(task.address, task.question) for task in tasks]
    environment = _environment(classifier.engine, classifier.device, classifier.batch_size)
    return Report(answers, seconds, _worker_name(), environment, error, asked)


def check_report(report: object) -> Report:
    """Return what a worker sent if it is a report; otherwise raise a WorkerError. The answers are checked later."""
    if not isinstance(report, Report):
        raise WorkerError(f"a worker answered a {type(report).__name__}, expected a report", "executor")
    seconds, error = report.seconds, report.error
    checks = {
        "answers": isinstance(report.answers, list | tuple),
        "questions": isinstance(report.asked, list | tuple),
        "seconds": isinstance(seconds, int | float) and 0 <= seconds <= readers.MOST_SECONDS,
        "name": isinstance(report.worker, str),
        "environment": _is_environment(report.environment),
        "error": error is None or isinstance(error, Exception),
    }
    if wrong := [name for name, good in checks.items() if not good]:
        raise WorkerError(f"a worker's report has no valid {wrong[0]}: check the executor", "executor")
    return report


def _is_environment(value: object) -> bool:
    """Return whether a header can record this environment."""
    if not isinstance(value, dict) or set(value) & {FIRST_ROW, CHECKSUM}:
        return False
    try:
        text = json.dumps(value, allow_nan=False)
        known = json.loads(text) == value and readers.is_environment(value) and is_text(value["versions"]["radii"])
        return len(text) <= MOST_ENVIRONMENT and known
    except (TypeError, ValueError, LookupError, RecursionError):
        return False


def _worker_name() -> str:
    return f"{socket.gethostname()} {os.getpid()} {threading.get_ident()}"


_environment = cache(rounding_environment)


class _OneThread:
    """Count the callers inside `one_thread`, and keep the number of threads before the first."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.holders = 0
        self.before = 1


_HELD = _OneThread()


@contextmanager
def one_thread() -> Iterator[None]:
    """Run forward passes on one thread: images are independent, while threads of one pass wait for each other.

    Several threads may be inside at once; the last one that leaves restores the number of threads.
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
