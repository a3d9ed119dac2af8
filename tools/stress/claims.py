"""Items 24 to 34: certificates about another norm, function, noise or class, and claims that nobody measured."""

import json
import math
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import Executor, Future
from dataclasses import is_dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

import radii as package
from radii import bounds
from radii.workers.voter import Missing
from tools.stress.commands import radii
from tools.stress.outcome import Effort, Outcome
from tools.stress.subjects import QUICK, ROOT, certified, copied, rewrite, the_file, trained

SPLITS = ("train", "test")
LAPLACE = '{ name = "laplace:Laplace", scale = 0.2 }'


def norms(effort: Effort) -> Outcome:
    """The Laplace noise of docs/extending/noise.md, whose radii are in l1: certify, --linf, --json, a report, compare
    and an attack must say l1, never l2, and the l-infinity radius must be that of an l1 ball."""
    folder = copied(trained(), effort.folder / "norms")
    page = (ROOT / "docs" / "extending" / "noise.md").read_text()
    (code,) = re.findall(r"<!-- file: laplace.py -->\n```python\n(.*?)```", page, re.DOTALL)
    (folder / "laplace.py").write_text(code)
    noise = ("--noise", LAPLACE, "--trust", "laplace")
    certify = ("certify", "run", *noise, "--max", 4, *QUICK, "--set", "estimation=500")
    texts = {
        "certify": radii(*certify, "--linf", cwd=folder).text,
        "--json": radii(*certify, "--json", cwd=folder).text,
        "report": _report_text(folder, "--trust", "laplace"),
        "compare": radii("compare", "run", cwd=folder).text,
    }
    if not effort.short:
        attack = (
            "attack",
            "run",
            "--images",
            2,
            "--steps",
            2,
            "--samples",
            100,
            "--radii",
            "0.1",
            "--trust",
            "laplace",
        )
        texts["attack"] = radii(*attack, cwd=folder, seconds=120).text
    wrong = [f"{name}: {text[-200:]}" for name, text in texts.items() if "l1" not in text or re.search(r"\bl2\b", text)]
    linf = re.search(r"l-?inf\w*[^0-9]*([0-9.]+)", texts["certify"])
    average = re.search(r"average certified radius(?: in l1)? ([0-9.]+)", texts["certify"])
    if not (linf and average and float(linf[1]) <= float(average[1]) / 64 + 1e-3):
        wrong.append(f"l-infinity radius: {texts['certify'][-200:]}")
    return Outcome({"commands": len(texts), "norms": 2}, {"radii in a wrong norm": wrong})


def _report_text(folder: Path, *options: object) -> str:
    radii("report", "run", "--out", "out", *options, cwd=folder)
    return "".join(path.read_text(errors="replace") for path in sorted((folder / "out").glob("*.md")))


def forgeries(effort: Effort) -> Outcome:
    """Votes and radii of a certificate file are raised, its environment is that of another machine, removed or without
    a checksum, and every checksum is computed again, with float32 and int8: `radii verify` must not end with 0. Wrong
    answers are lowered in some, so that the sums agree. Untouched files must verify."""
    engines = ("torch",) if effort.short else ("torch", "openvino_int8")
    accepted, refused, tried = [], [], 0
    for engine in engines:
        made = _int8(effort.folder / engine, engine, effort.times(40, 8))
        verify = partial(radii, "verify", "run", "--rows", 100, seconds=300, fork=engine == "torch")
        sound = verify(cwd=made)
        refused += [] if sound.code == 0 else [f"{engine}: {sound}"]
        for name, forge in FORGERIES.items():
            for place in PLACES if name == "to the maximum" and not effort.short else ("elsewhere",):
                folder = copied(made, effort.folder / "forged")
                header = json.loads(the_file(folder).with_suffix(".json").read_text())
                PLACES[place](header)
                rewrite(the_file(folder), header, forge(_rows(the_file(folder)), header))
                result = verify(cwd=folder)
                tried += 1
                accepted += [f"{engine}, {name}, {place}: {result}"] if result.code == 0 else []
    return Outcome(
        {"forged files": tried, "engines": len(engines)}, {"accepted": accepted, "untouched files refused": refused}
    )


def _int8(folder: Path, engine: str, images: int) -> Path:
    copied(trained(), folder)
    options = ("--every", 11, "--max", images, "--engine", engine, "--workers", 1, "--set", "estimation=1000")
    result = radii("certify", "run", *options, cwd=folder, seconds=600, fork=engine == "torch")
    assert result.code == 0, result
    return folder


def _rows(path: Path) -> list[list[str]]:
    return [line.split("\t")[:-1] for line in path.read_text().splitlines()[1:]]


def _shift(cells: list[str], header: dict[str, Any], more: int) -> list[str]:
    """Give a row's class more votes, or fewer, and the radius that they prove."""
    if cells[2] == "-1":
        return cells
    counts = {int(label): int(votes) for label, votes in (pair.split(":") for pair in cells[7].split())}
    total, top = sum(counts.values()), int(cells[2])
    moved = min(more, total - counts[top])
    others = sorted((label for label in counts if label != top), key=lambda label: -counts[label])
    counts[top] += moved
    for label in others:
        taken = min(moved, counts[label]) if moved > 0 else moved
        counts[label] -= taken
        moved -= taken
    sigma, failure = header["noise"]["sigma"], header["parameters"]["failure"]
    bound = bounds.clopper_pearson_lower(counts[top], total, failure)
    radius = bounds.radius(bound, sigma) if bound > 0.5 else 0.0
    text = " ".join(f"{label}:{count}" for label, count in sorted(counts.items()) if count)
    return [*cells[:3], repr(radius), *cells[4:7], text, *cells[8:]]


def _to_the_maximum(rows: list[list[str]], header: dict[str, Any]) -> list[list[str]]:
    return [_shift(cells, header, 10**9) for cells in rows]


def _balanced(rows: list[list[str]], header: dict[str, Any]) -> list[list[str]]:
    """Raise right answers and lower wrong ones by as many votes."""
    return [_shift(cells, header, 60 if cells[4] == "1" else -60) for cells in rows]


def _a_little(rows: list[list[str]], header: dict[str, Any]) -> list[list[str]]:
    return [_shift(cells, header, 15) for cells in rows]


Forge = Callable[[list[list[str]], dict[str, Any]], list[list[str]]]
FORGERIES: dict[str, Forge] = {"to the maximum": _to_the_maximum, "balanced": _balanced, "a little": _a_little}


def _elsewhere(header: dict[str, Any]) -> None:
    for entry in header["environments"]:
        entry["instruction_set"] = "another"
        entry["versions"] = {**entry["versions"], "torch": "2.0.1"}


def _without(header: dict[str, Any]) -> None:
    del header["environments"]


def _unchecked(header: dict[str, Any]) -> None:
    _elsewhere(header)
    for entry in header["environments"]:
        entry.pop("checksum", None)


PLACES: dict[str, Callable[[dict[str, Any]], None]] = {
    "elsewhere": _elsewhere,
    "without an environment": _without,
    "without a checksum": _unchecked,
}


class Hidden(nn.Module):
    """A network whose weights and plain attributes do not determine its function."""

    def __init__(self, activation: Callable[[Tensor], Tensor], mask: float = 0.0, scale: float = 1.0) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(64, 32), nn.Linear(32, 10)
        self._activation, self._mask = activation, mask
        self.table, self.array = {"scale": scale}, np.array([scale])
        self._scale = scale

    def forward(self, images: Tensor) -> Tensor:
        hidden = self._activation(self.first(images.flatten(1)))
        logits = self.last(hidden) * self.table["scale"] * float(self.array[0]) * self._scale
        return torch.cat([logits[:, :9], torch.full_like(logits[:, :1], self._mask)], 1) if self._mask else logits


gelu = nn.functional.gelu
FUNCTIONS: dict[str, tuple[Callable[[], nn.Module], Callable[[], nn.Module]]] = {
    "tanh for relu": (lambda: Hidden(torch.relu), lambda: Hidden(torch.tanh)),
    "tanh for relu, a masked class": (lambda: Hidden(torch.relu, -1e9), lambda: Hidden(torch.tanh, -1e9)),
    "another mask": (lambda: Hidden(torch.relu, -1e4), lambda: Hidden(torch.relu, -1e5)),
    "gelu by tanh": (lambda: Hidden(gelu), lambda: Hidden(partial(gelu, approximate="tanh"))),
    "mish for silu": (lambda: Hidden(nn.functional.silu), lambda: Hidden(nn.functional.mish)),
    "leaky": (lambda: Hidden(torch.relu), lambda: Hidden(nn.functional.leaky_relu)),
    "a number in a dict": (lambda: Hidden(torch.relu), lambda: Hidden(torch.relu, 0.0, 2.0)),
}


def functions(effort: Effort) -> Outcome:
    """A certificate file is continued by another function of the same weights: another activation, behind a masked
    class too, a number in a dict, and an edited model table or normalisation in recipe.toml, after which soft labels,
    an attack and a comparison are tried too: all must be refused, and the same function accepted."""
    images = torch.rand(4, 1, 8, 8, generator=torch.Generator().manual_seed(effort.seed))
    accepted, refused, times = [], [], effort.times(5, 1)
    for number in range(times):
        for name, makes in FUNCTIONS.items():
            models = []
            for make in (makes[0], *makes):
                torch.manual_seed(effort.seed + number)
                models.append(make())
            out = effort.folder / f"{number}-{name.replace(' ', '-')}.tsv"
            first, same, other = (_continued(model, images, out) for model in models)
            refused += [] if first == same == "" else [f"{name}: {first or same}"]
            accepted += [] if other else [name]
    edits = {'model = "': 'normalisation = "centre"\nmodel = "', "digits_cnn": "digits_mlp"}
    for old, new in edits.items():
        folder = copied(_voting(effort), effort.folder / "edited")
        recipe = folder / "run" / "recipe.toml"
        text = recipe.read_text()
        changed = re.sub(r"^normalisation.*\n", "", text, flags=re.MULTILINE) if "normalisation" in new else text
        recipe.write_text(changed.replace(old, new, 1))
        path = the_file(folder)
        certify = ("certify", "run", "--max", 8, *QUICK, "--set", "estimation=500")
        for command in (*VOTING, ("compare", "run"), certify, ("verify", "run")):
            if command is certify:  # two rows are still missing
                path.write_text("".join(path.read_text().splitlines(keepends=True)[:-2]))
            result = radii(*command, cwd=folder)
            accepted += [f"{new!r}, {command[0]}: {result}"] if result.code == 0 else []
    return Outcome(
        {"functions": len(FUNCTIONS) * times, "edited recipes": len(edits)},
        {"accepted": accepted, "same functions refused": refused},
    )


VOTING: tuple[tuple[object, ...], ...] = (
    ("soft-labels", "run", "--samples", 16, "--engine", "torch", "--workers", 1),
    ("attack", "run", "--images", 2, "--steps", 1, "--samples", 50, "--radii", 0.1, "--engine", "torch"),
)
"""Commands besides `radii certify` that count votes, and continue."""


def _voting(effort: Effort) -> Path:
    """Return the folder of a run with soft labels and an attack that were begun."""
    folder = effort.folder / "voting"
    if not folder.exists():
        copied(certified(), folder)
        for command in VOTING:
            result = radii(*command, cwd=folder, seconds=120)
            assert result.code == 0, result
        for file in (*folder.glob("run/*.counts"), *folder.glob("run/attacks/*.jsonl")):
            content = file.read_bytes()
            file.write_bytes(content[: content.rindex(b"\n", 0, -1) + 1] if file.suffix == ".jsonl" else content[:4000])
    return folder


def _continued(model: nn.Module, images: Tensor, out: Path) -> str:
    """Certify to a file; return the error, or nothing."""
    smoothed = package.SmoothedClassifier(model, sigma=0.25, classes=10)
    labels = torch.arange(len(images)) % 10
    try:
        package.certify_dataset(smoothed, (images, labels), "fixed", estimation=200, seed=0, out=out, workers=1)
    except ValueError as error:
        return str(error)
    return ""


class Lying(Executor):
    """Changes what its workers answer."""

    def __init__(self, lie: Callable[[Any], Any]) -> None:
        self.lie = lie

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            answer = fn(*args, **kwargs)
            future.set_result(self.lie(answer) if is_dataclass(answer) and hasattr(answer, "answers") else answer)
        except Exception as error:
            future.set_exception(error)
        return future


def _votes(change: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda report: replace(report, answers=[change(answer) for answer in report.answers])


def _first_again() -> Callable[[Any], Any]:
    """Answer with the first report of this length again and again, as a cache by mistake."""
    first: dict[int, Any] = {}
    return lambda report: first.setdefault(len(report.answers), report)


LIES: dict[str, Callable[[], Callable[[Any], Any]]] = {
    "doubled votes": lambda: _votes(lambda answer: 2 * answer),
    "negative votes": lambda: _votes(lambda answer: answer - answer.max() + np.eye(len(answer), dtype=int)[0]),
    "votes as numbers with a point": lambda: _votes(lambda answer: answer + 0.0),
    "votes of eight bits": lambda: _votes(lambda answer: answer.astype(np.uint8)),
    "votes of more classes": lambda: _votes(lambda answer: np.append(answer, 0)),
    "masked votes": lambda: _votes(lambda answer: np.ma.masked_array(3 * answer, mask=answer == answer.max())),
    "a list": lambda: _votes(list),
    "an answer too few": lambda: lambda report: replace(report, answers=report.answers[:-1]),
    "an answer too many": lambda: lambda report: replace(report, answers=[*report.answers, report.answers[0]]),
    "the first report again": _first_again,
    "no time": lambda: lambda report: replace(report, seconds=math.nan),
    "a negative time": lambda: lambda report: replace(report, seconds=-1e12),
    "no environment": lambda: lambda report: replace(report, environment={}),
    "an environment with a row": lambda: (
        lambda report: replace(report, environment={**report.environment, "first_row": 3})
    ),
    "an environment without a batch": lambda: (
        lambda report: replace(report, environment={**report.environment, "batch_size": 0})
    ),
    "no time at all": lambda: lambda report: replace(report, seconds=5e-324),
    "no classifier, again and again": lambda: lambda _: Missing(),
    "an object": lambda: lambda _: object(),
    "nothing": lambda: lambda _: None,
}


def executors(effort: Effort) -> Outcome:
    """An executor changes what its workers answer: votes doubled, negative, of another type or length, masked, reports
    mixed up, dropped or malformed. The certification must end with an error of one sentence or with the true rows, and
    the file must be readable and be continued to the true rows."""
    images = torch.rand(6, 1, 8, 8, generator=torch.Generator().manual_seed(effort.seed))
    torch.manual_seed(effort.seed)
    smoothed = package.SmoothedClassifier(Hidden(torch.relu), sigma=0.25, classes=10)
    data = (images, torch.arange(6))

    def certify(**options: Any) -> list[tuple[Any, ...]]:
        made = package.certify_dataset(smoothed, data, "fixed", estimation=300, seed=0, **options)
        rows = made.certificates.rows
        return [(row.index, row.prediction, row.radius, row.samples, dict(row.counts)) for row in rows]

    truth, false, unclear = certify(workers=1), [], []
    times = effort.times(3, 1)
    for number in range(times):
        for name, lie in LIES.items():
            out = effort.folder / f"{number}-{name.replace(' ', '-')}.tsv"
            try:
                false += [] if certify(executor=Lying(lie()), workers=1, out=out) == truth else [name]
            except ValueError:
                pass
            except Exception as error:
                unclear.append(f"{name}: {type(error).__name__}: {error}")
            try:
                false += [] if certify(workers=1, out=out) == truth else [f"{name}, continued"]
            except Exception as error:
                unclear.append(f"{name}, continued: {type(error).__name__}: {error}")
    return Outcome({"lies": len(LIES) * times}, {"false rows": false, "unclear errors": unclear})


def repeats(effort: Effort) -> Outcome:
    """Images are certified again and again with one seed: other numbers of samples, other certifiers, another noise.
    Report, show and verify must say how often."""
    folder = copied(certified(), effort.folder / "again")
    again = (
        ("--set", "estimation=600"),
        ("--set", "estimation=700"),
        ("--noise", '{ name = "grid", sigma = 0.25, levels = 16 }', "--set", "estimation=500"),
        ("--with", "sequential", "--radii", "0.25"),
    )
    silent = []
    for number, options in enumerate(again[: effort.times(4, 2)], start=1):
        result = radii("certify", "run", "--max", 8, *QUICK, *options, cwd=folder, seconds=120)
        assert result.code == 0, result
        verified = radii("verify", "run", "--rows", 0, cwd=folder, seconds=120).text
        told = {"verify": " ".join(verified.split()), "report": " ".join(_report_text(folder).split())}
        times = f"{number} time"
        silent += [f"{name} after {number}: {text[-200:]}" for name, text in told.items() if times not in text]
    return Outcome({"repeats": effort.times(4, 2)}, {"silent": silent})


def deployed(effort: Effort) -> Outcome:
    """All certificates of a run are of another noise than its recipe's: `predict`, `load` and a report must use and
    name the certified one."""
    image = np.zeros((8, 8), np.uint8)
    wrong = []
    noises = (
        '{ name = "grid", sigma = 0.5, levels = 16 }',
        '{ name = "gaussian", sigma = 0.5 }',
        '{ name = "grid", sigma = 0.25, levels = 16 }',
    )
    for number, noise in enumerate(noises[: effort.times(3, 1)]):
        folder = copied(trained(), effort.folder / f"noise-{number}")
        Image.fromarray(image).save(folder / "image.png")
        made = radii("certify", "run", "--noise", noise, "--max", 3, *QUICK, "--set", "estimation=300", cwd=folder)
        assert made.code == 0, made
        name, sigma = re.findall(r'"(\w+)", sigma = ([0-9.]+)', noise)[0]
        loaded = package.load(folder / "run").noise
        if (type(loaded).__name__.lower(), str(getattr(loaded, "sigma", None))) != (name, sigma):
            wrong.append(f"load: {loaded}, certified {noise}")
        told = radii("predict", "run", "image.png", "--json", cwd=folder).text
        if f'"sigma": {sigma}' not in told or f'"{name}"' not in told:
            wrong.append(f"predict: {told[-200:]}, certified {noise}")
    return Outcome({"noises": effort.times(3, 1)}, {"other noises than the certified one": wrong})


def classes(effort: Effort) -> Outcome:
    """A folder of images gets a class more, a class less, another name or other order than the model's: certify,
    attack, soft-labels, harden and transfer must refuse it, and never shift the labels."""
    folder = effort.folder / "classes"
    _write_images(folder / "data", ("ant", "bee", "cat"))
    dataset = ("--set", "dataset.name=folder", "--set", "dataset.size=8", "--set", "dataset.channels=1")
    train = ("train", "digits/gaussian-0.25", "--run", "run", "--data", "data", "--set", "training.epochs=1", *dataset)
    made = radii(*train, cwd=folder, seconds=120)
    assert made.code == 0, made
    shifted, tried = [], 0
    changes: dict[str, Callable[[Path], object]] = {
        "a class more": lambda data: [shutil.copytree(data / s / "bee", data / s / "aardvark") for s in SPLITS],
        "a class less": lambda data: [(data / s / "ant").rename(data.parent / f"{s}-ant") for s in SPLITS],
        "another name": lambda data: [(data / s / "ant").rename(data / s / "zebra") for s in SPLITS],
        "in the test images alone": lambda data: (data / "test" / "bee").rename(data / "test" / "ape"),
    }
    commands = {
        "certify": ("certify", "run", "--data", "data", "--max", 2, *QUICK, "--set", "estimation=100"),
        "attack": ("attack", "run", "--data", "data", "--images", 1, "--steps", 1, "--samples", 50),
        "soft labels": ("soft-labels", "run", "--data", "data", "--samples", 8, "--workers", 1),
        "harden": ("harden", "run", "--data", "data", "--minutes", 0.1),
        "transfer": ("transfer", "--teacher", "run", "--model", "digits_mlp", "--data", "data", "--minutes", 0.01),
    }
    for name, change in list(changes.items())[: effort.times(4, 2)]:
        copied(folder / "data", folder / "kept")
        change(folder / "data")
        for command, words in commands.items():
            result = radii(*words, cwd=folder, seconds=120, fork=True)  # it is refused before any gradient
            tried += 1
            if result.code != 2 or not result.is_clear:
                shifted.append(f"{name}, {command}: {result}")
        copied(folder / "kept", folder / "data")
    return Outcome({"commands on other classes": tried}, {"accepted": shifted})


def _write_images(data: Path, names: tuple[str, ...]) -> None:
    rng = np.random.default_rng(0)
    for split in SPLITS:
        for name in names:
            (data / split / name).mkdir(parents=True)
            for number in range(6):
                pixels = rng.integers(0, 256, (8, 8), np.uint8)
                Image.fromarray(pixels).save(data / split / name / f"{number}.png")


def untested(effort: Effort) -> Outcome:
    """Certificates of a few radii: --json and the page of a report must give no share at a radius that was not tested,
    no bound as the average certified radius, and must say whether labels were known."""
    folder = copied(trained(), effort.folder / "untested")
    wrong = []
    choices = (("0.25",), ("0.1", "0.3"), ("0.05",))
    for radii_, known in [(chosen, known) for chosen in choices[: effort.times(3, 1)] for known in (True, False)]:
        options = ("--with", "sequential", "--radii", ",".join(radii_), "--max", 4, *QUICK)
        labels = () if known else ("--without-labels",)
        told = radii("certify", "run", *options, *labels, "--json", "--quiet", cwd=folder, seconds=120)
        table = json.loads(told.text.strip().splitlines()[-1])
        shares = table["certified_accuracy"]
        if {float(radius) for radius in shares if shares[radius] is not None} - {0.0, *map(float, radii_)}:
            wrong.append(f"{radii_}: {shares}")
        if table.get("average_certified_radius") is not None:
            wrong.append(f"{radii_}: an average certified radius of {table['average_certified_radius']}")
        if table.get("label_known") is not known:
            wrong.append(f"{radii_}: label_known = {table.get('label_known')}, expected {known}")
    return Outcome({"answers": effort.times(6, 2)}, {"claims that were not measured": wrong})


def abstentions(effort: Effort) -> Outcome:
    """Attacks with so few votes that the classifier abstains: an abstention must not count as an answer that survived,
    so that the accuracy after an attack is at most that before it, and at most the share of right answers."""
    folder = copied(trained(), effort.folder / "abstentions")
    wrong = []
    tries = effort.times(4, 1)
    for seed in range(tries):
        attack = ("attack", "run", "--images", 6, "--steps", 2, "--samples", 12, "--radii", "0.25", "--seed", seed)
        made = radii(*attack, cwd=folder, seconds=200)
        assert made.code == 0, made
        path = max((folder / "run" / "attacks").glob("*.jsonl"), key=lambda file: file.stat().st_mtime)
        rows = [json.loads(line) for line in path.read_text().splitlines()[1:]]
        right = sum(row["prediction"] == row["label"] and row["distance"] is None for row in rows)
        shares = [float(share) for share in re.findall(r"([0-9.]+) ?%", made.text.split("next:")[0].split(";")[0])]
        most = 100 * right / len(rows) + 0.1
        wrong += [f"seed {seed}: {shares} stated, {right} of {len(rows)} right"] if min(shares) > most else []
    return Outcome({"attacks": tries}, {"abstentions that survived": wrong})


def protocols(effort: Effort) -> Outcome:
    """The README's numbers must be what scripts/results writes from the files in results/, with their protocol, and
    examples/whole_test_set.py must refuse files of different weights, noises or images."""
    folder = copied(certified(), effort.folder / "protocols")
    path = the_file(folder)
    accepted = []
    edits: dict[str, dict[str, Any]] = {
        "weights": {"weights": "0" * 64},
        "noise": {"noise": {"name": "gaussian", "sigma": 0.5}},
        "data": {"data": "0" * 64},
    }
    for name, edit in edits.items():
        other = folder / "other.tsv"
        shutil.copy(path, other)
        other.with_suffix(".json").write_text(json.dumps({**json.loads(path.with_suffix(".json").read_text()), **edit}))
        rewrite(other)
        script = [sys.executable, str(ROOT / "examples" / "whole_test_set.py"), str(path), str(other)]
        done = subprocess.run(script, capture_output=True, text=True, check=False, timeout=120)
        accepted += [name] if done.returncode == 0 or "differ in" not in done.stderr else []
    readme = (ROOT / "README.md").read_text()
    table = re.search(r"\|[^\n]*(?:sigma|σ)[^\n]*\|\n\|[-| :]+\|\n(?:\|[^\n]+\|\n)+", readme, re.IGNORECASE)  # noqa: RUF001
    without = [] if table else ["README.md has no table of numbers with a sigma"]
    return Outcome({"pairs of files": len(edits)}, {"accepted": accepted, "numbers without a protocol": without})


def tails(effort: Effort) -> Outcome:
    """Draws of certification noise: the shares beyond 3, 4 and 5 sigma must be those of the normal distribution, and
    SECURITY.md must say where draws end and what lies beyond."""
    from radii.smoothing.noise import Gaussian
    from radii.smoothing.streams import Stream

    rows, wide = effort.times(4000, 100), 3072
    noise, pixels = Gaussian(1.0), torch.zeros(wide)
    beyond = dict.fromkeys((3.0, 4.0, 5.0), 0)
    for first in range(0, rows, 100):
        out = torch.empty(100, 1, 1, wide)
        noise.draw(pixels.view(1, 1, wide), out, Stream.at("certify", effort.seed, 0, 1), first)
        for limit in beyond:
            beyond[limit] += int((out.abs() > limit).sum())
    wrong = []
    for limit, count in beyond.items():
        expected = rows * wide * math.erfc(limit / math.sqrt(2))
        if abs(count - expected) > 5 * math.sqrt(expected) + 1:
            wrong.append(f"{count} beyond {limit} sigma, expected {expected:.0f}")
    text = (ROOT / "SECURITY.md").read_text()
    silent = [word for word in ("tails", "Draws end at", "grid") if word not in text]
    return Outcome({"draws": rows * wide}, {"wrong shares": wrong, "not stated": silent})
