"""Certificate files that version 0.2 wrote, with Gaussian noise and noise on a grid, are replayed by this one."""

from pathlib import Path

import numpy as np
import pytest
import torch

from radii.certification.verify import verify_run
from radii.runs import certificates
from radii.runs.recipe import Recipe, Training
from radii.runs.run import Run
from radii.training.open_dataset import open_dataset
from radii.training.weights import make_model, save_weights, spec_for

FILES = sorted((Path(__file__).parent / "files_of_0_2").glob("*.tsv"))
MOVED = 3
"""Votes in a file that may differ on another machine; here none does."""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The run that they are about: its weights are whole numbers over powers of two, so they are equal everywhere."""
    training = Training(epochs=1, images_per_step=128, learning_rate=0.05)
    recipe = Recipe(dataset="digits", model="digits_cnn", sigma=0.25, training=training)
    spec = spec_for(recipe, open_dataset(recipe, None))
    model = make_model(recipe, spec)
    rng = np.random.RandomState(0)
    for tensor in model.parameters():
        if tensor.ndim == 1:
            tensor.data.zero_()
            continue
        fan = tensor[0].numel()
        whole = torch.from_numpy(rng.randint(-64, 65, (len(tensor), fan))).float()
        whole[:, fan // 2 : fan // 2 * 2] = -whole[:, : fan // 2]  # or one class would win everywhere
        tensor.data.copy_((whole / 64 * 2.0 ** -(fan.bit_length() // 2)).view(tensor.shape))
    made = Run(tmp_path_factory.mktemp("older") / "run")
    made.claim(recipe, {})
    save_weights(made, model, spec)
    return made


@pytest.mark.parametrize("file", FILES, ids=["grid", "gaussian"])
def test_a_file_of_version_0_2_is_replayed(file: Path, run: Run) -> None:
    header = certificates.read(file).header
    assert header["environments"][0]["versions"]["radii"] == "0.2.0"
    assert "stream" not in header
    assert header["weights"] == run.weights_digest()
    result = verify_run(run, file, rows=None)
    assert (result.exit_code, result.replayed) == (0, 6), result.in_words()
    assert result.moved <= MOVED


def test_files_of_both_noises_are_there() -> None:
    assert [certificates.read(file).noise["name"] for file in FILES] == ["grid", "gaussian"]
