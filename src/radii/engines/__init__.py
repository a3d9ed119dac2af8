"""Engines, one file each: how forward passes run."""

# The submodule `torch` takes that name in this package: nothing here may use torch itself.
from radii.engines._classifier import SmoothedClassifier, check_image
from radii.engines._folding import channels_last, folded
from radii.engines._prepare import AUTO, agreement, create, names, prepare
from radii.engines.base import Engine, EngineSpec, drawn

__all__ = [
    "AUTO",
    "Engine",
    "EngineSpec",
    "SmoothedClassifier",
    "agreement",
    "channels_last",
    "check_image",
    "create",
    "drawn",
    "folded",
    "names",
    "prepare",
]
