"""Items 18 to 21: damaged files, runs from strangers, the network and progress bars."""

import csv
import io
import os
import random
import re
import shutil
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import chdir
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

from rich.console import Console

import radii
from radii import certifiers
from radii.certification.certify import CertificationConfig, certify_run
from radii.cli.progress import CertificationBar
from radii.reports.report import report
from radii.reports.text import csv_cell, markdown_text
from radii.runs.certificates import Row
from radii.runs.recipe import Recipe, Training
from radii.runs.run import Run
from radii.runs.trust import UntrustedError
from radii.training.loop import train
from radii.training.transfer import train_students
from tools import network
from tools.fuzz import complaints, fuzz
from tools.readers import READERS
from tools.stress.outcome import Effort, Outcome

DAMAGES, READER_SECONDS = 2_500, 600.0
"""Files and seconds for one reader, whichever comes first."""
FEW = 20
"""Files for one reader in the short form."""


def readers(effort: Effort) -> Outcome:
    """Every reader gets files with one to three random damages (flipped bits, cuts, insertions, extreme numbers, deep
    nesting), ten seconds and 512 MB: it must read them, or refuse them in one sentence that names the file. A .mat file
    is read in a separate process, a fork of one that has scipy loaded."""
    damage = partial(damage_files, effort.folder, effort.times(DAMAGES, FEW), effort.seed)
    if effort.short:
        return _summarise({name: damage(name) for name in READERS})
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        return _summarise(dict(zip(READERS, pool.map(damage, READERS), strict=True)))


def damage_files(folder: Path, count: int, seed: int, name: str) -> Counter[str]:
    """Return how often one reader read, refused or failed on damaged files."""
    warnings.simplefilter("ignore")
    with TemporaryDirectory(dir=folder) as place:
        return fuzz(READERS[name], Path(place), count, seed, READER_SECONDS)


def _summarise(found: dict[str, Counter[str]]) -> Outcome:
    total = sum(found.values(), Counter[str]())
    wrong = [f"{name}: {case}" for name, each in found.items() for case in complaints(each)]
    hangs = [case for case in wrong if "took more than" in case]
    memory = [case for case in wrong if "of memory" in case]
    rest = [case for case in wrong if case not in hangs and case not in memory]
    counts = {name: sum(each.values()) for name, each in found.items()}
    fewer = ", ".join(f"{name} {count:,}" for name, count in counts.items() if count < max(counts.values()))
    remark = f"{total['refused']:,} refused with an error, {total['read']:,} read"
    return Outcome(
        {"readers": len(found), "damaged files": sum(counts.values()), "at most for one reader": max(counts.values())},
        {"tracebacks or unclear messages": rest, "hangs": hangs, "readers beyond their memory": memory},
        f"{remark}; fewer files: {fewer}" if fewer else remark,
    )


ROWS, BAR_SECONDS = 20_000, 2.0
RECIPE = Recipe(
    dataset="digits",
    model="digits_mlp",
    sigma=0.25,
    training=Training(epochs=1, images_per_step=512, learning_rate=0.05),
)
CANARY = 'import pathlib\npathlib.Path("canary").write_text("imported")\n'
NAMES = ("os:system", "nets:Tiny", "nets.deeper:Tiny", "no_such_module:Tiny")
PLACES = (('model = "digits_mlp"', "model"), ('dataset = "digits"', "dataset"), ('name = "gaussian"', "name"))
USES: dict[str, Callable[[Run], object]] = {
    "load": lambda run: radii.load(run.path),
    "certify": lambda run: certify_run(
        CertificationConfig(run=run.path, certifier=certifiers.create("fixed", estimation=100)), workers=1
    ),
    "report": lambda run: report([run.path], run.path.parent / "out"),
    "transfer": lambda run: list(train_students(run, RECIPE, ["lenet"])),
}
ALPHABET = "=+-@\t\r\n |*_`<>[]()\\'\",;:!ax19.eé\x1b\u202e"


def bars(_: Effort) -> Outcome:
    """The progress bar of a certification gets 20,000 rows on a terminal: it may take at most two seconds of CPU
    time."""
    began = time.process_time()
    with CertificationBar(Console(file=io.StringIO(), force_terminal=True, width=100)) as bar:
        for number in range(ROWS):
            bar(ROWS, Row(number, 1, number % 2, 0.5, 0.1))
    seconds = time.process_time() - began
    slow = [] if seconds < BAR_SECONDS else [f"{seconds:.1f} s"]
    return Outcome({"rows": ROWS}, {"bars that are too slow": slow}, f"{seconds:.2f} s")


def strangers(effort: Effort) -> Outcome:
    """OpenVINO and NNCF run in processes that record every network call, with an empty home directory. Runs whose
    recipes name code as model, dataset or objective are opened in every way: the code must not be imported. Random text
    is written to CSV and Markdown cells: none may become a formula or markup."""
    calls, left = ([], []) if effort.short else _connections(effort.folder / "network")
    imported = _canaries(effort.folder / "trust")
    texts = effort.times(100_000, 2_000)
    formulas, markup = _texts(texts, effort.seed)
    counts = {"processes": 0 if effort.short else 2, "runs naming code": len(USES) * len(NAMES) * len(PLACES)}
    bad = {"connections": calls, "files in the home directory": left, "imports": imported}
    return Outcome({**counts, "texts": texts}, {**bad, "formulas": formulas, "markup": markup})


def security(_: Effort) -> Outcome:
    """SECURITY.md must say what a certificate promises and what not, how to deploy and how to report a
    vulnerability."""
    file = Path(__file__).parents[2] / "SECURITY.md"
    heads = re.findall(r"^## (.*)$", file.read_text(), re.MULTILINE) if file.is_file() else []
    wanted = ["What a certificate promises", "What it does not promise", "Deployment", "Reporting a vulnerability"]
    return Outcome({"sections": len(heads)}, {"missing": [head for head in wanted if head not in heads]})


def _connections(folder: Path) -> tuple[list[str], list[str]]:
    """Return the network calls and files of engines, started alone and after the user's own import of OpenVINO."""
    (folder / "own").mkdir(parents=True)
    (folder / "engines").mkdir()
    calls, left = network.run(folder / "engines", network.PREPARE + network.WAIT)
    after, _ = network.run(folder / "own", network.OWN_IMPORT + network.PREPARE + network.WAIT)
    return calls + after, list(map(str, left))


def _canaries(folder: Path) -> list[str]:
    """Return the uses of a run that imported the code it names, or did not refuse it."""
    folder.mkdir()
    trained, wrong = train(RECIPE, folder / "trained"), []
    (folder / "nets.py").write_text(CANARY)
    environment = patch.dict(os.environ, {"XDG_STATE_HOME": str(folder / "state")})
    with chdir(folder), environment, patch.object(sys, "path", [str(folder), *sys.path]), patch.dict(sys.modules):
        sys.modules.pop("nets", None)  # another test of this process may have imported one
        for use in USES:
            for name in NAMES:
                for old, key in PLACES:
                    told = f"{use} of a run with {key} {name}"
                    refused = _refuses(use, trained, folder / "run", old, f'{key} = "{name}"')
                    wrong += [] if refused and not Path("canary").exists() and "nets" not in sys.modules else [told]
    return wrong


def _refuses(use: str, trained: Run, copy: Path, old: str, new: str) -> bool:
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(trained.path, copy)
    run = Run(copy)
    text = run.recipe_file.read_text()
    assert old in text, f"the recipe has no {old}"
    run.recipe_file.write_text(text.replace(old, new))
    try:
        USES[use](run)
    except UntrustedError:
        return True
    return False


def _texts(count: int, seed: int) -> tuple[list[str], list[str]]:
    """Return texts that a spreadsheet would compute, and those that Markdown would not show as they are."""
    rng, formulas, markup = random.Random(seed), [], []
    for _ in range(count):
        text = "".join(rng.choices(ALPHABET, k=rng.randint(0, 8)))
        (cell,) = next(csv.reader(io.StringIO(_written(text)))) or [""]
        if cell[:1] in tuple("=+-@\t\r") and not _number(cell):
            formulas.append(repr(text))
        shown = markdown_text(text)
        if "\n" in shown or re.search(r"(?<!\\)(\\\\)*[|*_`<>\[\]]", re.sub(r"\\.", "", shown)):
            markup.append(repr(text))
    return formulas, markup


def _written(text: str) -> str:
    out = io.StringIO()
    csv.writer(out).writerow([csv_cell(text)])
    return out.getvalue()


def _number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
