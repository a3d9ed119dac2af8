import os
import tempfile
from pathlib import Path

import pytest
import torch

# Tests run two at a time on two cores; threads of their own would only fight.
torch.set_num_threads(1)

# What tests trust stays apart from what the user trusts.
os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="radii-tests-")


@pytest.fixture(scope="session")
def logs() -> Path:
    """The folder of published certification logs."""
    named = os.environ.get("RADII_LOGS")
    if not named or not Path(named).is_dir():
        pytest.skip("RADII_LOGS names no folder of published logs")
    return Path(named)
