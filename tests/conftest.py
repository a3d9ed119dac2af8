import gc
import math
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from multiprocessing.context import ForkServerContext

    from radii.runs.run import Run

# A shell's background jobs ignore Ctrl-C, and so would the commands that tests start and stop with it.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Tests run two at a time on two cores: more threads would compete for them, here and in the processes that tests start.
os.environ["OMP_NUM_THREADS"] = "1"

# torch.compile would build and load a library in new processes, which import torch, to find what the compiler knows.
os.environ["TORCHINDUCTOR_VEC_ISA_OK"] = "1"

# Modules that tests trust are recorded apart from those that the user trusts.
os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="radii-tests-")

LONGEST = (
    "test_stress.py",
    "test_manual.py",
    "certifiers/test_guarantee.py",
    "training/test_crash_points.py",
    "engines/test_sharing.py",
    "cli/test_signals.py",
    "engines/test_pretended_device.py",
    "examples/test_notebooks.py",
    "cli/test_story.py",
    "cli/test_torchrun.py",
    "certification/test_crash_points.py",
    "cli/test_table.py",
    "training/test_ddp.py",
    "runs/test_trust.py",
    "test_registries.py",
    "certification/test_dataset.py",
    "certification/test_attack_inside.py",
    "engines/test_telemetry.py",
    "test_python_story.py",
    "test_wheel.py",
    "certification/test_attack.py",
    "engines/test_engines.py",
    "cli/test_cli.py",
    "cli/test_report.py",
)
"""Files that take more than six seconds of a processor, the longest first."""


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Spare all modules and tests from garbage collections, each of which would go through half a million objects."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the longest files, so that processes that share the files end together."""
    place = {Path(__file__).parent / name: number for number, name in enumerate(LONGEST)}
    items.sort(key=lambda item: place.get(item.path, len(LONGEST)))


@pytest.fixture(scope="session")
def logs() -> Path:
    """The folder of published certification logs."""
    named = os.environ.get("RADII_LOGS")
    if not named or not Path(named).is_dir():
        pytest.skip("RADII_LOGS names no folder of published logs")
    return Path(named)


@pytest.fixture(scope="session")
def trained_digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A digits_cnn run of two epochs, trained once a session. Tests take a copy of it: see digits_run."""
    from radii.runs.recipe import Recipe, Training
    from radii.training.loop import train

    training = Training(epochs=2, images_per_step=128, learning_rate=0.05)
    recipe = Recipe(dataset="digits", model="digits_cnn", sigma=0.25, training=training)
    return train(recipe, tmp_path_factory.mktemp("trained") / "digits").path


@pytest.fixture
def digits_run(trained_digits: Path, tmp_path: Path) -> "Callable[..., Run]":
    """Copy the trained run into the folder of a test: digits_run() or digits_run("other")."""
    from radii.runs.run import Run

    def copy(name: str = "run") -> Run:
        return Run(shutil.copytree(trained_digits, tmp_path / name))

    return copy


@pytest.fixture(autouse=True, scope="module")
def forget_own_modules(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Forget the modules that a test file wrote and imported: another file may write one with the same name."""
    path = list(sys.path)
    yield
    sys.path[:] = path
    folder = str(tmp_path_factory.getbasetemp())
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None) or "").startswith(folder):
            del sys.modules[name]


@pytest.fixture(autouse=True)
def warm_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fork worker processes from one that has torch loaded. tests/workers/test_pool.py starts them as users do."""
    from radii.workers import pool

    monkeypatch.setattr(pool, "get_context", _warm_context)


def _warm_context(_: str) -> "ForkServerContext":
    from tools.processes import warm_context

    return warm_context()


@pytest.fixture
def linear_onnx(tmp_path: Path) -> Callable[..., Path]:
    """Writes an ONNX file of a linear classifier of 8 x 8 digits: options change what it takes and gives."""
    import torch

    onnx = pytest.importorskip("onnx", reason="the extra radii[onnx] is not installed")

    def write(
        name: str = "linear.onnx",
        shape: Sequence[int | str] = ("batch", 1, 8, 8),
        classes: int = 10,
        kind: int = onnx.TensorProto.FLOAT,
        outputs: Sequence[str] = ("scores",),
        nodes: Sequence[Any] = (),
    ) -> Path:
        pixels = math.prod(side for side in shape[1:] if isinstance(side, int))
        weight = torch.randn(pixels, classes, generator=torch.Generator().manual_seed(0)).numpy()
        helper = onnx.helper
        layers = [
            helper.make_node("Flatten", ["x"], ["flat"]),
            *(helper.make_node("MatMul", ["flat", "weight"], [output]) for output in outputs),
        ]
        graph = helper.make_graph(
            list(nodes) or layers,
            "linear",
            [helper.make_tensor_value_info("x", kind, list(shape))],
            [helper.make_tensor_value_info(output, kind, None) for output in outputs],
            [onnx.numpy_helper.from_array(weight, "weight")],
        )
        path = tmp_path / name
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
        path.write_bytes(model.SerializeToString())
        return path

    return write
