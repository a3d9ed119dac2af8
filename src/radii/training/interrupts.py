"""Delay Ctrl-C and SIGTERM until the current work is saved."""

import signal
import threading
from types import FrameType, TracebackType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupts:
    """A context that delays the first Ctrl-C or SIGTERM until `deliver`; a second one is not delayed.

    Only the main thread gets signals, so it has no effect in others. An ignored signal stays ignored.
    """

    def __init__(self) -> None:
        self.pending: int | None = None
        """The delayed signal, if any."""
        self._handlers: dict[int, Any] = {}

    def __enter__(self) -> "Interrupts":
        if threading.current_thread() is threading.main_thread():
            handlers = {number: signal.getsignal(number) for number in SIGNALS}
            self._handlers = {
                number: handler for number, handler in handlers.items() if handler not in (signal.SIG_IGN, None)
            }
            for number in self._handlers:
                signal.signal(number, self._delay)
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._restore()
        if error is None:
            self.deliver()

    def deliver(self, number: int | None = None) -> None:
        """Raise the delayed signal, if any; else handle the signal `number` that another process received."""
        own, self.pending = self.pending, None
        if own is not None:
            self._restore()
            signal.raise_signal(own)
        elif number is not None:
            handler = self._handlers.get(number)
            self._restore()
            signal.signal(number, signal.SIG_IGN)  # this process may still receive the signal itself
            if callable(handler):
                handler(number, None)

    def _delay(self, number: int, _: FrameType | None) -> None:
        second, self.pending = self.pending is not None, number
        if second:
            self.deliver()

    def _restore(self) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        self._handlers = {}
