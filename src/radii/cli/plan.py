"""Plans: commands that a verb shows with their times, and then runs in order."""

import shlex
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from radii.cli.app import hint, run_planned, say
from radii.cli.arguments import flag_of
from radii.reports.text import duration


@dataclass(frozen=True)
class PlannedCommand:
    """A command of a plan: what is typed after `radii`, about how long it takes, and what it is for."""

    words: tuple[str, ...]
    minutes: float
    purpose: str

    def __str__(self) -> str:
        return shlex.join(["radii", *self.words])


def planned(purpose: str, estimate: float, /, *words: object, **options: Any) -> PlannedCommand:
    """Make a command of a plan; options that are None or empty are left out, a list is repeated."""
    parts = [str(word) for word in words]
    for name, value in options.items():
        for item in value if isinstance(value, list | tuple) else [value]:
            if item is not None:
                parts += [flag_of(name), f"{item:g}" if isinstance(item, float) else str(item)]
    return PlannedCommand(tuple(parts), estimate, purpose)


def show_plan(title: str, commands: Sequence[PlannedCommand]) -> None:
    """Print the commands, each to be typed alone if you prefer, with their times."""
    total = sum(step.minutes for step in commands)
    say(f"{title}, about {duration(60 * total)}:")
    for number, step in enumerate(commands, start=1):
        say(f"  {number}. {step.purpose}, about {duration(60 * step.minutes)}")
        say(f"     {step}")


def run_plan(
    commands: Sequence[PlannedCommand], done: int = 0, on_done: Callable[[int], None] = lambda _: None
) -> None:
    """Run the commands from number `done` on; `on_done` gets how many are finished after each."""
    for number, step in enumerate(commands, start=1):
        if number <= done:
            hint(f"{number}. done before: {step}")
            continue
        say(f"{number}. {step}")
        began = time.monotonic()
        run_planned(step.words)
        hint(f"   took {duration(time.monotonic() - began)}")
        on_done(number)
