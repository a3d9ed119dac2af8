"""Plans: commands that a verb shows with their times, and then runs in order."""

import itertools
import math
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from radii import disk
from radii.cli.app import hint, run_planned, say
from radii.cli.arguments import flag_of
from radii.fields import first_difference
from radii.reports.text import duration
from radii.runs import readers
from radii.runs.run import RunError


@dataclass(frozen=True)
class PlannedCommand:
    """A command of a plan: what is typed after `radii`, about how long it takes, and what it is for."""

    words: tuple[str, ...]
    minutes: float
    purpose: str

    def __str__(self) -> str:
        return shlex.join(["radii", *self.words])

    def output(self) -> Path | None:
        """Return the file that the command leaves last, if it trains a run or writes a page."""
        named = dict(itertools.pairwise(self.words))
        if "--out" in named:
            return Path(named["--out"], "report.html")
        return Path(named["--run"], "model.safetensors") if "--run" in named else None


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


def plan_file(target: Path) -> Path:
    """Return the file of the plan, beside the hardened run."""
    return target.with_name(f"{target.name}.plan.json")


class Measured(NamedTuple):
    """What a plan depends on beside its options."""

    every: int
    """Certify every nth image."""
    certifying: float
    """The minutes of each certification."""
    denoise: bool = False
    """Train a denoiser in front of the model."""


class Plan:
    """The commands of a hardening in a file beside the hardened run, so that a stopped one continues as it began.

    The commands in the file are not run: they may come from a stranger, with a module to trust or a cluster. They are
    made again from the options and from what was measured, and have to be equal.
    """

    def __init__(self, target: Path, stated: Mapping[str, Any]) -> None:
        self.file = plan_file(target)
        self.stated = dict(stated)
        self.commands: list[PlannedCommand] = []
        self.measured: Measured | None = None
        """None for a new plan."""
        self.done = 0
        self._words: list[list[str]] = []
        if self.file.is_file():
            self._read()

    def use(self, commands: list[PlannedCommand], measured: Measured) -> None:
        """Write a new plan before its first command runs; refuse a file with other commands."""
        words = [list(step.words) for step in commands]
        if self.measured is not None and (words != self._words or not 0 <= self.done <= len(words)):
            raise RunError(
                f"{self.file} holds other commands than this version plans. "
                f"Move {self._both} away to begin anew, or name another run with --run."
            )
        self.commands = commands
        gone = (number for number, step in enumerate(commands) if (file := step.output()) and not file.exists())
        self.done = min(self.done, *gone, len(commands))
        if self.measured is None:
            self.measured = measured
            disk.sweep(self.file.parent, [self.file.name])
            self.finish(0)

    def finish(self, done: int) -> None:
        """Record how many commands are finished."""
        self.done = done
        steps = [{"words": step.words, "minutes": step.minutes, "purpose": step.purpose} for step in self.commands]
        measured = {} if self.measured is None else self.measured._asdict()
        disk.write_json(self.file, {"plan": self.stated, **measured, "done": done, "commands": steps})

    @property
    def _both(self) -> str:
        return f"{str(self.file).removesuffix('.plan.json')} and its plan"

    def _read(self) -> None:
        table = readers.json_object(self.file)
        settings, steps, done, every = (table.get(key) for key in ("plan", "commands", "done", "every"))
        certifying, denoise = table.get("certifying"), table.get("denoise")
        valid = readers.is_object(settings) and isinstance(steps, list) and all(map(_is_step, steps))
        valid = valid and readers.is_count(every) and readers.is_integer(done) and isinstance(denoise, bool)
        minutes = float(certifying or 0) if readers.is_number(certifying) else 0.0
        if not valid or not 0 < minutes <= self.stated.get("minutes", math.inf):
            raise RunError(f"{self.file} is not a plan that `radii harden` wrote. Move {self._both} away.")
        if difference := first_difference({key: (settings or {}).get(key) for key in self.stated}, self.stated):
            raise RunError(
                f"{self.file} is another plan, with {readers.short(difference)}. "
                f"Name another run with --run, or move {self._both} away."
            )
        self._words = [list(step["words"]) for step in steps or ()]
        self.measured, self.done = Measured(int(every or 1), minutes, bool(denoise)), int(done or 0)


def _is_step(step: Any) -> bool:
    """Return whether a value in a plan's file has the words of a command."""
    return isinstance(step, dict) and isinstance(words := step.get("words"), list) and all(map(readers.is_text, words))
