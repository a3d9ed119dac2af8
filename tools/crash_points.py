"""Kill commands at each of their writes in turn, and run them again: `python -m tools.crash_points FOLDER COMMAND...`.

Prints as JSON, for each command, the number of kills, and those after which the second run did not give the same
result. A kill leaves nothing but the files on the disk. So the command runs once, and before and in the middle of each
write its files are copied: these are the files that a kill at this point leaves. Where nothing was written between
two points, their files are the same, and one second run shows both. At every tenth point, a process is really killed
as well: it must leave the same files as the copy, and be recovered from.
"""

import csv
import gc
import hashlib
import json
import math
import os
import re
import shutil
import subprocess
import sys
import traceback
import types
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file

from radii import certifiers, disk
from radii.certification.certify import CertificationConfig, certify_run
from radii.certification.population import certify_run_population
from radii.certifiers.population import OnePass
from radii.engines import openvino_int8
from radii.interop.checkpoint import import_checkpoint
from radii.runs import certificates, events, trust
from radii.runs.recipe import Recipe, Training
from radii.runs.run import Run
from radii.training import loop
from radii.training.loop import train
from radii.training.soft_labels import soft_labels
from radii.training.transfer import train_students

ROOT = Path(__file__).parents[1]
WRITES = ("open", "write", "fsync", "replace", "unlink", "mkdir", "truncate", "ftruncate")
"""The calls by which the package changes files; `tests/test_disk.py` checks that there are no others."""
KILLED = 137
BETWEEN_KILLS = 10
TRAINING = Training(epochs=2, images_per_step=8, learning_rate=0.05)


class Writes:
    """A replacement of the module os that calls `act` before each write, and in the middle of the calls named write."""

    def __init__(self, act: Callable[[int], None]) -> None:
        self.act = act
        self.count = 0

    def __getattr__(self, name: str) -> Any:
        real = getattr(os, name)
        return partial(self.do, name, real) if name in WRITES else real

    def do(self, name: str, real: Callable[..., Any], *arguments: Any) -> Any:
        self.count += 1
        if name == "fsync":  # a kill loses nothing that the kernel has: only the wait for the disk is left out
            return self.act(self.count)
        if name != "write":
            self.act(self.count)
            return real(*arguments)
        descriptor, content = arguments
        written = real(descriptor, content[: len(content) // 2])
        self.act(self.count)
        return written + real(descriptor, content[written:])


class Copies:
    """The files of a folder at each write, with a copy wherever they have changed."""

    def __init__(self, place: Path, kept: Path) -> None:
        self.place = place
        self.kept = kept
        self.points: dict[str, list[int]] = {}
        """The numbers of the writes, by the name of the copy of the files that they meet."""

    def __call__(self, point: int) -> None:
        state = files_and_times(self.place)
        points = self.points.setdefault(hashlib.sha256(repr(state).encode()).hexdigest(), [])
        points.append(point)
        if len(points) == 1:
            shutil.copytree(self.place, self.kept / next(reversed(self.points)), symlinks=True)


def files_and_times(place: Path) -> list[tuple[object, ...]]:
    """Return what a command that begins now would find in a folder; equal folders give equal lists."""
    found: list[tuple[object, ...]] = []
    for path in sorted(place.rglob("*")):
        status = path.lstat()
        content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        found.append((str(path.relative_to(place)), status.st_mode, status.st_ino, status.st_mtime_ns, content))
    return found


def recipe(folder: Path, objective: str = "gaussian") -> Recipe:
    data = {"name": "arrays", "path": str(folder / "data.npz")}
    return Recipe(dataset=data, model="digits_cnn", sigma=0.25, objective=objective, training=TRAINING)


def prepare(folder: Path) -> None:
    """Write the inputs of the commands: a dataset, a trained run, a checkpoint of another tool."""
    rng = np.random.default_rng(0)
    arrays = {name: rng.integers(0, 256, (count, 8, 8), np.uint8) for name, count in (("train", 16), ("test", 8))}
    labels = {f"{name}_labels": np.arange(len(images)) % 4 for name, images in arrays.items()}
    np.savez(folder / "data.npz", **{f"{name}_images": images for name, images in arrays.items()}, **labels)  # type: ignore[arg-type]
    run = train(recipe(folder), folder / "trained")
    state = {name.removeprefix("1."): value for name, value in run_tensors(run).items() if name.startswith("1.")}
    torch.save({"state_dict": state}, folder / "foreign.pth")


def run_tensors(run: Run) -> dict[str, torch.Tensor]:
    return load_file(run.weights())


def do_train(folder: Path) -> None:
    train(recipe(folder), folder / "deep" / "run")


def do_transfer(folder: Path) -> None:
    list(train_students(Run(folder / "trained"), recipe(folder, "transfer"), ["digits_mlp"], run=folder / "student"))


def do_import(folder: Path) -> None:
    wanted = Recipe(dataset=recipe(folder).dataset, model="digits_cnn", sigma=0.25, objective="imported")
    import_checkpoint(folder / "foreign.pth", wanted, folder / "imported")


def do_certify(folder: Path) -> None:
    fixed = certifiers.create("fixed", selection=10, estimation=50)
    certify_run(CertificationConfig(run=folder / "trained", certifier=fixed, engine="torch"), workers=1)


def do_population(folder: Path) -> None:
    certifier = OnePass(radii=(0.1,), votes=3)
    certify_run_population(CertificationConfig(run=folder / "trained", certifier=certifier, engine="torch"), workers=1)


def do_soft_labels(folder: Path) -> None:
    soft_labels(Run(folder / "trained"), samples=8, engine="torch")


def do_int8(folder: Path) -> None:
    """Write the file of the int8 engine without quantising."""
    if not (file := folder / "int8.xml").is_file():
        openvino_int8._save(None, file)


def do_trust(folder: Path) -> None:
    os.environ["XDG_STATE_HOME"] = str(folder / "state")
    trust.record(["json:loads", "csv:reader"])


COMMANDS = {name.removeprefix("do_"): act for name, act in list(globals().items()) if name.startswith("do_")}


def save_model(_: object, path: Path, **__: object) -> None:
    for suffix in (".xml", ".bin"):
        path.with_suffix(suffix).write_bytes(suffix.encode() * 1000)


def attempt(act: Callable[[Path], None], folder: Path, at_write: Callable[[int], None] = lambda _: None) -> int:
    """Run a command in a forked process, which calls `at_write` at each write; return its exit code."""
    if (child := os.fork()) == 0:
        code = 1
        try:
            disk.os = Writes(at_write)  # type: ignore[assignment, attr-defined]
            act(folder)
            code = 0
        except BaseException:
            traceback.print_exc()
        os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def copy_at_writes(act: Callable[[Path], None], folder: Path, kept: Path) -> dict[str, list[int]]:
    """Run a command once and copy its files to `kept` at each write; return the copies, with the writes they show."""
    kept.mkdir()
    copies = Copies(folder, kept)

    def act_and_list(place: Path) -> None:
        act(place)
        (kept / "points.json").write_text(json.dumps(copies.points))

    assert attempt(act_and_list, folder, copies) == 0
    points: dict[str, list[int]] = json.loads((kept / "points.json").read_text())
    return points


def kill(point: int, now: int) -> None:
    """End this process if it is at the stated write."""
    if now == point:
        os._exit(KILLED)


def end(folder: Path) -> dict[str, Any]:
    """Return everything that a command has written, without times.

    A teacher's tape may lack an epoch in which the training was killed: a later student records it.
    """
    files = (path for path in sorted(folder.rglob("*")) if path.is_file() and path.suffix != ".logits")
    return {str(path.relative_to(folder)): content(path) for path in files}


def content(path: Path) -> Any:
    if path.name in ("environment.json", "transfer.json", "checkpoint.pt", "events.jsonl"):
        return None
    if path.name == "training.csv":
        with path.open(newline="") as file:
            return [
                {name: cell for name, cell in row.items() if not name.endswith("seconds")}
                for row in csv.DictReader(file)
            ]
    if path.suffix == ".tsv":
        rows = certificates.read_rows(path, certificates.read_header(certificates.header_file(path)))
        return [(row.index, row.prediction, row.radius, row.counts) for row in rows]
    if path.name == "soft-labels.seconds":
        return path.stat().st_size
    if path.name == "trusted":
        return sorted(path.read_text().split())
    return path.read_bytes()


def kill_at_every_write(folder: Path, *commands: str) -> dict[str, dict[str, Any]]:
    """Do what this module's docstring says, in a new process; return what it prints, and the errors of each command."""
    arguments = [sys.executable, "-m", "tools.crash_points", str(folder), *commands]
    done = subprocess.run(arguments, check=False, capture_output=True, text=True, timeout=1200, cwd=ROOT)
    if done.returncode:
        raise RuntimeError(f"tools.crash_points {' '.join(commands)} failed: {done.stderr}")
    results: dict[str, dict[str, Any]] = json.loads(done.stdout)
    return {command: result | {"errors": done.stderr} for command, result in results.items()}


def main(folder: Path, *commands: str) -> None:
    torch.set_num_threads(1)
    os.environ["XDG_STATE_HOME"] = str(folder / "record")
    loop.SECONDS_BETWEEN_CHECKPOINTS = 0.0
    events.SECONDS_BETWEEN = math.inf  # the same number of writes on a slow machine
    sys.modules["openvino"] = types.ModuleType("openvino")
    sys.modules["openvino"].save_model = save_model  # type: ignore[attr-defined]
    template = folder / "template"
    template.mkdir()
    prepare(template)
    print(json.dumps({command: kill_each_time(COMMANDS[command], template, folder / command) for command in commands}))


def kill_each_time(act: Callable[[Path], None], template: Path, place: Path) -> dict[str, Any]:
    """Kill one command at each of its writes; return the number of writes and those that it did not recover from."""
    record = os.environ["XDG_STATE_HOME"]
    warm_up(act, template, place.with_name(f"{place.name}-warm"))
    os.environ["XDG_STATE_HOME"] = record  # the command `trust` changes it
    fresh(template, place)
    kept = place.with_name(f"{place.name}-kept")
    copies = copy_at_writes(act, place, kept)
    wanted, bad = end(place), []
    for name, points in copies.items():
        for point in (point for point in points if not point % BETWEEN_KILLS):
            fresh(template, place)
            killed = attempt(act, place, partial(kill, point))
            left = names(place)
            again = attempt(act, place)
            if killed != KILLED or again or left != names(kept / name) or not alike(end(place), wanted):
                bad.append([point, killed, again, left, sorted(end(place))])
        fresh(kept / name, place)
        again = attempt(act, place)
        if again or not alike(end(place), wanted):
            bad.append([*points, again, sorted(end(place))])
    return {"points": sum(map(len, copies.values())), "runs": len(copies), "bad": bad}


def names(place: Path) -> list[str]:
    """Return the paths of all files, without the number of the process in the names of unfinished ones."""
    return sorted(re.sub(r"\.\d+$", "", str(path.relative_to(place))) for path in place.rglob("*"))


def warm_up(act: Callable[[Path], None], template: Path, place: Path) -> None:
    """Run the command once in this process, so that no fork has to import modules and parse files again."""
    fresh(template, place)
    act(place)
    gc.freeze()  # a collection in a fork would copy the memory of this process


def alike(found: dict[str, Any], wanted: dict[str, Any]) -> bool:
    if "state/radii/trusted" in found:  # a partial digest of the killed process may be among the complete ones
        return set(found["state/radii/trusted"]) >= set(wanted["state/radii/trusted"])
    return found == wanted


def fresh(template: Path, place: Path) -> None:
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(template, place)
    trust.record_data(place / "data.npz")


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
