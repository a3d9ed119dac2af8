import os
import tempfile
from pathlib import Path

import pytest
import torch

# Tests run two at a time on two cores: more threads would compete for them.
torch.set_num_threads(1)

# Modules that tests trust are recorded apart from those that the user trusts.
os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="radii-tests-")


@pytest.fixture(scope="session")
def logs() -> Path:
    """The folder of published certification logs."""
    named = os.environ.get("RADII_LOGS")
    if not named or not Path(named).is_dir():
        pytest.skip("RADII_LOGS names no folder of published logs")
    return Path(named)
