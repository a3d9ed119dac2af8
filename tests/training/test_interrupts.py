"""Signals that are delayed until the end of a step."""

import signal
import threading

import pytest

from radii.training.interrupts import Interrupts


def test_first_signal_is_delayed_until_it_is_delivered() -> None:
    with Interrupts() as interrupts:
        signal.raise_signal(signal.SIGINT)
        assert interrupts.pending == signal.SIGINT
        with pytest.raises(KeyboardInterrupt):
            interrupts.deliver()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_second_signal_is_not_delayed() -> None:
    with Interrupts():
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_delayed_signal_is_delivered_at_the_end() -> None:
    interrupts = Interrupts()
    interrupts.__enter__()
    signal.raise_signal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        interrupts.__exit__(None, None, None)


def test_without_a_signal_nothing_happens() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with Interrupts() as interrupts:
        interrupts.deliver()
        assert signal.getsignal(signal.SIGTERM) != before
    assert signal.getsignal(signal.SIGTERM) == before


def test_ignored_signal_stays_ignored() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with Interrupts() as interrupts:
            signal.raise_signal(signal.SIGINT)
            assert interrupts.pending is None
    finally:
        signal.signal(signal.SIGINT, before)


def test_signals_are_not_delayed_in_another_thread() -> None:
    entered: list[object] = []

    def enter() -> None:
        with Interrupts():
            entered.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert entered == [signal.default_int_handler]


def test_signal_of_another_process_is_delivered_here() -> None:
    before = signal.getsignal(signal.SIGINT)
    with Interrupts() as interrupts:
        with pytest.raises(KeyboardInterrupt):
            interrupts.deliver(signal.SIGINT)
        assert interrupts.pending is None
        signal.raise_signal(signal.SIGINT)  # its own signal, which comes late
    signal.signal(signal.SIGINT, before)
