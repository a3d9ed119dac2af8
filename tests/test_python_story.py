"""The story in Python, from end to end: own pictures, an own model in an own module, outside the checkout."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

pytestmark = pytest.mark.docs

ROOT = Path(__file__).parents[1]
NETS = """
from torch import nn


class Tiny(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 8, 3, stride=2), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten())
        self.head = nn.Linear(8 * 7 * 7, 2)

    def forward(self, images):
        return self.head(self.body(images))
"""
STORY = """
import numpy, sys, torch, radii
from pathlib import Path
from PIL import Image
from torch.nn import functional as F
from nets import Tiny


class Pictures(torch.utils.data.Dataset):
    def __init__(self):
        self.files = sorted(Path("pictures").glob("*/*.png"))

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        return Image.open(self.files[index]), int(self.files[index].parent.name == "warm")


torch.manual_seed(0)
pictures, model = Pictures(), Tiny()
batch = torch.stack([torch.from_numpy(numpy.array(picture)).permute(2, 0, 1) / 255 for picture, _ in pictures])
labels = torch.tensor([label for _, label in pictures])
optimizer = torch.optim.Adam(model.parameters(), 0.01)
for _ in range(30):
    optimizer.zero_grad()
    F.cross_entropy(model(batch + 0.25 * torch.randn_like(batch)), labels).backward()
    optimizer.step()

smoothed = radii.SmoothedClassifier(model, sigma=0.25, classes=2, names=("cold", "warm"))
results = radii.certify_dataset(
    smoothed, pictures, "sequential", radii=(0.25, 0.5), seed=0, every=2, out="mine.tsv", workers=int(sys.argv[1])
)
low, high = results.interval(0.5)
assert 0.8 < low <= results.accuracy(0.5) <= high, (low, high)
assert results.report("report").is_file()
print(len(results.rows), radii.predict(smoothed, pictures[0][0], seed=0).name)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """200 small pictures of two classes, and the user's two files."""
    rng = np.random.default_rng(0)
    for number in range(200):
        kind, colour = ("cold", (60, 90, 200)) if number < 100 else ("warm", (200, 90, 60))
        pixels = np.clip(colour + rng.normal(0, 40, (16, 16, 3)), 0, 255).astype(np.uint8)
        (tmp_path / "pictures" / kind).mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(tmp_path / "pictures" / kind / f"{number}.png")
    (tmp_path / "nets.py").write_text(NETS)
    (tmp_path / "story.py").write_text(STORY)
    return tmp_path


@pytest.mark.slow
def test_story(folder: Path) -> None:
    first, second = (tell(folder, workers) for workers in ("2", "1"))
    assert first == second == "100 cold\n"
    assert (folder / "mine.tsv").read_text().count("\n") == 101


def tell(folder: Path, workers: str) -> str:
    """The output of the story; told again it has nothing left to certify."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "story.py", workers]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
