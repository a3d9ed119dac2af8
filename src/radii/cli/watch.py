"""The command that shows a run on which another process works."""

import os
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from rich.live import Live
from rich.text import Text

from radii.cli.app import app, console
from radii.reports.facts import duration
from radii.reports.summary import Share, down, up
from radii.reports.text import plain
from radii.runs import events
from radii.runs.run import Run, RunError

SECONDS_BETWEEN_LOOKS = 0.5


@app.command
def watch(run: Path, /) -> None:
    """Show a run on which another process works, until that process ends; Ctrl-C ends the watching alone.

    Args:
        run: A run directory that `radii train`, `certify` or `attack` works on.
    """
    if not Run(run).recipe_file.is_file():
        raise RunError(f"{run} is not a run: it has no recipe.toml; `radii train` makes one")
    if not events.read(run):
        raise RunError(
            f"{run} has no {events.FILE}: no command has worked on it here; train, certify and attack write one"
        )
    with suppress(KeyboardInterrupt), Live(console=console, auto_refresh=False) as live:
        for text in looks(run):
            if console.is_terminal:
                live.update(Text(plain(f"{run}: {text}"), overflow="fold"), refresh=True)
            else:
                console.print(plain(f"{run}: {text}"), soft_wrap=True, markup=False)


def looks(run: Path) -> Iterator[str]:
    """Where the work stands, whenever that changes, until it is over."""
    shown = ""
    while True:
        found = events.read(run)
        text = in_words(found)
        if text != shown:
            yield text
        if over(found):
            return
        shown = text
        time.sleep(SECONDS_BETWEEN_LOOKS)


def over(found: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the process of the last event has ended, or was killed, as far as this machine can tell."""
    return not found or found[-1]["event"] in events.ENDS or _gone(found[-1])


def _gone(event: Mapping[str, Any]) -> bool:
    if event.get("host") != socket.gethostname() or not isinstance(event.get("process"), int):
        return False
    try:
        os.kill(event["process"], 0)
    except ProcessLookupError:
        return True
    except (PermissionError, OverflowError):
        return False
    return False


def in_words(found: Sequence[Mapping[str, Any]]) -> str:
    """Where the work stands, by the last events."""
    if not found:
        return "no events"
    last = found[-1]
    mine = [event for event in found if event.get("process") == last.get("process") and event["work"] == last["work"]]
    begun = max(number for number, event in enumerate(mine) if event["event"] == "began" or number == 0)
    parts = [last["work"], *_progress(mine[begun:])]
    if last["event"] in events.ENDS:
        parts.append(last["event"] + (f": {last['error']}" if isinstance(last.get("error"), str) else ""))
    elif _gone(last):
        parts.append(f"the process {last['process']} is gone, it was killed; the same command continues")
    return ", ".join(parts)


def _progress(found: Sequence[Mapping[str, Any]]) -> list[str]:
    """The counts of the last step, epoch and image."""
    latest = {event["event"]: event for event in found}
    recent = [event["event"] for event in found if event["event"] in ("step", "epoch")]
    if recent and recent[-1] == "epoch":
        # Not every step is an event: the last one is of an epoch that is done.
        latest.pop("step", None)
    parts: list[str] = []
    for name, words in (("step", _step), ("epoch", _epoch), ("image", _image), ("attacked", _attacked)):
        if name in latest:
            try:
                parts += words(latest[name])
            except (KeyError, TypeError, ValueError):
                parts.append(f"an event {name} that this version cannot read")
    return parts


def _step(event: Mapping[str, Any]) -> list[str]:
    return [
        f"epoch {event['epoch'] + 1}/{event['epochs']}, step {event['step']}/{event['steps']}",
        f"loss {event['loss']:.4f}",
        *(f"{name} {value:.4f}" for name, value in _terms(event)),
    ]


def _terms(event: Mapping[str, Any]) -> list[tuple[str, float]]:
    return list(event["terms"].items()) if len(event["terms"]) > 1 else []


def _epoch(event: Mapping[str, Any]) -> list[str]:
    accuracy, done = down(event["noisy_test_accuracy"], 4), event["epoch"] + 1
    return [f"{done} epoch{'s' * (done > 1)} done, the last in {duration(event['seconds'])}, noisy accuracy {accuracy}"]


def _attacked(event: Mapping[str, Any]) -> list[str]:
    return [f"{event['done']}/{event['images']} images"]


def _image(event: Mapping[str, Any]) -> list[str]:
    share = Share(event["correct"], event["done"])
    lower, upper = share.interval()
    return [
        f"{event['done']}/{event['images']} images",
        f"{down(share.value, 1, 2)}% certified and correct ({down(lower, 1, 2)}-{up(upper, 1, 2)})",
        f"ACR {down(event['mean_radius'], 3)}",
    ]
