"""The record of how many processes trained a run."""

from pathlib import Path

from radii.provenance import environment, record_environment
from radii.runs.run import Run


def recorded(run: Run) -> list[tuple[int, int, int]]:
    return [(each["epoch"], each["step"], each["processes"]) for each in run.environment()["training"]]


def test_number_of_processes_is_recorded_from_each_step_on(tmp_path: Path) -> None:
    run = Run(tmp_path)
    record_environment(run, 2, 0, 0)
    record_environment(run, 2, 1, 5)
    assert recorded(run) == [(0, 0, 2)]
    record_environment(run, 4, 1, 5)
    record_environment(run, 1, 3, 0)
    assert recorded(run) == [(0, 0, 2), (1, 5, 4), (3, 0, 1)]
    assert run.environment()["versions"] == environment()["versions"]


def test_lost_steps_are_not_recorded(tmp_path: Path) -> None:
    run = Run(tmp_path)
    record_environment(run, 2, 0, 0)
    record_environment(run, 1, 0, 0)
    assert recorded(run) == [(0, 0, 1)]


def test_unrecorded_run_counts_as_one_process(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.environment_file.write_text('{"cores": 2}')
    record_environment(run, 2, 4, 7)
    assert recorded(run) == [(0, 0, 1), (4, 7, 2)]
