"""A dataset, a noise of another norm, an engine and a certifier, each added by one file: listed and working."""

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
        self.learned(shape=(1, self.size, self.size))

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
RECIPE = """
dataset = { name = "stripes", size = 12, images = 128 }
model = "digits_cnn"
sigma = 0.25

[training]
epochs = 4
images_per_step = 32
learning_rate = 0.05
"""
FILES = {
    "datasets/stripes.py": STRIPES,
    "smoothing/noise/uniform.py": UNIFORM,
    "engines/eager.py": EAGER,
    "certifiers/halves.py": HALVES,
}


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package with one more file in four registries."""
    folder = tmp_path_factory.mktemp("package")
    shutil.copytree(SOURCE, folder / "src" / "radii", ignore=shutil.ignore_patterns("__pycache__"))
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
@pytest.mark.parametrize(
    ("tests", "entry"),
    [
        ("tests/datasets/test_datasets.py", "stripes"),
        ("tests/smoothing/test_noise.py", "uniform"),
        ("tests/engines/test_engines.py", "eager"),
        ("tests/certifiers/test_counting.py", "halves"),
    ],
)
def test_a_new_file_passes_the_contract_tests(package: Path, tests: str, entry: str) -> None:
    output = python(package, "-m", "pytest", "-q", "-p", "no:cacheprovider", tests, "-k", entry, cwd=ROOT)
    passed = int(output.split(" passed")[0].split()[-1])
    assert passed >= 1
    assert "skipped" not in output


@pytest.mark.slow
def test_new_files_work_end_to_end(package: Path, tmp_path: Path) -> None:
    (tmp_path / "stripes.toml").write_text(RECIPE)
    python(package, "-m", "radii", "train", "stripes.toml", "--run", "run", cwd=tmp_path)
    options = ["--noise", "uniform", "--engine", "eager", "--every", "8", "--set", "estimation=500"]
    python(package, "-m", "radii", "certify", "run", *options, cwd=tmp_path)
    (file,) = (tmp_path / "run" / "certificates").glob("*.json")
    header = json.loads(file.read_text())
    assert header["noise"] == {"name": "uniform", "width": 0.5}
    assert (header["engine"], header["dataset"]) == ("eager", "stripes")
    assert len(file.with_suffix(".tsv").read_text().splitlines()) == 17
    assert "size = 12" in (tmp_path / "run" / "recipe.toml").read_text()
    python(package, "-m", "radii", "report", "run", cwd=tmp_path)
    assert "vertical" in (tmp_path / "run" / "report" / "report.html").read_text()


@pytest.mark.slow
def test_a_new_certifier_and_a_new_norm_work_end_to_end(package: Path, tmp_path: Path) -> None:
    (tmp_path / "stripes.toml").write_text(RECIPE)
    python(package, "-m", "radii", "train", "stripes.toml", "--run", "run", cwd=tmp_path)
    options = ["--with", "halves", "--noise", "uniform", "--every", "8", "--set", "samples=300"]
    python(package, "-m", "radii", "certify", "run", *options, "--workers", "2", cwd=tmp_path)
    (file,) = (tmp_path / "run" / "certificates").glob("*.json")
    header = json.loads(file.read_text())
    assert (header["procedure"], header["parameters"]["samples"]) == ("halves", 300)
    assert header["noise"]["name"] == "uniform"
    assert len(file.with_suffix(".tsv").read_text().splitlines()) == 17


def test_a_new_certifier_and_a_new_norm_certify_no_more_than_the_truth(package: Path, tmp_path: Path) -> None:
    """A classifier of one pixel: its l1 radius is the distance of the pixel from the threshold."""
    code = """
import torch, radii
from radii.smoothing import noise
base = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 2, bias=False))
base[1].weight.data = torch.tensor([[1.0, 0, 0, 0], [-1.0, 0, 0, 0]])
smoothed = radii.SmoothedClassifier(base, noise=noise.create("uniform", width=0.5), classes=2)
image = torch.tensor([0.3, 0.5, 0.5, 0.5]).view(1, 2, 2)
found = [radii.certify(smoothed, image, "halves", seed=seed, samples=2_000) for seed in range(20)]
assert {(proof.prediction, proof.samples) for proof in found} == {(0, 4_000)}
assert 0.25 < max(proof.radius for proof in found) <= 0.3, found
print(smoothed.noise.norm)
"""
    assert python(package, "-c", code, cwd=tmp_path).split() == ["l1"]


def test_fields_of_a_new_dataset_are_checked(package: Path, tmp_path: Path) -> None:
    code = "from radii import datasets\ntry: datasets.create('stripes', siz=3)\nexcept LookupError as e: print(e)"
    assert "has no field 'siz'; did you mean 'size'?" in python(package, "-c", code, cwd=tmp_path)
