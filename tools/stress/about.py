"""Items 5 to 9: what a certificate is about."""

import random
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, get_args
from unittest.mock import patch

import numpy as np
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import nn

from radii import certifiers, engines
from radii.certification import certify
from radii.certification.certify import CertificationConfig, CertificationSession, certify_image, certify_run
from radii.certification.load import open_run
from radii.engines import EngineSpec
from radii.runs import certificates
from radii.runs.certificates import identity
from radii.runs.recipe import Recipe, Training
from radii.runs.run import Run
from radii.smoothing.addresses import Purpose, entropy
from radii.smoothing.noise import Gaussian
from radii.training.loop import train
from radii.training.soft_labels import soft_labels
from tools.stress.edits import certified_run
from tools.stress.outcome import Effort, Outcome, refused

FIXED = certifiers.create("fixed", selection=20, estimation=200)


def other_data(effort: Effort) -> Outcome:
    """Certification, training and soft labels continued after a pixel was changed by one level, a label by one, or two
    images were exchanged, anywhere in the split."""
    run, data = _own(effort)
    soft_labels(run, samples=4, engine="torch")
    acts: dict[str, tuple[str, Callable[[], object]]] = {
        "certify": ("test", lambda: _certify(run, max_images=3)),
        "train": ("train", lambda: train(run.recipe, run.path, data=data)),
        "soft labels": ("train", lambda: soft_labels(run, samples=4, engine="torch")),
    }
    _certify(run, max_images=3)
    run.weights_file.rename(run.weights_file.with_suffix(".kept"))
    accepted, whole, rng = [], data.read_bytes(), random.Random(effort.seed)
    for number in range(tries := effort.times(60, 6)):
        name, (split, act) = list(acts.items())[number % 3]
        trained = name != "train"
        run.weights_file.with_suffix(".kept").rename(run.weights_file) if trained else None
        told = _change(data, split, rng)
        if not refused(act, "other data|soft labels of"):
            accepted.append(f"{name} after {told}")
        data.write_bytes(whole)
        run.weights_file.rename(run.weights_file.with_suffix(".kept")) if trained else None
    return Outcome({"commands": len(acts), "changes": tries}, {"accepted": accepted})


def identities(effort: Effort) -> Outcome:
    """Workers that find other weights, data, code or artefacts than their parent, and weights that are replaced while a
    process reads them."""
    run, _ = _own(effort)
    config = CertificationSession(_config(run)).config
    accepted = []
    for key, _ in config.identity:
        meant = tuple((name, '"other"' if name == key else value) for name, value in config.identity)
        if not refused(partial(certify_image, replace(config, identity=meant), 0), "changed since"):
            accepted.append(key)
    swaps = effort.times(20, 2)

    def swapped(*arguments: Any) -> Any:
        retrain(run)
        return open_run(*arguments)

    with patch.object(certify, "open_run", swapped):
        begin = partial(CertificationSession, _config(run))
        accepted += ["weights swapped" for _ in range(swaps) if not refused(begin, "weights of .* changed since")]
    return Outcome({"digests": len(config.identity), "swaps at start-up": swaps}, {"accepted": accepted})


def engine_choice(effort: Effort) -> Outcome:
    """Runs opened again and again with the engine `auto`: by the real race of engines, and by one whose winner changes
    every time."""
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
    """Certificate files with one byte changed, headers with one byte changed in what decides a row, and lines removed,
    exchanged or doubled: read, and compared with what was written."""
    path = next((certified_run(effort.folder) / "run" / "certificates").glob("*.tsv"))
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
    """A second seed for images that have a certificate, with other numbers of images, samples, blocks, sigmas and other
    certifiers; and streams of random numbers of all purposes at equal addresses."""
    run, _ = _own(effort)
    _certify(run, max_images=10)
    rng, accepted = random.Random(effort.seed), []
    for number in range(tries := effort.times(60, 6)):
        fields = _another_way(rng)
        if not refused(partial(_certify, run, seed=number + 1, **fields), "with seed 0"):
            accepted.append(str(fields))
    addresses = effort.times(10_000, 500)
    numbers = [tuple(rng.randrange(1 << rng.choice((2, 8, 32, 40))) for _ in range(4)) for _ in range(addresses)]
    streams = [entropy(purpose, *address) for address in set(numbers) for purpose in get_args(Purpose)]
    doubled = ["an address of two purposes"] * (len(streams) - len(set(streams)))
    counts = {"ways round": tries, "addresses of streams": len(streams)}
    return Outcome(counts, {"accepted": accepted, "streams of two purposes": doubled})


def retrain(run: Run) -> None:
    """Other weights in the same run, as if it had been trained again."""
    state = {name: tensor + 0.01 for name, tensor in load_file(run.weights_file).items()}
    with safe_open(run.weights_file, "pt") as file:
        metadata = file.metadata()
    save_file(state, run.weights_file, metadata)


def _own(effort: Effort) -> tuple[Run, Path]:
    """A run without certificates, and its data."""
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


def _certify(run: Run, **fields: Any) -> Path:
    return certify_run(_config(run, **fields), workers=1)


def _change(data: Path, split: str, rng: random.Random) -> str:
    """Change one thing of a split."""
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
    """A race of engines that has another winner every time."""
    order = iter(winners[first % 2 :])
    return lambda spec, engine: ((next(order) if engine == "auto" else engine), spec.model)


def _opened(run: Run) -> str:
    return open_run(run, "auto", Gaussian(0.25), None, 128)[0]


def _untouched(path: Path, known: certificates.Certificates) -> bool:
    """Whether a file is refused, or read as it was written."""
    try:
        found = certificates.read(path)
    except ValueError:
        return True
    return list(found.rows) == list(known.rows) and identity(found.header) == identity(known.header)


def _orders(rows: int) -> list[list[int]]:
    """One line removed but for the last, whose loss is a stop; two neighbours exchanged; a line doubled."""
    whole = list(range(rows))
    removed = [whole[:at] + whole[at + 1 :] for at in range(rows - 1)]
    exchanged = [[*whole[:at], at + 1, at, *whole[at + 2 :]] for at in range(rows - 1)]
    return [*removed, *exchanged, *([*whole[: at + 1], *whole[at:]] for at in range(rows))]


def _another_way(rng: random.Random) -> dict[str, Any]:
    """Other settings of a certification that has image 0 in it."""
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
