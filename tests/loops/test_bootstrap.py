import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from radii.experiment.lineage import seconds_before, training_seconds
from radii.experiment.recipe import Recipe, Training
from radii.experiment.run import Run
from radii.loops.bootstrap import bootstrap, default_voter, needs_soft_labels
from radii.loops.transfer import transfer

TRAINING = Training(epochs=1, images_per_step=400, learning_rate=0.05)
CATRS = Recipe(
    dataset="digits",
    model="digits_cnn",
    sigma=0.5,
    seed=3,
    objective={"name": "catrs", "copies": 2, "steps": 1},
    training=TRAINING,
)


def test_a_catrs_teacher_gets_its_soft_labels_on_the_way_and_their_time_is_counted(tmp_path: Path) -> None:
    voter = replace(default_voter(CATRS), training=TRAINING)
    teacher = bootstrap(CATRS, tmp_path / "teacher", voter=voter, votes=4, workers=1)
    voting = Run(tmp_path / "teacher-voter")
    assert teacher.source("soft_labels") == voting.soft_labels_file
    assert (voting.recipe.sigma, voting.recipe.seed) == (0.25, 3)
    (student,) = transfer(teacher, replace(CATRS, objective={"name": "transfer"}), ["digits_cnn"])
    before = seconds_before(student)
    votes = np.fromfile(voting.soft_labels_times, "<f8")
    assert len(votes) == 1347
    assert before["teachers"] == training_seconds(teacher)
    assert before["soft_labels"] == pytest.approx(math.fsum(votes) + (training_seconds(voting) or 0))
    assert json.loads((student.path / "transfer.json").read_text())["seconds_before"] == before


def test_the_voter_is_the_gaussian_recipe_of_the_dataset_with_the_teachers_model() -> None:
    found = default_voter(replace(CATRS, dataset="mnist", model={"name": "lenet", "width": 2}))
    assert (found.objective["name"], found.sigma, found.model["width"]) == ("gaussian", 0.25, 2)
    assert needs_soft_labels(CATRS)
    assert not needs_soft_labels(replace(CATRS, objective={"name": "catrs", "target": "hard_label"}))
    assert not needs_soft_labels(replace(CATRS, objective="gaussian"))
