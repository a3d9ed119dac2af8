"""Items 5 to 10: a certificate is about one model, one dataset and one seed, and edits of its file are noticed."""

import random
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from shutil import copytree
from typing import Any, get_args
from unittest.mock import patch

import numpy as np
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import nn

from radii import certifiers, engines
from radii.certification import certify
from radii.certification.certify import CertificationConfig, certify_run, open_certification
from radii.certification.load import open_run
from radii.certification.verify import verify_run
from radii.engines import EngineSpec
from radii.runs import certificates, trust
from radii.runs.certificates import identity
from radii.runs.recipe import Recipe, Training
from radii.runs.run import Run
from radii.smoothing.addresses import Purpose, entropy
from radii.smoothing.noise import Gaussian
from radii.training.loop import train
from radii.training.soft_labels import soft_labels
from radii.workers.voter import Shipped
from tools.stress import edits
from tools.stress.outcome import Effort, Outcome, refused

FIXED = certifiers.create("fixed", selection=20, estimation=200)


def other_data(effort: Effort) -> Outcome:
    """Certification, training and soft labels are continued after a pixel changed by one level, a label changed or two
    images were exchanged anywhere in the split: all must be refused."""
    run, data = _own(effort)
    soft_labels(run, samples=4, engine="torch")
    acts: dict[str, tuple[str, Callable[[], object]]] = {
        "certify": ("test", lambda: _certify_own(run, max_images=3)),
        "train": ("train", lambda: train(run.recipe, run.path, data=data)),
        "soft labels": ("train", lambda: soft_labels(run, samples=4, engine="torch")),
    }
    _certify_own(run, max_images=3)
    run.weights_file.rename(run.weights_file.with_suffix(".kept"))
    accepted, whole, rng = [], data.read_bytes(), random.Random(effort.seed)
    for number in range(tries := effort.times(60, 6)):
        name, (split, act) = list(acts.items())[number % 3]
        trained = name != "train"
        run.weights_file.with_suffix(".kept").rename(run.weights_file) if trained else None
        told = _change(data, split, rng)
        if not refused(act, "other data|other training images or labels|soft labels that were made with data"):
            accepted.append(f"{name} after {told}")
        data.write_bytes(whole)
        run.weights_file.rename(run.weights_file.with_suffix(".kept")) if trained else None
    return Outcome({"commands": len(acts), "changes": tries}, {"accepted": accepted})


def identities(effort: Effort) -> Outcome:
    """Weights that are replaced while a process reads them, and workers whose code differs: all must be refused."""
    run, _ = _own(effort)
    accepted = []
    shipment = Shipped(open_certification(_config(run)).classifier).shipment
    if not refused(replace(shipment, code={"nets:Net": "0" * 64}).open, "changed since"):
        accepted.append("code")
    swaps = effort.times(20, 2)

    def swapped(*arguments: Any, **named: Any) -> Any:
        retrain(run)
        return open_run(*arguments, **named)

    with patch.object(certify, "open_run", swapped):
        begin = partial(open_certification, _config(run))
        accepted += ["weights swapped" for _ in range(swaps) if not refused(begin, "weights of .* changed since")]
    return Outcome({"workers with other code": 1, "swaps at start-up": swaps}, {"accepted": accepted})


def engine_choice(effort: Effort) -> Outcome:
    """A run is opened again and again with the engine `auto`, with the real timing of engines and with one whose
    fastest engine changes every time: the engine must stay the same."""
    run, _ = _own(effort)
    opens = effort.times(8, 2)
    real = [] if effort.short else [_opened(run) for _ in range(opens)]
    different = [f"{real[0]} then {name}" for name in real if name != real[0]]
    rigged = effort.times(40, 5)
    for number in range(rigged):
        (run.path / "engine.json").unlink(missing_ok=True)
        with patch.object(engines, "prepare", _race(["torch", "compile"] * 4, number)):
            names = [_opened(run) for _ in range(opens)]
        different += [f"{names[0]} then {name}" for name in names if name != names[0]]
    counts = {"opens with a real race": len(real), "opens with a changing winner": rigged * opens}
    return Outcome(counts, {"different engines": different})


def mutations(effort: Effort) -> Outcome:
    """Certificate files and headers with one byte changed, and with lines removed, exchanged or doubled: each must be
    refused or read as it was written."""
    path = next((edits.certified_run(effort.folder) / "run" / "certificates").glob("*.tsv"))
    known, rng = certificates.read(path), random.Random(effort.seed)
    tries = {"bytes of rows": effort.times(5_000, 200), "bytes of headers": effort.times(2_000, 100)}
    passed = []
    for told, file in zip(tries, (path, certificates.header_file(path)), strict=True):
        whole = file.read_bytes()
        for _ in range(tries[told]):
            at = rng.randrange(len(whole) - 1)
            file.write_bytes(whole[:at] + bytes([whole[at] ^ rng.randrange(1, 256)]) + whole[at + 1 :])
            passed += [] if _untouched(path, known) else [f"{told}, place {at}"]
        file.write_bytes(whole)
    orders = _orders(len(known.rows))
    lines = path.read_bytes().splitlines(keepends=True)
    for order in orders:
        path.write_bytes(b"".join([lines[0], *(lines[1 + number] for number in order)]))
        passed += [] if _untouched(path, known) else [f"lines {order}"]
    return Outcome({**tries, "orders of lines": len(orders)}, {"passing": passed})


def seeds(effort: Effort) -> Outcome:
    """A second seed for images that have certificates, with other images, samples, block sizes, sigmas and certifiers,
    must be refused; streams of random numbers for different purposes must differ at equal addresses."""
    run, _ = _own(effort)
    _certify_own(run, max_images=10)
    rng, accepted = random.Random(effort.seed), []
    for number in range(tries := effort.times(60, 6)):
        fields = _another_way(rng)
        if not refused(partial(_certify_own, run, seed=number + 1, **fields), "with seed 0"):
            accepted.append(str(fields))
    addresses = effort.times(10_000, 500)
    numbers = [tuple(rng.randrange(1 << rng.choice((2, 8, 32, 40))) for _ in range(4)) for _ in range(addresses)]
    streams = [entropy(purpose, *address) for address in set(numbers) for purpose in get_args(Purpose)]
    doubled = ["an address of two purposes"] * (len(streams) - len(set(streams)))
    counts = {"other settings": tries, "addresses of streams": len(streams)}
    return Outcome(counts, {"accepted": accepted, "streams of two purposes": doubled})


def retrain(run: Run) -> None:
    """Change the weights of a run, as if it had been trained again."""
    state = {name: tensor + 0.01 for name, tensor in load_file(run.weights_file).items()}
    with safe_open(run.weights_file, "pt") as file:
        metadata = file.metadata()
    save_file(state, run.weights_file, metadata)


def _own(effort: Effort) -> tuple[Run, Path]:
    """Train a run on random images; return it and its data file."""
    rng, folder = np.random.default_rng(0), effort.folder
    content: dict[str, Any] = {}
    for split, count in (("train", 48), ("test", 24)):
        content[f"{split}_images"] = rng.integers(0, 256, (count, 8, 8), np.uint8)
        content[f"{split}_labels"] = np.arange(count) % 4
    np.savez(folder / "own.npz", **content)
    training = Training(epochs=1, images_per_step=16, learning_rate=0.05)
    recipe = Recipe(dataset="arrays", model="digits_cnn", sigma=0.25, training=training)
    return train(recipe, folder / "own", data=folder / "own.npz"), folder / "own.npz"


def _config(run: Run, **fields: Any) -> CertificationConfig:
    return CertificationConfig(**{"run": run.path, "certifier": FIXED, "engine": "torch", **fields})


def _certify_own(run: Run, **fields: Any) -> Path:
    return certify_run(_config(run, **fields), workers=1)


def _change(data: Path, split: str, rng: random.Random) -> str:
    """Change one pixel, label or pair of images of a split, and describe the change."""
    content = dict(np.load(data))
    images, labels = content[f"{split}_images"], content[f"{split}_labels"]
    one, other = rng.sample(range(len(images)), 2)
    kind = rng.choice(("a pixel", "a label", "two images"))
    if kind == "a pixel":
        images[one, rng.randrange(8), rng.randrange(8)] ^= 1
    elif kind == "a label":
        labels[one] = (labels[one] + 1) % 4
    else:
        images[[one, other]] = images[[other, one]]
    np.savez(data, **content)
    return f"{kind} of {split}, image {one}"


def _race(winners: list[str], first: int) -> Callable[[EngineSpec, str], tuple[str, nn.Module]]:
    """Return a choice of engines whose result changes every time."""
    order = iter(winners[first % 2 :])
    return lambda spec, engine: ((next(order) if engine == "auto" else engine), spec.model)


def _opened(run: Run) -> str:
    return open_run(run, "auto", Gaussian(0.25), None, 128)[0]


def _untouched(path: Path, known: certificates.Certificates) -> bool:
    """Return whether a file is refused, or read as it was written."""
    try:
        read = certificates.read(path)
    except ValueError:
        return True
    return list(read.rows) == list(known.rows) and identity(read.header) == identity(known.header)


def _orders(rows: int) -> list[list[int]]:
    """Return orders with a line removed, two neighbours exchanged or a line doubled; without its last line a file is
    unfinished, not wrong."""
    whole = list(range(rows))
    removed = [whole[:at] + whole[at + 1 :] for at in range(rows - 1)]
    exchanged = [[*whole[:at], at + 1, at, *whole[at + 2 :]] for at in range(rows - 1)]
    return [*removed, *exchanged, *([*whole[: at + 1], *whole[at:]] for at in range(rows))]


def _another_way(rng: random.Random) -> dict[str, Any]:
    """Return other settings of a certification that includes image 0."""
    ways: dict[str, list[Any]] = {
        "max_images": [1, 2, 5, 9, 24, None],
        "every": [1, 2, 3, 5, 23],
        "batch_size": [16, 64, 128],
        "noise": [None, Gaussian(0.25), Gaussian(0.3), Gaussian(0.1)],
        "certifier": [
            *(certifiers.create("fixed", selection=20 + more, estimation=200 - more) for more in (0, 1, 5)),
            *(certifiers.create(name) for name in certifiers.names()),
        ],
    }
    return {name: rng.choice(values) for name, values in ways.items()}


EDITS = (
    *(edits.radius_up, edits.a_vote_moved, edits.a_vote_more, edits.another_label, edits.another_class),
    *(edits.no_class, edits.an_abstention, edits.another_digest, edits.another_image, edits.samples_fewer),
)


OF_NO_COUNTS = tuple(edit for edit in EDITS if edit not in (edits.a_vote_moved, edits.a_vote_more))
"""Edits of a file without votes, such as that of `soft`."""


def verification(effort: Effort) -> Outcome:
    """`radii verify` on files of every certifier, computing every row again: it must accept an untouched file, and
    notice an edited cell with the old checksums, an edited cell with new checksums, and other weights under the old
    name."""
    made, rng = edits.certified_run(effort.folder / "made"), random.Random(effort.seed)
    missed, alarms, tries = [], [], 0
    for procedure in ["fixed"] if effort.short else edits.FIELDS:
        path = _only(made, effort.folder / procedure, procedure)
        alarms += [procedure] if verify_run(_run_of(path), rows=None).exit_code else []
        for number in range(1):
            for edit in EDITS if certificates.read(path).rows[0].counts else OF_NO_COUNTS:
                tries += 2
                missed += [f"{told}, {procedure} {number}" for told in _missed(path, edit, rng)]
        retrain(_run_of(path))
        tries += 1
        missed += [] if verify_run(_run_of(path), rows=1).exit_code == 1 else [f"other weights, {procedure}"]
    return Outcome({"edits": tries}, {"missed": missed, "false alarms": alarms})


def _run_of(path: Path) -> Run:
    return Run(path.parents[1])


def _only(made: Path, folder: Path, procedure: str) -> Path:
    """Copy the run with certificates of one procedure only, and return their file."""
    copytree(made, folder)
    trust.record_data(folder / "digits.npz")
    run = Run(folder / "run")
    for path in run.certificates.iterdir():
        path.unlink()
    return edits.certify(run, procedure)


def _missed(path: Path, edit: edits.Edit, rng: random.Random) -> list[str]:
    """Edit a row with new checksums and with the old ones, and return the edits that `radii verify` misses."""
    header = certificates.header_file(path)
    before = path.read_text(), header.read_text()
    rows = certificates.read(path).rows
    line = 1 + rng.choice([number for number, row in enumerate(rows) if row.correct])
    edits.reseal(path, edit, line)
    knowing = verify_run(_run_of(path), rows=None).exit_code == 1
    old, new = before[0].splitlines(), path.read_text().splitlines()
    kept = ["\t".join([*there.split("\t")[:-1], here.split("\t")[-1]]) for there, here in zip(new, old, strict=True)]
    path.write_text("\n".join(kept) + "\n")
    naive = verify_run(_run_of(path), rows=0).exit_code == 1
    path.write_text(before[0])
    header.write_text(before[1])
    return [
        f"{edit.__name__} with {who}"
        for who, found in (("new checksums", knowing), ("old checksums", naive))
        if not found
    ]
