"""radii watch: show a run while another process works on it."""

import os
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from rich.live import Live
from rich.text import Text

from radii.cli.app import console, hint
from radii.cli.progress import loss_texts
from radii.reports.metrics import Share
from radii.reports.text import down, duration, plain, up
from radii.runs import events
from radii.runs.run import Run, RunError

SECONDS_BETWEEN_READS = 0.5
Event = Mapping[str, Any]


def watch(run: Path, /) -> None:
    """Show the progress of a run while another process works on it, until that process ends.

    Ctrl-C stops the watching, not the work.

    Args:
        run: A run directory that `radii train`, `certify` or `attack` works on.
    """
    if not Run(run).recipe_file.is_file():
        raise RunError(f"{run} is not a run: it has no recipe.toml. Make one with `radii train`.")
    if not events.read(run):
        raise RunError(f"{run} has no {events.FILE}. `radii train`, `certify` and `attack` write it while they work.")
    with suppress(KeyboardInterrupt), Live(console=console, auto_refresh=False) as live:
        for text in _texts(run):
            if console.is_terminal:
                live.update(Text(plain(f"{run}: {text}"), overflow="fold"), refresh=True)
            else:
                hint(f"{run}: {text}")


def _texts(run: Path) -> Iterator[str]:
    """Yield the state of the work whenever it changes, until the work is over."""
    shown = ""
    while True:
        log = events.read(run)
        text = in_words(log)
        if text != shown:
            yield text
        if is_over(log):
            return
        shown = text
        time.sleep(SECONDS_BETWEEN_READS)


def is_over(log: Sequence[Event]) -> bool:
    """Return whether the process of the last event has ended or was killed, as far as this machine can tell."""
    return not log or log[-1]["event"] in events.ENDS or _is_gone(log[-1])


def _is_gone(event: Event) -> bool:
    """Return whether the process that wrote an event no longer runs; False if it runs on another machine."""
    if event.get("host") != socket.gethostname() or not isinstance(event.get("process"), int):
        return False
    try:
        os.kill(event["process"], 0)
    except ProcessLookupError:
        return True
    except (PermissionError, OverflowError):
        return False
    return False


def in_words(log: Sequence[Event]) -> str:
    """Describe the state of the work by the events of its last process."""
    if not log:
        return "no events"
    last = log[-1]
    same = [event for event in log if event.get("process") == last.get("process") and event["work"] == last["work"]]
    start = max(number for number, event in enumerate(same) if event["event"] == "began" or number == 0)
    parts = [last["work"], *_progress(same[start:])]
    if last["event"] in events.ENDS:
        parts.append(last["event"] + (f": {last['error']}" if isinstance(last.get("error"), str) else ""))
    elif _is_gone(last):
        parts.append(f"the process {last['process']} is gone, it was killed; the same command continues")
    return ", ".join(parts)


def _progress(log: Sequence[Event]) -> list[str]:
    """Return the counts of the last step, epoch and image."""
    latest = {event["event"]: event for event in log}
    recent = [event["event"] for event in log if event["event"] in ("step", "epoch")]
    if recent and recent[-1] == "epoch":
        # Only some steps are logged, so the last one belongs to an epoch that is over.
        latest.pop("step", None)
    parts: list[str] = []
    for name, words in (("step", _step), ("epoch", _epoch), ("image", _image), ("attacked", _attacked)):
        if name in latest:
            try:
                parts += words(latest[name])
            except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError):
                parts.append(f"an event {name} that this version cannot read")
    return parts


def _step(event: Event) -> list[str]:
    where = f"epoch {event['epoch'] + 1}/{event['epochs']}, step {event['step']}/{event['steps']}"
    return [where, *loss_texts(event["loss"], event["terms"])]


def _epoch(event: Event) -> list[str]:
    accuracy, done = down(event["noisy_test_accuracy"], 4), event["epoch"] + 1
    return [f"{done} epoch{'s' * (done > 1)} done, the last in {duration(event['seconds'])}, noisy accuracy {accuracy}"]


def _image(event: Event) -> list[str]:
    share = Share(event["correct"], event["done"])
    lower, upper = share.interval()
    return [
        f"{event['done']}/{event['images']} images",
        f"{down(share.value, 1, 2)}% certified and correct ({down(lower, 1, 2)}-{up(upper, 1, 2)})",
        f"ACR {down(event['mean_radius'], 3)}",
    ]


def _attacked(event: Event) -> list[str]:
    return [f"{event['done']}/{event['images']} images"]
