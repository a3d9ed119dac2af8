"""The archived runs of six epochs on MNIST, for tests of the papers' tables."""

import shutil
from pathlib import Path

RESULTS = Path(__file__).parents[2] / "results"
SIX = RESULTS / "mnist" / "six-epochs"
LABEL = "Gaussian, sigma 0.50"
"""The row of catrs-3 that the run `gaussian` is matched to."""


def copy_gaussian(folder: Path, seed: int) -> Path:
    """Copy the Gaussian run into a folder, as if it had been trained with this seed."""
    run = folder / f"seed{seed}"
    shutil.copytree(SIX / "gaussian", run)
    recipe = run / "recipe.toml"
    recipe.write_text(recipe.read_text().replace("seed = 0", f"seed = {seed}"))
    return run
