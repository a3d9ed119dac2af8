"""Engines by name, checked against plain torch, and the choice of the fastest."""

import time
from typing import Any

import torch
from torch import Tensor, nn

from radii import plugins
from radii.engines.base import Engine, EngineSpec
from radii.errors import ParameterError
from radii.onnx import OnnxGraph

AUTO = "auto"
LEAST_AGREEMENT = 0.9
"""The share of a probe on which an engine that was asked for by name has to give plain torch's class."""


def names() -> list[str]:
    return plugins.names("engines")


def create(name: str, **fields: Any) -> Engine:
    """Make an engine by name; `fields` are its parameters."""
    return plugins.create("engines", Engine, name, fields)


def prepare(spec: EngineSpec, engine: str) -> tuple[str, nn.Module]:
    """The engine's name and the model in its form. `auto` is the fastest one installed that agrees with plain torch."""
    if any(isinstance(module, OnnxGraph) for module in spec.model.modules()):
        return _as_it_is(spec, engine)
    if engine == AUTO:
        return _fastest(spec)
    form = create(engine).prepare(spec)
    if (share := agreement(spec, form)) < LEAST_AGREEMENT:
        raise ValueError(f"the engine {engine!r} gives plain torch's class on {share:.0%} of a probe: use another")
    return engine, form


def _as_it_is(spec: EngineSpec, engine: str) -> tuple[str, nn.Module]:
    """A model that is, or has inside, an ONNX graph: no other engine has a form of it."""
    if engine not in (AUTO, "onnx"):
        raise ParameterError(f"the engine {engine!r} cannot run an ONNX model: use 'onnx'", "engine")
    return "onnx", spec.model


def agreement(spec: EngineSpec, form: nn.Module) -> float:
    """The share of a probe block on which an engine and plain torch give one class."""
    probe = spec.probe()
    with torch.inference_mode():
        return float((form(probe).argmax(1) == spec.model(probe).argmax(1)).double().mean())


def _fastest(spec: EngineSpec) -> tuple[str, nn.Module]:
    forms = {"torch": spec.model}
    for engine in _automatic(spec):
        form = engine.prepare(spec)
        if agreement(spec, form) == 1.0:
            forms[engine.name] = form
    name = min(forms, key=lambda name: _seconds(forms[name], spec.probe())) if len(forms) > 1 else "torch"
    return name, forms[name]


def _automatic(spec: EngineSpec) -> list[Engine]:
    """The engines beside plain torch that `auto` may choose here."""
    made = [create(name) for name in names() if name != "torch"]
    return [engine for engine in made if engine.automatic and engine.runs_on(spec.device)]


def _seconds(form: nn.Module, probe: Tensor) -> float:
    seconds = []
    with torch.inference_mode():
        for _ in range(5):
            began = time.perf_counter()
            form(probe)
            seconds.append(time.perf_counter() - began)
    return min(seconds)
