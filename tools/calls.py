"""Count the modules of radii that run in train, certify, certify_dataset and report.

`python tools/calls.py` prints, as JSON, for each of the four the modules that ran and those of the longest call path:
the most modules that were on the stack of one thread at once. It uses the radii that PYTHONPATH names, of any version,
on the embedded digits and in one process. Imports are not counted.
"""

import contextlib
import json
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import torch
from torch import nn

import radii
from radii import cli

SOURCE = Path(radii.__file__).parent


class Recorder:
    """A profiler that notes the modules of radii that run."""

    def __init__(self) -> None:
        self.ran: set[str] = set()
        self.path: list[str] = []
        self._names: dict[CodeType, str] = {}

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and self._module(frame.f_code):
            path = list(dict.fromkeys(self._stack(frame)))
            self.ran.add(path[0])
            if len(path) > len(self.path):
                self.path = path

    def _stack(self, frame: FrameType | None) -> list[str]:
        """Return the modules of the frames, the innermost first."""
        modules = []
        while frame is not None:
            modules.append(self._module(frame.f_code))
            frame = frame.f_back
        return [module for module in modules if module]

    def _module(self, code: CodeType) -> str:
        """Return the module of a function of radii, and nothing for other code or for a module's own top level."""
        if code not in self._names:
            path = Path(code.co_filename)
            inside = code.co_name != "<module>" and path.is_relative_to(SOURCE)
            parts = path.relative_to(SOURCE).with_suffix("").parts if inside else ()
            self._names[code] = ".".join(part for part in parts if part != "__init__")
        return self._names[code]


def record(function: Callable[[], object]) -> dict[str, list[str]]:
    """Return the modules that a call runs, and those of its longest path, the outermost first."""
    recorder = Recorder()
    threading.setprofile(recorder)
    sys.setprofile(recorder)
    try:
        function()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return {"ran": sorted(recorder.ran), "path": recorder.path[::-1]}


def command(*words: str) -> Callable[[], None]:
    """Return a function that runs the command line with these words."""

    def run() -> None:
        sys.argv = ["radii", *words]
        with contextlib.redirect_stdout(sys.stderr):
            try:
                cli.main()
            except SystemExit as ended:
                if ended.code:
                    raise

    return run


def measure(folder: Path) -> dict[str, dict[str, list[str]]]:
    """Train, certify and report a small run in a folder, and certify two images with a classifier in memory."""
    run, few = str(folder / "run"), ("--max", "2", "--workers", "1", "--engine", "torch", "--set", "estimation=1000")
    return {
        "train": record(command("train", "digits/gaussian-0.25", "--run", run, "--set", "training.epochs=1")),
        "certify": record(command("certify", run, *few)),
        "report": record(command("report", run, "--out", str(folder / "report"))),
        "certify_dataset": record(lambda: certify_in_memory(folder / "mine.tsv")),
    }


def certify_in_memory(out: Path) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    smoothed = radii.SmoothedClassifier(model, sigma=0.25, classes=10)
    samples = (torch.rand(2, 1, 8, 8), torch.arange(2))
    radii.certify_dataset(smoothed, samples, "fixed", estimation=1000, seed=0, workers=1, out=out)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        json.dump(measure(Path(name)), sys.stdout, indent=1)
