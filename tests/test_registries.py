"""A dataset, a noise of another norm, an engine, a certifier and a worker backend, each added by one file."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tools.imports import ROOT, SOURCE

STRIPES = '''"""Stripes: horizontal and vertical ones, synthetic."""

from dataclasses import dataclass
from typing import ClassVar

import torch

from radii.datasets.base import Dataset, InMemory, Split
from radii.fields import option


@dataclass(frozen=True, kw_only=True, eq=False)
class Stripes(Dataset):
    """`images` images per split, `size` pixels square."""

    class_names: ClassVar[tuple[str, ...]] = ("horizontal", "vertical")

    size: int = option(8, ge=4)
    images: int = option(64, ge=16)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.set_attributes(shape=(1, self.size, self.size))

    @property
    def data(self) -> None:
        """It has no files."""

    def split(self, split: Split) -> InMemory:
        rng = torch.Generator().manual_seed(int(split == "train"))
        lines = torch.rand((self.images, 1, self.size, 1), generator=rng).expand(-1, -1, -1, self.size)
        labels = torch.arange(self.images) % 2
        return InMemory(torch.where(labels[:, None, None, None] == 0, lines, lines.mT).contiguous(), labels)
'''
UNIFORM = '''"""Uniform noise: protects against changes that are small in l1 (Lee et al. 2019)."""

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from radii.fields import option
from radii.smoothing.noise.base import Noise


@dataclass(frozen=True)
class Uniform(Noise):
    """Independent uniform noise between -`width` and `width` on every pixel."""

    norm: ClassVar[str] = "l1"

    width: float = option(0.5, gt=0)

    def perturb(self, pixels: Tensor, out: Tensor, rng: torch.Generator) -> Tensor:
        return out.uniform_(-self.width, self.width, generator=rng).add_(pixels)

    def radius(self, probability: Any, runner_up: Any = None) -> Any:
        return self.width * (probability - (1 - probability if runner_up is None else runner_up))

    def probability_for(self, radius: float) -> float:
        return (1 + radius / self.width) / 2
'''
EAGER = '''"""Plain torch in double precision."""

from dataclasses import dataclass

from torch import Tensor, nn

from radii.engines.base import Engine, EngineSpec


class _Double(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model.double()

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.model(images.double())
        return logits.float()


@dataclass(frozen=True, kw_only=True)
class Eager(Engine):
    def prepare(self, spec: EngineSpec) -> nn.Module:
        import copy

        return _Double(copy.deepcopy(spec.model))
'''
HALVES = '''"""Two halves of the samples: the first selects the class, the second bounds its probability."""

from dataclasses import dataclass

from radii.certifiers.base import About, Certifier, Steps
from radii.fields import option
from radii.smoothing.bounds import binomial_lower, fewest_to_certify
from radii.smoothing.questions import Votes


@dataclass(frozen=True, kw_only=True)
class Halves(Certifier):
    samples: int = option(1_000, ge=2)
    """Samples of each half."""

    def fewest_samples(self) -> tuple[str, int]:
        return "samples", fewest_to_certify(self.failure)

    def certify(self, about: About, label: int | None = None) -> Steps:
        top = int((yield Votes(0, 0, self.samples)).argmax())
        counts = yield Votes(1, 0, self.samples)
        lower = binomial_lower(int(counts[top]), self.samples, self.failure)
        return self.proven(top, about.noise.radius(lower), 2 * self.samples, counts)
'''
TURNS = '''"""A worker backend: two threads that answer in turn."""

from concurrent.futures import Executor, Future, ThreadPoolExecutor
from itertools import cycle
from typing import Any


class Turns(Executor):
    def __init__(self) -> None:
        self.threads = (ThreadPoolExecutor(1), ThreadPoolExecutor(1))
        self.turns, self.calls = cycle(self.threads), 0

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.calls += 1
        return next(self.turns).submit(fn, *args, **kwargs)
'''
RECIPE = """
dataset = { name = "stripes", size = 12, images = 128 }
model = "digits_cnn"
sigma = 0.25

[training]
epochs = 4
images_per_step = 32
learning_rate = 0.05
"""
COMMANDS = """
import sys
from radii import cli

COMMON = ["--noise", "uniform", "--every", "8"]
if __name__ == "__main__":
    for command in (
        ["train", "stripes.toml", "--run", "run"],
        ["certify", "run", *COMMON, "--engine", "eager", "--workers", "1", "--set", "estimation=500"],
        ["certify", "run", *COMMON, "--with", "halves", "--workers", "2", "--set", "samples=300"],
        ["report", "run"],
    ):
        sys.argv = ["radii", *command]
        try:
            cli.main()
        except SystemExit as ended:
            assert ended.code == 0, command
"""
CONTRACTS = {
    "stripes": "datasets/test_datasets",
    "uniform": "smoothing/test_noise",
    "eager": "engines/test_engines",
    "halves": "certifiers/test_counting",
}
"""The contract tests of each new entry."""
FILES = {
    "datasets/stripes.py": STRIPES,
    "smoothing/noise/uniform.py": UNIFORM,
    "engines/eager.py": EAGER,
    "certifiers/halves.py": HALVES,
    "workers/turns.py": TURNS,
}


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package with one more file in four registries, and one more worker backend."""
    folder = tmp_path_factory.mktemp("package")
    shutil.copytree(SOURCE, folder / "src" / "radii")
    shutil.copytree(ROOT / "recipes", folder / "recipes")
    for name, text in FILES.items():
        (folder / "src" / "radii" / name).write_text(text)
    return folder


def python(package: Path, *arguments: str, cwd: Path) -> str:
    environment = {**os.environ, "PYTHONPATH": str(package / "src")}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=cwd, env=environment, check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_new_file_is_listed(package: Path) -> None:
    listed = python(package, "-m", "radii", "list", cwd=package)
    for line in (
        "stripes            Stripes: horizontal",
        "uniform            Uniform noise",
        "eager              Plain",
        "halves             Two halves of the samples",
    ):
        assert line in listed


@pytest.mark.slow
def test_new_files_pass_the_contract_tests(package: Path) -> None:
    files = [f"tests/{name}.py" for name in CONTRACTS.values()]
    command = ["-m", "pytest", "-v", "-p", "no:cacheprovider", "-k", " or ".join(CONTRACTS), *files]
    lines = python(package, *command, cwd=ROOT).splitlines()
    for entry, name in CONTRACTS.items():
        assert any(line.startswith(f"tests/{name}.py::") and entry in line and " PASSED " in line for line in lines)
    assert not any("SKIPPED" in line for line in lines)


@pytest.mark.slow
def test_new_files_work_end_to_end(package: Path, tmp_path: Path) -> None:
    (tmp_path / "stripes.toml").write_text(RECIPE)
    (tmp_path / "commands.py").write_text(COMMANDS)
    python(package, "commands.py", cwd=tmp_path)
    eager, halves = (
        json.loads(next((tmp_path / "run" / "certificates").glob(f"{name}-*.json")).read_text())
        for name in ("fixed", "halves")
    )
    assert eager["noise"] == halves["noise"] == {"name": "uniform", "width": 0.5}
    assert (eager["engine"], eager["dataset"]) == ("eager", "stripes")
    assert (halves["procedure"], halves["parameters"]["samples"]) == ("halves", 300)
    for file in (tmp_path / "run" / "certificates").glob("*.tsv"):
        assert len(file.read_text().splitlines()) == 17
    assert "size = 12" in (tmp_path / "run" / "recipe.toml").read_text()
    assert "vertical" in (tmp_path / "run" / "report" / "report.html").read_text()


def test_new_files_work_in_python(package: Path, tmp_path: Path) -> None:
    """A classifier of one pixel: its l1 radius is the distance of the pixel from the threshold."""
    code = """
import torch, radii
from radii import datasets
from radii.smoothing import noise
from radii.workers.turns import Turns

base = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 2, bias=False))
base[1].weight.data = torch.tensor([[1.0, 0, 0, 0], [-1.0, 0, 0, 0]])
smoothed = radii.SmoothedClassifier(base, noise=noise.create("uniform", width=0.5), classes=2)
assert str(smoothed.noise.norm) == "l1"
image = torch.tensor([0.3, 0.5, 0.5, 0.5]).view(1, 2, 2)
proofs = [radii.certify(smoothed, image, "halves", seed=seed, samples=2_000) for seed in range(20)]
assert {(proof.prediction, proof.samples) for proof in proofs} == {(0, 4_000)}
assert 0.25 < max(proof.radius for proof in proofs) <= 0.3, proofs

data = image.expand(8, -1, -1, -1), [0] * 8
turns = Turns()
alone, by_turns = (
    radii.certify_dataset(smoothed, data, "halves", seed=0, samples=2_000, progress=False, **backend).rows
    for backend in ({"workers": 1}, {"executor": turns})
)
assert [(row.index, row.radius) for row in by_turns] == [(row.index, row.radius) for row in alone]
assert len(alone) == 8 and turns.calls >= 2

try:
    datasets.create("stripes", siz=3)
except LookupError as error:
    print(error)
"""
    assert "has no field 'siz'; did you mean 'size'?" in python(package, "-c", code, cwd=tmp_path)
