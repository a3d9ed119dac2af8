"""Engines by name, checked against plain torch, and the choice of the fastest."""

import math
import time
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor, nn

from radii import plugins
from radii.engines._folding import FOLDING
from radii.engines.base import Engine, EngineSpec
from radii.errors import ParameterError
from radii.onnx import OnnxGraph
from radii.smoothing.logits import check_logits, rounding

AUTO = "auto"


def names() -> list[str]:
    return plugins.names("engines")


def create(name: str, **fields: Any) -> Engine:
    """Make an engine by name; `fields` are its parameters."""
    return plugins.create("engines", Engine, name, fields)


def prepare(spec: EngineSpec, engine: str) -> tuple[str, nn.Module]:
    """The engine's name and the model in its form. `auto` is the fastest one installed that keeps the function."""
    if any(isinstance(module, OnnxGraph) for module in spec.original.modules()):
        return _as_it_is(spec, engine)
    spec.wanted  # noqa: B018  raises first if no engine could run the model
    if engine == AUTO:
        return _fastest(spec)
    made = create(engine)
    form = _form(made, engine, spec)
    _expect_agreement(spec, engine, form, made.least_agreement)
    return engine, form


class EngineError(ParameterError):
    """An engine that has no form of a model."""


def _form(engine: Engine, name: str, spec: EngineSpec) -> nn.Module:
    """The model in the engine's form; converters fail in ways of their own, and at length."""
    try:
        return engine.prepare(spec)
    except (ValueError, LookupError, ImportError):
        raise
    except Exception as error:
        reason = f"{type(error).__name__}: {(str(error).strip() or 'no reason').splitlines()[0][:200]}"
        raise EngineError(f"the engine {name!r} cannot convert this model ({reason}): use 'torch'", "engine") from error


def _as_it_is(spec: EngineSpec, engine: str) -> tuple[str, nn.Module]:
    """A model that is or contains an ONNX graph: no other engine can run it."""
    if engine not in (AUTO, "onnx"):
        raise ParameterError(f"the engine {engine!r} cannot run an ONNX model: use 'onnx'", "engine")
    return "onnx", spec.original


def _expect_agreement(spec: EngineSpec, engine: str, form: nn.Module, least: float) -> None:
    if (share := agreement(spec, form, exact=least == 1.0)) < least:
        raise ParameterError(
            f"the engine {engine!r} gives the trained model's answer on {math.floor(1000 * share) / 10:g} % of a "
            f"probe, expected {100 * least:g} %: use another",
            "engine",
        )


def agreement(spec: EngineSpec, form: nn.Module, *, exact: bool = True) -> float:
    """The share of a probe block on which an engine and the original model give the same answer, up to rounding.

    That is the class, where an image whose two best logits differ by no more than rounding may get either; and, of an
    `exact` engine, which only rounds, all logits.
    """
    wanted = spec.wanted
    with torch.inference_mode():
        found = check_logits(form(spec.probe), *wanted.shape)
    best, given = wanted.argmax(1, keepdim=True), found.argmax(1, keepdim=True)
    lead = wanted.gather(1, best) - wanted.gather(1, given)
    tolerance = 2 * FOLDING * rounding(wanted)
    same = (lead <= tolerance.gather(1, best)).squeeze(1)
    if exact:
        same &= ((found.to(torch.float64) - wanted.to(torch.float64)).abs() <= tolerance).all(1)
    return float(same.double().mean())


def _fastest(spec: EngineSpec) -> tuple[str, nn.Module]:
    forms = {"torch": spec.model}
    _expect_agreement(spec, "torch", spec.model, 1.0)
    for engine in _automatic(spec):
        with suppress(EngineError):  # it is no candidate
            form = _form(engine, engine.name, spec)
            if agreement(spec, form) == 1.0:
                forms[engine.name] = form
    name = min(forms, key=lambda name: _seconds(forms[name], spec.probe)) if len(forms) > 1 else "torch"
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
