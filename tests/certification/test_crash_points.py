"""A command that is killed at any write and run again gives the same result."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.stress

ROOT = Path(__file__).parents[2]
LEAST = {"train": 60, "transfer": 60, "import": 25, "certify": 25, "soft_labels": 60, "int8": 10, "trust": 4}
"""The commands with the least number of writes that each must have: an undetected write would not be tested."""


@pytest.mark.slow
@pytest.mark.parametrize("command", LEAST)
def test_a_kill_at_any_write_changes_nothing(command: str, tmp_path: Path) -> None:
    arguments = [sys.executable, "-m", "tools.crash_points", command, str(tmp_path)]
    done = subprocess.run(arguments, check=False, capture_output=True, text=True, timeout=600, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["bad"] == [], done.stderr
    assert found["points"] >= LEAST[command]
