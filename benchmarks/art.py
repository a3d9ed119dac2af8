"""The baseline, adversarial-robustness-toolbox 1.20.1, in a separate environment: certify with a fixed n."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
ENVIRONMENT = ROOT / ".venv-art"
PACKAGES = ["adversarial-robustness-toolbox==1.20.1", "packaging", "statsmodels", "safetensors", "torch==2.13.0"]
SCRIPT = """
import json, sys, time
import numpy as np, torch
from safetensors.torch import load_file
from art.estimators.certification.randomized_smoothing import PyTorchRandomizedSmoothing

job = json.loads(sys.argv[1])
sys.path[:0] = [job["source"], job["root"]]
from benchmarks.timing import peak_megabytes, start_of_peak
from radii import models

model = models.create(job["model"])
model.load_state_dict(load_file(job["weights"]))
shape = tuple(job["shape"])
smoothed = PyTorchRandomizedSmoothing(
    model=model.eval(), loss=torch.nn.CrossEntropyLoss(), input_shape=shape, nb_classes=10,
    clip_values=(0.0, 1.0), sample_size=100, scale=job["sigma"], alpha=0.001,
)
images = np.random.default_rng(0).random((job["images"], *shape), dtype=np.float32)
smoothed.certify(images[:1], n=256, batch_size=128)
before = start_of_peak()
began = time.perf_counter()
smoothed.certify(images, n=job["samples"], batch_size=128)
seconds = time.perf_counter() - began
rate = job["images"] * (job["samples"] + 100) / seconds
print(json.dumps({"samples_per_second": rate, "peak_megabytes": peak_megabytes() - before}))
"""


def peer(model: str, weights: Path, shape: tuple[int, ...], sigma: float, samples: int, images: int) -> dict[str, Any]:
    """Return samples per second of ART's certify on these weights, and its peak memory above the model's."""
    if not (ENVIRONMENT / "ready").is_file():
        subprocess.run([sys.executable, "-m", "venv", str(ENVIRONMENT)], check=True)
        subprocess.run([str(ENVIRONMENT / "bin/python"), "-m", "pip", "install", "--quiet", *PACKAGES], check=True)
        (ENVIRONMENT / "ready").touch()
    job = {
        "model": model,
        "weights": str(weights),
        "shape": shape,
        "sigma": sigma,
        "samples": samples,
        "images": images,
        "source": str(ROOT / "src"),
        "root": str(ROOT),
    }
    command = [str(ENVIRONMENT / "bin/python"), "-W", "ignore", "-c", SCRIPT, json.dumps(job)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found
