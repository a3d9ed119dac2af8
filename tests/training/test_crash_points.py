"""A command that is killed at any write and run again gives the same result: train, transfer, soft_labels."""

from pathlib import Path

import pytest

from tools.crash_points import kill_at_every_write

pytestmark = [pytest.mark.slow, pytest.mark.stress]

LEAST = {"train": 60, "transfer": 60, "soft_labels": 60}
"""The commands with the least number of writes that each must have: an undetected write would not be tested."""


@pytest.mark.parametrize("command", LEAST)
def test_a_kill_at_any_write_changes_nothing(command: str, tmp_path: Path) -> None:
    result = kill_at_every_write(tmp_path, command)[command]
    assert result["bad"] == [], result["errors"]
    assert result["points"] >= LEAST[command]
