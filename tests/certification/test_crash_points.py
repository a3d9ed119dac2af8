"""A command that is killed at any write and run again gives the same result: certify, import, int8 and others."""

from typing import Any

import pytest

from tools.crash_points import COMMANDS, kill_at_every_write

pytestmark = [pytest.mark.slow, pytest.mark.stress]

LEAST = {"import": 25, "certify": 25, "population": 15, "int8": 10, "trust": 4}
"""The commands with the least number of writes that each must have: an undetected write would not be tested."""


def test_every_command_is_tested() -> None:
    """The others are in tests/training/test_crash_points.py, a file of its own for another process."""
    assert {*LEAST, "train", "transfer", "soft_labels"} == set(COMMANDS)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """All commands in one process: it loads torch once."""
    return kill_at_every_write(tmp_path_factory.mktemp("crashes"), *LEAST)


@pytest.mark.parametrize("command", LEAST)
def test_a_kill_at_any_write_changes_nothing(command: str, results: dict[str, dict[str, Any]]) -> None:
    result = results[command]
    assert result["bad"] == [], result["errors"]
    assert result["points"] >= LEAST[command]
