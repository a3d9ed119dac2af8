"""Ctrl-C and SIGTERM, held back until the current work is saved."""

import signal
import threading
from types import FrameType, TracebackType
from typing import Any

HELD = (signal.SIGINT, signal.SIGTERM)


class Interrupts:
    """A context that holds back the first Ctrl-C or SIGTERM until `deliver`; a second one is not held back.

    Signals reach only the main thread, so it has no effect in others; an ignored signal stays ignored.
    """

    def __init__(self) -> None:
        self.pending: int | None = None
        """The signal that was held back, if any."""
        self._handlers: dict[int, Any] = {}

    def __enter__(self) -> "Interrupts":
        if threading.current_thread() is threading.main_thread():
            found = {number: signal.getsignal(number) for number in HELD}
            self._handlers = {number: found[number] for number in HELD if found[number] not in (signal.SIG_IGN, None)}
            for number in self._handlers:
                signal.signal(number, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._restore()
        if kind is None:
            self.deliver()

    def deliver(self, number: int | None = None) -> None:
        """Raise the signal that was held back, if any, or another one that a process of the same training held."""
        here, self.pending = self.pending, None
        if here is not None:
            self._restore()
            signal.raise_signal(here)
        elif number is not None:
            handler = self._handlers.get(number)
            self._restore()
            signal.signal(number, signal.SIG_IGN)  # this process's own may still come
            if callable(handler):
                handler(number, None)

    def _note(self, number: int, _: FrameType | None) -> None:
        second, self.pending = self.pending is not None, number
        if second:
            self.deliver()

    def _restore(self) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        self._handlers = {}
