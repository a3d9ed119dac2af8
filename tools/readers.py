"""Every reader of the package with a small file that it reads, for the tests and the stress tests."""

import gzip
import io
import json
import shutil
import tarfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
import scipy.io
import torch
from PIL import Image

from radii import datasets, models
from radii.datasets.cifar10 import read_members
from radii.datasets.mnist import read_idx
from radii.datasets.svhn import read_mat
from radii.interop.checkpoint import match_keys, read_checkpoint
from radii.reports import inputs
from radii.reports.page.page import Content, markdown
from radii.runs import certificates, lineage, readers, recipe
from radii.runs.certificate_writer import CertificateFile
from radii.runs.recipe import Recipe, Training
from radii.runs.run import Run
from radii.smoothing.noise import Gaussian
from radii.training.loop import train
from radii.training.weights import trained_model
from tools.forked import forks
from tools.fuzz import Reader

RNG = np.random.default_rng(0)
ROW = "0\t3\t3\t0.31\t1\t0.5\t1100\t3:990 5:10\n1\t2\t-1\t0.0\t0\t1 day, 0:00:14.5\t1100\t2:500 4:500\n"
UNSEALED = certificates.COLUMNS[:8]
"""The columns of version 0.1: without checksums a damage gets further."""
HEADER = {
    "procedure": "fixed",
    "parameters": {"failure": 0.001, "estimation": 1000, "selection": 100, "radius": None},
    "noise": Gaussian(0.25).describe(),
    "weights": "00",
    "dataset": "digits",
    "split": "test",
    "sigma": 0.25,
    "seed": 0,
    "images": 450,
    "every": 3,
    "most": None,
    "engine": "torch",
}


@cache
def _trained() -> Path:
    """Train a small run with certificates and a teacher, once; every reader copies it."""
    folder = Path(mkdtemp(prefix="radii-fuzz-"))
    training = Training(epochs=1, images_per_step=512, learning_rate=0.05)
    wanted = Recipe(dataset="digits", model="digits_mlp", sigma=0.25, training=training)
    for name in ("teacher", "run"):
        run = train(wanted, folder / name)
        run.certificates.mkdir()
        (run.certificates / "fixed-1.json").write_text(json.dumps(HEADER, indent=2))
        (run.certificates / "fixed-1.tsv").write_text("\t".join(UNSEALED) + "\n" + ROW)
    (folder / "run" / "origin.json").write_text(json.dumps({"teacher": {"path": "../teacher", "hash": "00"}}))
    cost = {"method": "smoothmix", "method_seconds_per_epoch": 0.35, "steps_timed": 5}
    (folder / "run" / "transfer.json").write_text(json.dumps(cost))
    return folder


def _in_run(name: str) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        shutil.copytree(_trained(), folder, dirs_exist_ok=True)
        return folder / "run" / name

    return make


def _sealed(folder: Path) -> Path:
    """Return the same certificates as they are written now, with checksums."""
    path = _in_run("certificates/fixed-1.tsv")(folder)
    rows = certificates.read(path).rows
    for old in path.parent.iterdir():
        old.unlink()
    file = CertificateFile(path, HEADER)
    for row in rows:
        file.append(row)
    return path


def _report(path: Path) -> object:
    """Return all that a report reads of a run."""
    run = next(parent for parent in path.parents if parent.name == "run")
    return markdown(Content(inputs.read([run])), [])


def _whole_run(path: Path) -> object:
    run = Run(path.parent)
    return run.recipe, run.environment(), run.history(), lineage.teachers(run), run.class_names()


def _image(path: Path) -> None:
    Image.fromarray(RNG.integers(0, 256, (8, 8, 3), np.uint8)).save(path)


def _write(name: str, write: Callable[[Path], object]) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        write(folder / name)
        return folder / name

    return make


def _npz(path: Path) -> None:
    images, labels = RNG.integers(0, 256, (6, 4, 4), np.uint8), np.arange(6) % 2
    np.savez(path, images=images, labels=labels, class_names=np.array(["cat", "dog"]))


def _idx() -> bytes:
    return bytes([0, 0, 8, 3]) + np.array([4, 28, 28], ">u4").tobytes() + RNG.bytes(4 * 784)


def _tar() -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as tar:
        member = tarfile.TarInfo("cifar/test_batch.bin")
        member.size = 3073
        tar.addfile(member, io.BytesIO(RNG.bytes(3073)))
    return content.getvalue()


def _mat(path: Path) -> None:
    scipy.io.savemat(path, {"X": RNG.integers(0, 256, (32, 32, 3, 2), np.uint8), "y": np.ones((2, 1), np.uint8)})


def _folder(folder: Path) -> Path:
    for split in ("train", "val"):
        for kind in ("cat", "dog"):
            (folder / split / kind).mkdir(parents=True)
            Image.fromarray(RNG.integers(0, 256, (20, 24, 3), np.uint8)).save(folder / split / kind / "1.jpeg")
    return folder / "val" / "cat" / "1.jpeg"


def _photographs(path: Path) -> object:
    split = datasets.create("folder", path.parents[2], size=16).split("test")
    return split.batch(torch.arange(len(split)))


def _checkpoint(path: Path) -> None:
    torch.save({"state_dict": _model().state_dict()}, path)


def _model() -> torch.nn.Module:
    return models.create("digits_mlp", shape=(1, 8, 8), classes=10)[1]


def _import(path: Path) -> object:
    return match_keys(read_checkpoint(path), _model().state_dict(), path, "digits_mlp")


READERS: dict[str, Reader] = {
    "certificates": Reader(_in_run("certificates/fixed-1.tsv"), _report),
    "sealed certificates": Reader(_sealed, _report),
    "certificate header": Reader(_in_run("certificates/fixed-1.json"), _report),
    "foreign certificates": Reader(
        _in_run("certificates/fixed-1.tsv"), lambda path: markdown(Content(inputs.read([path])), [])
    ),
    "training.csv": Reader(_in_run("training.csv"), _report),
    "transfer.json": Reader(_in_run("transfer.json"), _report),
    "origin.json": Reader(_in_run("origin.json"), _report),
    "environment.json": Reader(_in_run("environment.json"), _whole_run),
    "recipe.toml": Reader(_in_run("recipe.toml"), recipe.read),
    "recipe.toml of a run": Reader(_in_run("recipe.toml"), _report),
    "class names": Reader(_in_run("model.safetensors"), lambda path: readers.class_names(path)),
    "model.safetensors": Reader(_in_run("model.safetensors"), lambda path: trained_model(Run(path.parent))),
    "checkpoint": Reader(_write("net.pt", _checkpoint), _import),
    "npy": Reader(_write("labels.npy", lambda path: np.save(path, np.zeros((9, 4), np.float32))), datasets.read_npy),
    "npz": Reader(_write("arrays.npz", _npz), lambda path: datasets.create("arrays", path).split("test")),
    "idx.gz": Reader(_write("images.gz", lambda path: path.write_bytes(gzip.compress(_idx()))), read_idx),
    "idx": Reader(
        _write("images.gz", lambda path: path.write_bytes(gzip.compress(_idx()))),
        read_idx,
        gzip.decompress,
        gzip.compress,
    ),
    "tar": Reader(
        _write("cifar.tar.gz", lambda path: path.write_bytes(gzip.compress(_tar()))),
        lambda path: read_members(path, ["cifar/test_batch.bin"], 3074),
        gzip.decompress,
        gzip.compress,
    ),
    "mat": Reader(_write("test_32x32.mat", _mat), lambda path: read_mat(path, ""), around=forks),
    "png": Reader(_write("picture.png", _image), lambda path: datasets.read_image(path, (3, 8, 8))),
    "jpeg": Reader(_write("picture.jpeg", _image), lambda path: datasets.read_image(path, (3, 8, 8))),
    "photographs": Reader(_folder, _photographs),
}
"""Names for people, each with a reader."""
