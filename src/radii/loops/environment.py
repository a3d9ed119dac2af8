"""The versions and the kind of machine that a run was made with; nothing identifies the machine."""

import os
import platform
from importlib import metadata
from typing import Any

import torch

from radii.loops.device import default_device


def environment() -> dict[str, Any]:
    names = ("radii", "torch", "numpy", "scipy", "safetensors")
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "device": default_device().type,
        "versions": {name: metadata.version(name) for name in names},
    }
