"""Engines, one file each: how forward passes run."""

# The submodule `torch` takes that name in this package: nothing here may use torch itself.
from radii.engines._classifier import SmoothedClassifier, check_image, expect_smoothed
from radii.engines._folding import folded
from radii.engines.base import (
    AUTO,
    Engine,
    EngineSpec,
    agreement,
    create,
    default_batch_size,
    device_of,
    drawn,
    names,
    only_rounds,
    prepare,
)

__all__ = [
    "AUTO",
    "Engine",
    "EngineSpec",
    "SmoothedClassifier",
    "agreement",
    "check_image",
    "create",
    "default_batch_size",
    "device_of",
    "drawn",
    "expect_smoothed",
    "folded",
    "names",
    "only_rounds",
    "prepare",
]
