"""An ONNX graph as a module: its outputs, its state, and invalid files."""

import copy
import importlib.util
import pickle
import re
import signal
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from radii import engines, models, onnx_graph
from radii.engines import EngineSpec
from radii.errors import install
from radii.interop.export import with_normalisation
from radii.onnx_graph import OnnxError, OnnxGraph, is_installed, read
from radii.smoothing.noise import Gaussian
from tools.graphs import CLASSES, SHAPE, looping

Write = Callable[..., Path]
needs_onnx = pytest.mark.skipif(not is_installed(), reason="the extra radii[onnx] is not installed")


def images(count: int) -> Tensor:
    return torch.rand((count, 1, 8, 8), generator=torch.Generator().manual_seed(1))


def linear(images: Tensor, classes: int = 10) -> Tensor:
    return images.flatten(1) @ torch.randn(64, classes, generator=torch.Generator().manual_seed(0))


def test_module_gives_the_output_of_the_graph(linear_onnx: Write) -> None:
    model = models.create("onnx", file=str(linear_onnx()))
    torch.testing.assert_close(model(images(5)), linear(images(5)))
    channels_last = images(5).contiguous(memory_format=torch.channels_last)
    assert torch.equal(model(channels_last), model(images(5)))


@pytest.mark.parametrize("block", [1, 4, 7])
@pytest.mark.parametrize("count", [1, 4, 5, 9])
def test_fixed_batch_size_is_padded_and_repeated(block: int, count: int, linear_onnx: Write) -> None:
    graph = OnnxGraph(read(linear_onnx(shape=(block, 1, 8, 8))))
    assert graph.input_shape == (block, 1, 8, 8)
    torch.testing.assert_close(graph(images(count)), linear(images(count)))


def test_state_dict_contains_the_whole_graph(linear_onnx: Write) -> None:
    file = linear_onnx()
    model, empty = models.create("onnx", file=str(file)), models.create("onnx")
    expected = model(images(3))
    empty.load_state_dict(model.state_dict())
    assert empty[1].content == file.read_bytes()
    for copied in (empty, copy.deepcopy(model), pickle.loads(pickle.dumps(model)), engines.folded(model)):
        assert torch.equal(copied(images(3)), expected)


def test_a_graph_runs_on_the_cpu_wherever_the_layers_around_it_are(linear_onnx: Write) -> None:
    model = nn.Sequential(OnnxGraph(read(linear_onnx())), nn.Linear(10, 10, device="meta"))
    assert engines.device_of(model) == torch.device("cpu")
    assert engines.device_of(model[1]) == torch.device("meta")


def test_other_weights_replace_the_session(linear_onnx: Write) -> None:
    model = models.create("onnx", file=str(linear_onnx()))
    assert model(images(1)).shape == (1, 10)
    model.load_state_dict(models.create("onnx", file=str(linear_onnx("three.onnx", classes=3))).state_dict())
    assert model(images(1)).shape == (1, 3)


def test_threads_share_one_module(linear_onnx: Write) -> None:
    graph = OnnxGraph(read(linear_onnx()))
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda count: graph(images(count)), range(1, 65)))
    for count, logits in enumerate(answers, start=1):
        torch.testing.assert_close(logits, linear(images(count)))


def test_module_has_no_gradients_and_stays_in_eval_mode(linear_onnx: Write) -> None:
    model = models.create("onnx", file=str(linear_onnx())).train()
    assert not model[1].training
    with pytest.raises(OnnxError, match="gives no gradients"):
        model(images(1).requires_grad_())


def test_tracing_is_refused(linear_onnx: Write) -> None:
    with pytest.raises(TypeError, match="cannot be traced"):
        torch.jit.trace(OnnxGraph(read(linear_onnx())), images(1))


@pytest.mark.parametrize("engine", [*engines.names(), "auto"])
def test_only_the_onnx_engine_runs_a_graph(engine: str, linear_onnx: Write, tmp_path: Path) -> None:
    model = models.create("onnx", file=str(linear_onnx())).eval()
    spec = EngineSpec(model, (1, 8, 8), Gaussian(0.25), 16, tmp_path / "int8", lambda: images(32))
    if engine in ("auto", "onnx"):
        assert engines.prepare(spec, engine) == ("onnx", model)
    else:
        with pytest.raises(ValueError, match=f"the engine '{engine}' cannot run an ONNX model: use 'onnx'"):
            engines.prepare(spec, engine)


def test_normalisation_is_put_before_a_graph(linear_onnx: Write) -> None:
    mean, std = torch.full((1, 1, 1, 1), 0.3), torch.full((1, 1, 1, 1), 0.2)
    graph = OnnxGraph(with_normalisation(read(linear_onnx()), mean, std))
    torch.testing.assert_close(graph(images(4)), linear((images(4) - mean) / std))


def test_images_of_another_shape_are_refused(linear_onnx: Write) -> None:
    with pytest.raises(OnnxError, match="takes images 1 x 8 x 8, got 1 x 9 x 8"):
        OnnxGraph(read(linear_onnx()))(torch.rand(2, 1, 9, 8))
    with pytest.raises(OnnxError, match="the ONNX model fails on 2 x 1 x 9 x 8: "):
        OnnxGraph(read(linear_onnx(shape=("batch", 1, "height", "width"))))(torch.rand(2, 1, 9, 8))


@needs_onnx
@pytest.mark.parametrize("content", [b"", b"hello", bytes(range(256)) * 9])
def test_file_that_is_not_a_graph_is_refused(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "x.onnx"
    file.write_bytes(content)
    with pytest.raises(OnnxError) as caught:
        OnnxGraph(read(file)).session  # noqa: B018
    assert "\n" not in str(caught.value)


def test_a_truncated_file_is_refused(linear_onnx: Write) -> None:
    file = linear_onnx()
    file.write_bytes(file.read_bytes()[:-40])
    with pytest.raises(OnnxError, match="linear.onnx is not an ONNX file that can be read: "):
        read(file)


@needs_onnx
def test_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OnnxError, match="there is no file .*absent.onnx"):
        read(tmp_path / "absent.onnx")


@needs_onnx
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": 11}, r"takes a tensor\(double\) of 4 dimensions, expected float32 \[batch, channel"),
        ({"shape": ("batch", 64)}, r"takes a tensor\(float\) of 2 dimensions, expected float32"),
        ({"outputs": ("label", "scores")}, "has the outputs label, scores, expected one, or one named 'logits'"),
    ],
)
def test_graph_that_is_not_an_image_classifier_is_refused(
    options: dict[str, Any], message: str, linear_onnx: Write
) -> None:
    if options.get("kind") == 11:
        import onnx

        options["nodes"] = [onnx.helper.make_node("Flatten", ["x"], ["scores"])]
    with pytest.raises(OnnxError, match=message):
        OnnxGraph(read(linear_onnx(**options))).session  # noqa: B018


def test_logits_are_chosen_among_several_outputs(linear_onnx: Write) -> None:
    graph = OnnxGraph(read(linear_onnx(outputs=("features", "logits"))))
    assert graph.output_name == "logits"
    assert graph(images(2)).shape == (2, 10)


def test_custom_operator_is_refused(linear_onnx: Write) -> None:
    import onnx

    odd = onnx.helper.make_node("Payload", ["x"], ["scores"], domain="evil.example")
    with pytest.raises(OnnxError, match="ONNX Runtime cannot run this model: .*Payload|evil"):
        OnnxGraph(read(linear_onnx(nodes=[odd]))).session  # noqa: B018


def outside(file: Path, name: str, location: str) -> bytes:
    """A graph whose first weights are stated to be in another file."""
    import onnx

    model = onnx.load(str(file))
    tensor = model.graph.initializer[0]
    onnx.external_data_helper.set_external_data(tensor, location, 0, len(tensor.raw_data))
    tensor.ClearField("raw_data")
    tensor.name = model.graph.node[1].input[1] = name
    return bytes(model.SerializeToString())


@pytest.mark.parametrize("name", ["weight", ""])
def test_graph_that_names_another_file_is_refused(name: str, linear_onnx: Write, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(bytes(64 * 10 * 4))
    with pytest.raises(OnnxError, match=f"has the weights '{name}' in another file"):
        OnnxGraph(outside(linear_onnx(), name, str(secret))).session  # noqa: B018


def test_weights_outside_the_folder_are_not_read(linear_onnx: Write, tmp_path: Path) -> None:
    file = linear_onnx()
    below = tmp_path / "below"
    below.mkdir()
    (tmp_path / "secret").write_bytes(bytes(64 * 10 * 4))
    (below / "x.onnx").write_bytes(outside(file, "weight", "../secret"))
    with pytest.raises(OnnxError, match="x.onnx is not an ONNX file that can be read"):
        read(below / "x.onnx")


def test_weights_beside_a_file_are_put_into_it(linear_onnx: Write, tmp_path: Path) -> None:
    import onnx

    file = linear_onnx()
    raw = onnx.load(str(file)).graph.initializer[0].raw_data
    beside = tmp_path / "parted.onnx"
    beside.write_bytes(outside(file, "weight", "parted.onnx.data"))
    (tmp_path / "parted.onnx.data").write_bytes(raw)
    content = read(beside)
    (tmp_path / "parted.onnx.data").unlink()
    torch.testing.assert_close(OnnxGraph(content)(images(2)), linear(images(2)))


def test_without_the_extra_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    spec = EngineSpec(torch.nn.Flatten(), (1, 8, 8), Gaussian(0.25), 8, tmp_path / "int8", lambda: images(8))
    for use in (
        lambda: engines.create("onnx").prepare(spec),
        lambda: read(tmp_path / "x.onnx"),
        lambda: OnnxGraph(b"x")(images(1)),
    ):
        with pytest.raises(LookupError, match=re.escape(install("onnx"))):
            use()
    assert not engines.create("onnx").runs_on(torch.device("cpu"))
    assert is_installed() is False


def test_graph_that_loops_for_ever_is_refused_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx_graph, "TRIAL_SECONDS", 2)
    graph = OnnxGraph(read(looping(tmp_path / "loop.onnx")))
    with pytest.raises(OnnxError, match="does not classify one image within 2 s"):
        graph(images(1))


def test_graph_that_crashes_its_process_is_refused(linear_onnx: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx_graph, "_TRIED", set())
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: subprocess.CompletedProcess([], -signal.SIGSEGV, b"", b""))
    with pytest.raises(OnnxError, match="ends ONNX Runtime with signal 11"):
        OnnxGraph(read(linear_onnx()))(images(1))


def test_signals_end_a_run_that_loops_for_some_images(tmp_path: Path) -> None:
    graph = OnnxGraph(read(looping(tmp_path / "loop.onnx", only_bright=True)))
    assert graph(torch.zeros(2, *SHAPE)).shape == (2, CLASSES)

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, stop)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.5)
        with pytest.raises(KeyboardInterrupt):
            graph(torch.ones(2, *SHAPE))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert graph(torch.zeros(2, *SHAPE)).shape == (2, CLASSES)


def test_graph_is_tried_once_and_its_copies_are_not_tried_again(
    linear_onnx: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = OnnxGraph(read(linear_onnx()))
    expected, sent = graph(images(2)), pickle.dumps(graph)
    monkeypatch.setattr(onnx_graph, "_TRIED", set())
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: pytest.fail("it was tried again"))
    assert torch.equal(pickle.loads(sent)(images(2)), expected)
