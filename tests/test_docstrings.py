"""The examples in the docstrings of public names run, and every public function has one."""

import doctest
import importlib
import inspect

import pytest

import radii

MODULES = [
    *("certification.predict", "certification.one_pass", "certification.dataset", "certification.load"),
    *("certification.population", "certification.signing"),
    *("certification.attack", "certification.verify", "interop.ensemble", "interop.export"),
    *("interop.factory", "interop.hub"),
    *("reports.compare", "reports.report", "reports.results", "training.loop", "training.transfer", "bounds"),
    "engines._classifier",
]
FUNCTIONS = [getattr(radii, name) for name in radii.__all__ if inspect.isfunction(getattr(radii, name))]


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name: str) -> None:
    module = importlib.import_module(f"radii.{name}")
    failed, tried = doctest.testmod(module, optionflags=doctest.ELLIPSIS)
    assert tried > 0
    assert failed == 0


@pytest.mark.parametrize("function", [*FUNCTIONS, radii.SmoothedClassifier], ids=lambda each: each.__name__)
def test_every_public_function_has_an_example(function: object) -> None:
    assert ">>>" in (inspect.getdoc(function) or "")
    assert f"radii.{function.__module__}".removeprefix("radii.radii.") in MODULES
