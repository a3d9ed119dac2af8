"""Ctrl-C and SIGTERM, held back until what is being done is done and saved."""

import signal
import threading
from types import FrameType, TracebackType
from typing import Any

HELD = (signal.SIGINT, signal.SIGTERM)


class Interrupts:
    """While it is entered, the first Ctrl-C or SIGTERM is only noted; `deliver` lets it happen. A second is not held.

    Signals reach the main thread alone: in any other there is nothing to hold, and a signal that is ignored stays so.
    """

    def __init__(self) -> None:
        self.pending: int | None = None
        """The signal that came, if one did."""
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

    def deliver(self) -> None:
        """Let a signal that came do what it does."""
        if self.pending is not None:
            number, self.pending = self.pending, None
            self._restore()
            signal.raise_signal(number)

    def _note(self, number: int, _: FrameType | None) -> None:
        second, self.pending = self.pending is not None, number
        if second:
            self.deliver()

    def _restore(self) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        self._handlers = {}
