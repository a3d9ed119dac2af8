"""A classifier as worker processes get it: pickled once, however many tasks carry it."""

import pickle
import uuid
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from radii.engines import SmoothedClassifier
from radii.errors import ParameterError
from radii.provenance import class_digests
from radii.workers.pool import needs_main


class Portable:
    """A classifier that is equal to its copies in other processes."""

    def __init__(self, classifier: SmoothedClassifier, code: Mapping[str, str | None]) -> None:
        self.token = uuid.uuid4().hex
        self.code = dict(code)
        self.classifier = classifier

    @cached_property
    def content(self) -> bytes | None:
        """The pickled classifier; None if it cannot be pickled."""
        try:
            return pickle.dumps(self.classifier)
        except Exception:  # every class may raise errors of its own
            return None

    @property
    def obstacle(self) -> str:
        """Why other processes cannot have it, as the end of a sentence; empty where they can."""
        name = type(self.classifier.base).__name__
        if self.content is None:
            return f"the model {name} cannot be pickled"
        if needs_main(self.content):
            return f"the model {name} is of the script itself, which every worker process would run again"
        return ""

    def __reduce__(self) -> tuple[Any, ...]:
        # A pickler that can do more, such as Dask's, gets the classifier itself.
        return _Copy, (self.token, self.code, self.content or self.classifier)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Portable) and self.token == other.token

    def __hash__(self) -> int:
        return hash(self.token)


class _Copy(Portable):
    """The classifier in a worker: unpickled when it is used first, and not of other code than it was pickled from."""

    def __init__(self, token: str, code: Mapping[str, str | None], given: bytes | SmoothedClassifier) -> None:
        self.token, self.code, self.given = token, dict(code), given

    @cached_property
    def classifier(self) -> SmoothedClassifier:  # type: ignore[override]
        found: SmoothedClassifier = pickle.loads(self.given) if isinstance(self.given, bytes) else self.given
        here = class_digests(found.base)
        for name, digest in self.code.items():
            if digest is not None and not name.startswith("__main__") and here.get(name) != digest:
                raise ParameterError(f"the code of {name} changed since the certification began: start it again")
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        return _Copy, (self.token, self.code, self.given)
