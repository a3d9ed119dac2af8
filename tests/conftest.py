import os
import tempfile

import torch

# Tests run two at a time on two cores; threads of their own would only fight.
torch.set_num_threads(1)

# What tests trust stays apart from what the user trusts.
os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="radii-tests-")
