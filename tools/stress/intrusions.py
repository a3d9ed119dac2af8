"""Items 35 to 45: code and files of strangers, limits, names of files, a full disk, and the commands in the manual."""

import json
import os
import re
import resource
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from radii import cli
from tools.stress.commands import Result, radii, run_here
from tools.stress.outcome import Effort, Outcome
from tools.stress.subjects import QUICK, ROOT, certified, copied, rewrite, the_file

CERTIFY = ("certify", "run", "--max", 8, *QUICK, "--set", "estimation=500")
COMMANDS: dict[str, tuple[object, ...]] = {
    "show": ("show", "run"),
    "verify": ("verify", "run", "--rows", 1),
    "certify": CERTIFY,
    "report": ("report", "run", "--out", "out"),
    "watch": ("watch", "run"),
    "predict": ("predict", "run", "image.png"),
    "soft-labels": ("soft-labels", "run", "--samples", 128, "--workers", 1),
    "train": ("train", "digits/gaussian-0.25", "--run", "run", "--set", "training.epochs=3"),
    "merge": ("certify", "run", "--merge"),
}
LIMIT = 40.0
"""Seconds for a command on a hostile file."""
LOOP_SECONDS = 12.0
"""After these seconds an import is stopped: it has begun to run the graph."""


def _victim(effort: Effort) -> Path:
    folder = copied(certified(), effort.folder / "victim")
    Image.fromarray(np.zeros((8, 8), np.uint8)).save(folder / "image.png")
    return folder


MODULES = ("threading", "random", "torch", "numpy", "resource", "socket", "sitecustomize", "usercustomize", "radii")


def modules(effort: Effort) -> Outcome:
    """The current folder is a stranger's run that holds modules by the names of the standard library, torch, radii and
    Python's start, and a configuration of matplotlib: commands with workers must not import or read them."""
    folder = _victim(effort)
    run, canary = folder / "run", folder / "canary"
    for name in MODULES:
        (run / f"{name}.py").write_text(f"open({str(canary)!r}, 'a').write({name!r})\nraise SystemExit(7)\n")
    (run / "matplotlibrc").write_text(f"savefig.directory: {canary}\nfont.size: not-a-number\n")
    script = str(Path(sys.executable).with_name("radii"))
    commands = [["verify", ".", "--rows", "2", "--workers", "2"], ["report", ".", "--out", "out"], ["show", "."]]
    bad = []
    for words in commands[: effort.times(3, 1)]:
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "src")}
        done = subprocess.run(
            [script, *words], cwd=run, capture_output=True, text=True, timeout=300, env=environment, check=False
        )
        if done.returncode or canary.exists() or "not-a-number" in done.stderr:
            bad.append(f"{words[0]}: exit code {done.returncode}, {done.stderr[-200:]}")
            canary.unlink(missing_ok=True)
    return Outcome({"modules": len(MODULES), "commands": effort.times(3, 1)}, {"imports": bad})


NAMES = (
    "recipe.toml",
    "events.jsonl",
    "events-previous.jsonl",
    "model.safetensors",
    "environment.json",
    "engine.json",
    "check.json",
    "checkpoint.pt",
    "training.csv",
    ".lock",
    "soft-labels.npy",
    "soft-labels.seconds",
    "certificates/.lock",
    "certificates/x.tsv",
    "certificates",
    "certificates/parts",
    "pictures",
    "attacks",
    "population",
    "tapes",
)
"""Files and folders of a run that a command may write."""


def links(effort: Effort) -> Outcome:
    """Files and folders of a run are links to a file, a folder and nowhere outside it: no command may change, create or
    remove anything outside the run."""
    names = NAMES if not effort.short else NAMES[:3]
    commands = ("certify", "soft-labels", "train", "show")
    changed, unclear, tried = [], [], 0
    for number, name in enumerate(names):
        for offset, target in enumerate(("file", "folder", "nothing")):
            for command in {commands[(number + offset) % 4]} if not effort.short else {"certify"}:
                folder = _victim(effort)
                outside = effort.folder / "outside"
                shutil.rmtree(outside, ignore_errors=True)
                (outside / "folder").mkdir(parents=True)
                (outside / "file").write_text("precious\n")
                place = folder / "run" / name
                if place.is_dir():
                    shutil.rmtree(place)
                elif place.exists() and target == "file":
                    shutil.copy(place, outside / "file")
                place.unlink(missing_ok=True)
                place.symlink_to(outside / target)
                before = _content(outside)
                result = radii(*COMMANDS[command], cwd=folder, seconds=LIMIT)
                tried += 1
                where = f"{name} as a link to {target}, {command}"
                changed += [] if _content(outside) == before else [f"{where}: {result}"]
                unclear += [] if result.is_clear else [f"{where}: {result}"]
    return Outcome({"commands": tried}, {"changes outside the run": changed, "hangs or tracebacks": unclear})


def _content(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() if path.is_file() else b"" for path in sorted(folder.rglob("*"))}


SOURCES = (
    "from numpy import load\n",
    "from numpy import load as load\n",
    "import numpy\nload = numpy.load\n",
    "from numpy import *\n",
    "def load(): pass\nfrom numpy import load\n",
    "if True:\n    from numpy import load\n",
    "try:\n    from numpy import load\nexcept ImportError:\n    def load(): pass\n",
    "from pickle import loads\nload = loads\n",
)


def trusted_names(effort: Effort) -> Outcome:
    """The user trusts a module, and the recipe of a stranger's run names something that the module imports from another
    package, in several spellings, as model, dataset and noise: it must not be called."""
    called, tried = [], 0
    for number, source in enumerate(SOURCES[: effort.times(len(SOURCES), 2)]):
        folder = _victim(effort)
        module = f"nets{number}"
        (folder / f"{module}.py").write_text(source)
        recipe = folder / "run" / "recipe.toml"
        recipe.write_text(re.sub(r"^model = .*$", f'model = "{module}:load"', recipe.read_text(), flags=re.MULTILINE))
        for command in ("verify", "certify"):
            result = radii(*COMMANDS[command], "--trust", module, cwd=folder, seconds=LIMIT)
            tried += 1
            if result.code != 2 or "does not define it" not in " ".join(result.text.split()):
                called.append(f"{source!r}, {command}: {result}")
    return Outcome({"commands": tried}, {"not refused": called})


def pictures(effort: Effort) -> Outcome:
    """The dataset of a stranger's run is a folder or a file of this user, by its path, by dots and through a link: no
    command may read the images unless the user names them."""
    secret = effort.folder / "home" / "photographs"
    for split in ("train", "test"):
        for name in "0123456789":
            (secret / split / name).mkdir(parents=True)
            Image.fromarray(np.full((8, 8), 77, np.uint8)).save(secret / split / name / "secret.png")
    read, tried = [], 0
    paths = {"by its path": str(secret), "by dots": "../../home/photographs", "through a link": "images"}
    for name, path in paths.items():
        folder = copied(certified(), effort.folder / "victim")
        Image.fromarray(np.zeros((8, 8), np.uint8)).save(folder / "image.png")
        shutil.rmtree(folder / "run" / "pictures", ignore_errors=True)
        if path == "images":
            (folder / "run" / "images").symlink_to(secret)
        recipe = folder / "run" / "recipe.toml"
        table = f'dataset = {{ name = "folder", path = "{path}", size = 8, channels = 1 }}'
        recipe.write_text(re.sub(r"^dataset = .*$", table, recipe.read_text(), flags=re.MULTILINE))
        for command in ("certify", "verify", "report")[: effort.times(3, 1)]:
            result = radii(*COMMANDS[command], cwd=folder, seconds=LIMIT)
            tried += 1
            shown = (folder / "run" / "pictures").exists() or _mentions(folder / "out", "secret")
            # A report reads the run's files alone.
            if shown or not result.is_clear or (command != "report" and result.code == 0):
                read.append(f"{name}, {command}: {result}")
    return Outcome({"commands": tried}, {"reads": read})


def _mentions(folder: Path, word: str) -> bool:
    return any(word.encode() in path.read_bytes() for path in folder.rglob("*") if path.is_file())


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _link(target: str, path: Path) -> None:
    path.unlink()
    path.symlink_to(target or path)


KINDS: dict[str, Callable[[Path], object]] = {
    "a pipe": _pipe,
    "a folder": _folder,
    "an endless device": partial(_link, "/dev/zero"),
    "a link to itself": partial(_link, ""),
    "a hole of a terabyte": lambda path: os.truncate(path, 1 << 40),
    "empty": lambda path: path.write_bytes(b""),
}
NUMBERS: dict[str, Callable[[dict[str, Any]], object]] = {
    "10^12 samples": lambda header: header["parameters"].update(estimation=10**12),
    "100,000 radii": lambda header: header["parameters"].update(radii=[0.1] * 100_000),
    "a batch of 10^9": lambda header: header.update(batch_size=10**9),
    "10^15 images": lambda header: header.update(images=10**15),
}


def endless(effort: Effort) -> Outcome:
    """Files of a run are pipes, folders, devices, links to themselves and holes of a terabyte; headers state 10^12
    samples, 100,000 radii and 1e400; an ONNX graph loops 2^50 times. Every command must end in time with an answer or a
    sentence, and Ctrl-C and SIGTERM must end an import within seconds."""
    bad, tried = [], 0
    files = [
        path.relative_to(certified() / "run") for path in sorted((certified() / "run").rglob("*")) if path.is_file()
    ]
    commands = ("show", "verify", "certify", "report", "watch", "predict", "train", "merge")
    for number, file in enumerate(files if not effort.short else files[:2]):
        for offset, (kind, make) in enumerate(list(KINDS.items())[: effort.times(6, 1)]):
            for command in {commands[(3 * number + offset) % 8], *commands[: effort.times(0, 2)]}:
                folder = _victim(effort)
                make(folder / "run" / file)
                result = radii(*COMMANDS[command], cwd=folder, seconds=LIMIT)
                tried += 1
                bad += [] if result.is_clear else [f"{file} is {kind}, {command}: {result}"]
    for name, edit in NUMBERS.items():
        folder = _victim(effort)
        header = json.loads(the_file(folder).with_suffix(".json").read_text())
        edit(header)
        rewrite(the_file(folder), header)
        bad += _refusals(folder, name)
        tried += 2
    folder = _victim(effort)
    beside = the_file(folder).with_suffix(".json")
    beside.write_text(beside.read_text().replace('"sigma": 0.25', '"sigma": 1e400', 1))
    bad += _refusals(folder, "1e400")
    loops = [] if effort.short else _loops(effort)
    return Outcome(
        {"commands": tried, "stopped imports": 0 if effort.short else 2}, {"hangs or tracebacks": bad + loops}
    )


def _refusals(folder: Path, name: str) -> list[str]:
    results = {command: radii(*COMMANDS[command], cwd=folder, seconds=LIMIT) for command in ("verify", "report")}
    return [f"{name}, {command}: {result}" for command, result in results.items() if not result.is_clear]


def _loops(effort: Effort) -> list[str]:
    """Import a graph that does not end, and stop that by Ctrl-C and by SIGTERM."""
    from tools.graphs import looping

    bad = []
    for stop in (signal.SIGINT, signal.SIGTERM):
        file = looping(effort.folder / "loop.onnx")
        script = str(Path(sys.executable).with_name("radii"))
        words = ["import", str(file), "--run", str(effort.folder / "loop"), "--dataset", "digits", "--sigma", "0.25"]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "src")}
        with subprocess.Popen([script, *words], stderr=subprocess.PIPE, text=True, env=environment) as process:
            time.sleep(LOOP_SECONDS)
            process.send_signal(stop)
            try:
                errors = process.communicate(timeout=15)[1]
            except subprocess.TimeoutExpired:
                process.kill()
                errors = "it did not end"
            if process.returncode != 128 + stop or "Traceback" in errors:
                bad.append(f"{stop.name}: exit code {process.returncode}, {errors[-200:]}")
    return bad


VALUES: tuple[Any, ...] = (
    *(None, True, -1, 0, 1e308, 1e-320, 10**38),
    *("", "x", "\ud800", "\x1b[2J", "y" * 100_000),
    *([], {}, [1], {"a": 1}, [[[[]]]]),
)
EVENTS: dict[str, dict[str, Any]] = {
    "step": {"epoch": 0, "epochs": 3, "step": 1, "steps": 9, "loss": 0.5, "terms": {"a": 0.1}},
    "epoch": {"epoch": 0, "noisy_test_accuracy": 0.5, "seconds": 3.0},
    "image": {"done": 3, "images": 9, "correct": 2, "mean_radius": 0.3},
    "attacked": {"done": 1, "images": 2},
    "failed": {"error": "x"},
}


def sentences(effort: Effort) -> Outcome:
    """`radii watch` gets events with a hostile value in each field, `verify` and `report` headers with new checksums,
    `verify` evidence of a server with new digests, `show` recipes that name modules a thousand deep, empty, with zero
    bytes and control characters: each must end with an answer or a sentence."""
    events, headers = _events(effort), _headers(effort)
    deep, evidence = _deep(effort), _evidence(effort)
    counts = {"events": events[0], "headers": headers[0], "logs of answers": evidence[0], "names of modules": deep[0]}
    return Outcome(counts, {"tracebacks or hangs": [*events[1], *headers[1], *evidence[1], *deep[1]]})


def _events(effort: Effort) -> tuple[int, list[str]]:
    folder = _victim(effort)
    common = {"time": "2026-01-01T00:00:00", "process": 1 << 30, "host": socket.gethostname(), "work": "train"}
    cases = [
        {**common, "event": name, **fields, key: value}
        for name, fields in EVENTS.items()
        for key in (*fields, "time", "work", "event")
        for value in VALUES
    ]
    chosen = cases[:: effort.times(4, 60)]
    bad = []
    for case in chosen:
        end = {**common, "event": "ended"}
        (folder / "run" / "events.jsonl").write_text(f"{json.dumps(case)}\n{json.dumps(end)}\n")
        result = radii("watch", "run", cwd=folder, seconds=LIMIT)
        bad += [] if result.is_clear else [f"{str(case)[:200]}: {result}"]
    return len(chosen), bad


def _headers(effort: Effort) -> tuple[int, list[str]]:
    folder = _victim(effort)
    path = the_file(folder)
    header, lines = json.loads(path.with_suffix(".json").read_text()), path.read_text()
    cases: list[tuple[str, ...]] = [(key,) for key in header]
    cases += [("parameters", key) for key in header["parameters"]] + [("noise", key) for key in header["noise"]]
    hostile = [(place, value) for place in cases for value in VALUES][:: effort.times(6, 80)]
    bad = []
    for number, (place, value) in enumerate(hostile):
        changed = json.loads(json.dumps(header))
        table = changed if len(place) == 1 else changed[place[0]]
        table[place[-1]] = value
        path.write_text(lines)
        rewrite(path, changed)
        command = ("verify", "report", "show", "certify")[number % 4]
        words = ("verify", "run", "--rows", 0) if command == "verify" else COMMANDS[command]
        result = radii(*words, cwd=folder, seconds=LIMIT)
        bad += [] if result.is_clear else [f"{'.'.join(place)} = {str(value)[:40]!r}, {command}: {result}"]
    return len(hostile), bad


def _evidence(effort: Effort) -> tuple[int, list[str]]:
    from radii.serving.evidence import EvidenceLog, read_log, table_digest
    from radii.serving.model import ModelConfig, load_model
    from radii.serving.service import Service

    folder = _victim(effort)
    model = load_model(ModelConfig(run=folder / "run", radii=(0.1,), engine="torch"))
    log = EvidenceLog(folder / "served")
    service = Service(model, evidence=log, keep_pictures=True, workers=1)
    service.submit([torch.zeros(model.shape)])[0].result(60)
    service.close()
    log.close()
    records = [
        {key: value for key, value in entry.record.items() if key not in ("previous", "time")}
        for entry in read_log(folder / "served")
    ]
    tables = [("header",), ("header", "parameters"), ("header", "noise")]
    places: list[tuple[int, tuple[str, ...]]] = [(n, (key,)) for n, record in enumerate(records) for key in record]
    places += [(0, (*table, key)) for table in tables for key in _table(records[0], table)]
    hostile = [(place, value) for place in places for value in VALUES][:: effort.times(6, 80)]
    bad = []
    for (number, place), value in hostile:
        changed = json.loads(json.dumps(records))
        _table(changed[number], place[:-1])[place[-1]] = value
        if place[0] == "header" and len(place) > 1:
            changed[0]["header_digest"] = changed[1]["header_digest"] = table_digest(changed[0]["header"])
        evidence = copied(folder / "served", folder / "evidence")
        for file in ("answers.jsonl", "index.sqlite"):
            (evidence / file).unlink()
        log = EvidenceLog(evidence)
        log.append(changed)
        log.close()
        result = radii("verify", "evidence", "--run", "run", cwd=folder, seconds=LIMIT)
        bad += [] if result.is_clear else [f"{'.'.join(place)} = {str(value)[:40]!r}, evidence: {result}"]
    return len(hostile), bad


def _table(record: dict[str, Any], place: tuple[str, ...]) -> dict[str, Any]:
    for key in place:
        record = record[key]
    return record


def _deep(effort: Effort) -> tuple[int, list[str]]:
    folder = _victim(effort)
    recipe = folder / "run" / "recipe.toml"
    text = recipe.read_text()
    names = (".".join(["a"] * 1000), ".".join(["os"] * 100_000), "", ".", "..a", "a\\u0000b", "\\u001b[2J", "é" * 5000)
    bad = []
    chosen = names[: effort.times(len(names), 2)]
    for name in chosen:
        recipe.write_text(re.sub(r"^model = .*$", lambda _, n=name: f'model = "{n}:x"', text, flags=re.MULTILINE))  # type: ignore[misc]
        for words in (("show", "run"), ("show", "run", "--json"), ("verify", "run")):
            result = radii(*words, cwd=folder, seconds=LIMIT)
            bad += [] if result.is_clear else [f"{name[:40]!r}, {' '.join(words)}: {result}"]
    return len(chosen), bad


def overwritten(effort: Effort) -> Outcome:
    """`radii export RUN mine.onnx` beside certificates mine.tsv with their header mine.json, beside a file mine.onnx
    and a mine.onnx.json of somebody else: nothing that exists may change."""
    bad = []
    cases = ({"mine.onnx": "mine\n"}, {"mine.onnx.json": '{"mine": 1}\n'}, {"mine.tsv": "a\n", "mine.json": "{}\n"})
    chosen = cases[: effort.times(3, 2)]
    for files in chosen:
        folder = _victim(effort)
        for name, content in files.items():
            (folder / name).write_text(content)
        result = radii("export", "run", "mine.onnx", cwd=folder, seconds=300)
        kept = all((folder / name).read_bytes() == content.encode() for name, content in files.items())
        if not kept or not result.is_clear:
            bad.append(f"export beside {', '.join(files)}: {result}")
    return Outcome({"exports": len(chosen)}, {"files replaced": bad})


CLASSES, MEGABYTES = 1000, 2500
READ = """
import resource, sys
from pathlib import Path
from radii.runs import certificates
rows = certificates.read(Path(sys.argv[1])).rows
print(len(rows), sum(rows[-1].counts.values()), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""


def many_classes(effort: Effort) -> Outcome:
    """A certificate file of 50,000 images of 1,000 classes that all got votes, 400 MB: it must be read, with all its
    checksums, in a process of at most 2.5 GB."""
    images = effort.times(50_000, 500)
    header = {"procedure": "fixed", "parameters": {"failure": 0.001}, "noise": {"name": "gaussian", "sigma": 0.5}}
    path = effort.folder / "many.tsv"
    path.with_suffix(".json").write_text(json.dumps({**header, "seed": 0, "format": 2}))
    columns = ["idx", "label", "predict", "radius", "correct", "time", "samples", "counts", "digest", "checksum"]
    counts = " ".join(f"{label}:100" for label in range(CLASSES))
    digest = "0" * 16
    row = ["", "3", "3", "0.25", "1", "1.5", "100100", counts, digest]
    path.write_text("\t".join(columns) + "\n")
    rewrite(path, rows=[[str(number), *row[1:]] for number in range(images)])
    found = subprocess.run(
        [sys.executable, "-c", READ, str(path)], cwd=ROOT, capture_output=True, text=True, timeout=600
    )
    rows, votes, megabytes = map(int, found.stdout.split() or (0, 0, 0))
    good = (rows, votes) == (images, 100 * CLASSES) and megabytes <= MEGABYTES
    bad = [] if good else [f"{rows} rows, {votes} votes, {megabytes} MB, {found.stderr[-300:]!r}"]
    return Outcome({"rows": images, "classes": CLASSES}, {"not read": bad}, f"{megabytes} MB in all")


def full_disk(effort: Effort) -> Outcome:
    """The disk is full at a random byte, by a limit on the size of files: certify, train, report and soft-labels must
    say which file could not be written, and go on when there is room again."""
    bad, tried = [], 0
    commands = {"train": "run", "certify": "run", "report": "out", "soft-labels": "run"}
    sizes = (0, 200, 3000)[: effort.times(3, 1)]
    for command in list(commands)[: effort.times(4, 2)]:
        for size in sizes:
            folder = _victim(effort)
            if command == "train":
                shutil.rmtree(folder / "run")
            if command == "certify":
                the_file(folder).with_suffix(".json").unlink()
                the_file(folder).unlink()
            result = _limited(size, COMMANDS[command], folder)
            tried += 1
            said = " ".join(result.text.split())
            if not result.is_clear or (result.code and not re.search(rf"{commands[command]}/|{folder}", said)):
                bad.append(f"{command}, {size} bytes: {result}")
            again = radii(*COMMANDS[command], cwd=folder, seconds=120)
            bad += [] if again.code == 0 else [f"{command} again after {size} bytes: {again}"]
    return Outcome({"full disks": tried}, {"without the file's name, or not continued": bad})


def _limited(size: int, words: tuple[object, ...], folder: Path) -> Result:
    """Run a command that may write no file beyond so many bytes; what it prints goes through a pipe."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.close(reader)
        for stream in (1, 2):
            os.dup2(writer, stream)
        os.close(writer)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
        run_here(list(map(str, words)), folder)
    os.close(writer)
    with os.fdopen(reader, errors="replace") as output:
        text = output.read()
    return Result(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), text)


STATED = {
    "Dask without authentication": r"Dask.{0,80}without authentication",
    "what a replay confirms": r"What a replay confirms",
    "what a replay cannot confirm": r"cannot confirm",
    "one seed": r"one seed",
    "the tails of the noise": r"tails of Gaussian noise",
    "code in the current folder": r"Code in the current folder",
    "links": r"Links and folders",
    "ONNX files": r"ONNX",
    "workers are believed": r"count votes honestly|Workers are believed",
}


def stated(_: Effort) -> Outcome:
    """SECURITY.md must say that Dask without authentication runs anybody's code, what a replay can and cannot confirm,
    that one seed is used, where noise ends, and what is believed of workers, links, ONNX files and the current
    folder."""
    text = " ".join((ROOT / "SECURITY.md").read_text().split())
    return Outcome({"statements": len(STATED)}, {"missing": [k for k, v in STATED.items() if not re.search(v, text)]})


def documented(_: Effort) -> Outcome:
    """Every `radii` command in code and in running text of the manual, the README, SECURITY.md, results/, examples and
    the help, hints and errors of the source: command and options must exist, and torchrun must get no --run."""
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("results/**/*.md")]
    pages += [*ROOT.glob("src/radii/**/*.html"), *ROOT.glob("docs/**/*.ipynb"), *ROOT.glob("examples/**/*.ipynb")]
    sources = [*ROOT.glob("src/radii/**/*.py"), *ROOT.glob("examples/*.py")]
    found = {(path, words) for path in pages + sources for words in spelled(path)}
    wrong = [f"{path.relative_to(ROOT)}: {words}" for path, words in sorted(found) if not _parses(words)]
    return Outcome({"commands": len(found), "files": len(pages) + len(sources)}, {"that cannot be typed": wrong})


SPAN = re.compile(r"(?<!`)`((?:torchrun [^`\n]*-m )?radii [a-z][^`\n]*)`(?!`)")
LINE = re.compile(r"^ *(?:\$ )?((?:torchrun .*-m )?radii [a-z].*)$", re.MULTILINE)
"""Commands in running text, and lines of their own."""
TAGGED = re.compile(r"<code>((?:torchrun [^<\n]*-m )?radii [a-z][^<\n]*)</code>")
CELL = re.compile(r'"[!%]?(radii [a-z][^"\\\n]*)')
"""Commands on a page of HTML, and in the lines of a notebook."""


def spelled(path: Path) -> list[str]:
    """Return the commands in a file: in backquotes, and in the fenced or indented blocks of a page."""
    text = path.read_text(errors="replace").replace("\\\n", " ")
    spans = SPAN.findall(text)
    if path.suffix == ".md":
        fences = "".join(re.findall(r"^```(?:sh|console|bash)?\n(.*?)^```$", text, re.DOTALL | re.MULTILINE))
        spans += LINE.findall(fences)
    spans += TAGGED.findall(text) if path.suffix == ".html" else CELL.findall(text) if path.suffix == ".ipynb" else []
    return [span if path.suffix == ".md" else re.sub(r"\{+[^{}]*\}+", "X", span) for span in spans]


def _parses(text: str) -> bool:
    """Whether a command exists with these options; arguments may be missing where a text speaks of it."""
    from cyclopts import CycloptsError, MissingArgumentError

    if any(mark in text for mark in ("...", "…", "[", "<")):
        text = re.split(r"\.\.\.|…|\[|<", text)[0]
    try:
        words = shlex.split(text, comments=True)
    except ValueError:
        return True  # a text that is cut in the middle of a word, such as one that spans lines
    if words[0] == "torchrun":
        if "--run" in words:
            return False
        words = words[words.index("radii") :]
    words = [word for word in words if word not in ("-", "X")]  # standard input, and what a program puts in
    for stop in ("|", ">", "&&", ";"):
        words = words[: words.index(stop)] if stop in words else words
    try:
        cli.app.parse_args(words[1:], exit_on_error=False, print_error=False)
    except MissingArgumentError:
        return True
    except CycloptsError:
        return False
    return True
