import os
from pathlib import Path

import pytest
import torch

# Tests run two at a time on two cores; threads of their own would only fight.
torch.set_num_threads(1)


@pytest.fixture(scope="session")
def logs() -> Path:
    """The folder of published certification logs."""
    named = os.environ.get("RADII_LOGS")
    if not named or not Path(named).is_dir():
        pytest.skip("RADII_LOGS names no folder of published logs")
    return Path(named)
