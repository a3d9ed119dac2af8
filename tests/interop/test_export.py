"""A run as an ONNX file: the same function, checked before it is written, with the same votes after an import."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import radii
from radii import certifiers, disk
from radii.certification.certify import CertificationConfig, certify_run
from radii.certification.population import certify_run_population
from radii.certifiers.population import OnePass
from radii.interop import export
from radii.interop.onnx import import_onnx
from radii.onnx_graph import OnnxError, OnnxGraph, description_file, is_installed, read
from radii.runs import certificates
from radii.runs.recipe import Recipe
from radii.runs.run import Run
from radii.smoothing import noise as noises
from radii.smoothing.normalisation import Normalisation
from radii.training.weights import ModelSpec, make_model, save_weights, trained_model

Write = Callable[..., Path]
NAMES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
NORMALISATION = Normalisation((0.4,), (0.3,))
pytestmark = pytest.mark.skipif(not is_installed(), reason="the extra radii[onnx] is not installed")


def make_run(path: Path, model: str = "digits_cnn") -> Run:
    """A run of untrained weights that has a normalisation."""
    recipe = Recipe(dataset="digits", model=model, sigma=0.25)
    spec = ModelSpec((1, 8, 8), NAMES, NORMALISATION)
    run = Run(path)
    run.claim(recipe, {})
    save_weights(run, make_model(recipe, spec), spec)
    return run


def certify(run: Run, engine: str) -> certificates.Certificates:
    config = CertificationConfig(
        run=run.path, certifier=certifiers.create("fixed", estimation=500), every=60, engine=engine
    )
    return certificates.read(certify_run(config, workers=1))


def test_card_states_the_certified_noise(tmp_path: Path) -> None:
    """Somebody who follows the card has to vote under the noise that was certified."""
    run = make_run(tmp_path / "run")
    card = description_file(radii.export(run.path, tmp_path / "a.onnx"))
    assert json.loads(card.read_text())["noise"] == {"name": "gaussian", "sigma": 0.25}
    fixed = certifiers.create("fixed", estimation=100)
    for noise in (noises.create("gaussian", sigma=0.5), noises.create("grid", sigma=0.5, levels=16)):
        config = CertificationConfig(run=run.path, certifier=fixed, every=150, engine="torch", noise=noise)
        file = certify_run(config, workers=1)
        stated = json.loads(description_file(radii.export(run.path, tmp_path / "a.onnx")).read_text())
        assert (stated["noise"], stated["sigma"]) == (noise.describe(), 0.5)
        certificates.header_file(file).unlink()
        file.unlink()


@pytest.mark.slow
def test_exported_and_imported_model_gives_the_same_votes(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    before = certify(run, "torch")
    file = radii.export(run.path, tmp_path / "out" / "tuned.onnx")
    assert sorted(path.name for path in file.parent.iterdir()) == ["tuned.onnx", "tuned.onnx.json"]
    after = certify(import_onnx(file, tmp_path / "again", sigma=0.25, dataset="digits"), "auto")
    assert after.header["engine"] == "onnx"
    for old, new in zip(before.rows, after.rows, strict=True):
        assert old.prediction == new.prediction
        assert sum(abs(old.counts.get(number, 0) - new.counts.get(number, 0)) for number in range(10)) <= 2
    description = json.loads(description_file(file).read_text())
    assert description["classes"][:2] == ["zero", "one"]
    assert (description["sigma"], description["input"]["shape"], description["output"]["name"]) == (
        0.25,
        ["batch", 1, 8, 8],
        "logits",
    )
    assert (description["weights"], description["sha256"]) == (disk.digest(run.weights()), disk.digest(file))
    (proven,) = description["certified"]
    assert (proven["certifier"], proven["engine"], proven["images"]) == ("fixed", "torch", len(before.rows))
    assert proven["certified_accuracy"]["0"] <= sum(row.correct for row in before.rows) / len(before.rows)


@pytest.mark.slow
def test_exported_graph_contains_the_normalisation_and_nothing_is_printed(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run = make_run(tmp_path / "run", "digits_mlp")
    images = torch.rand(3, 1, 8, 8)
    graph, model = OnnxGraph(read(radii.export(run, tmp_path / "x.onnx"))), trained_model(run)
    assert capfd.readouterr() == ("", "")
    with torch.inference_mode():
        torch.testing.assert_close(graph(images), model[1]((images - 0.4) / 0.3), rtol=1e-4, atol=1e-5)  # type: ignore[index]


def test_imported_file_is_exported_unchanged(linear_onnx: Write, tmp_path: Path) -> None:
    file = linear_onnx(shape=(4, 1, 8, 8))
    run = import_onnx(file, tmp_path / "run", sigma=0.25, dataset="digits")
    written = radii.export(run, tmp_path / "out.onnx")
    assert written.read_bytes() == file.read_bytes()
    assert json.loads(description_file(written).read_text())["input"]["shape"] == [4, 1, 8, 8]


def test_imported_file_is_exported_with_its_normalisation(linear_onnx: Write, tmp_path: Path) -> None:
    run = import_onnx(linear_onnx(), tmp_path / "run", sigma=0.25, dataset="digits", mean=(0.4,), std=(0.3,))
    images = torch.rand(5, 1, 8, 8)
    graph = OnnxGraph(read(radii.export(run, tmp_path / "out.onnx")))
    torch.testing.assert_close(graph(images), trained_model(run)(images))


def test_file_that_differs_from_the_model_is_not_written(
    linear_onnx: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "from_torch", lambda *_: read(linear_onnx()))
    with pytest.raises(ValueError, match="logits are off by up to .* from torch's: nothing was written"):
        radii.export(make_run(tmp_path / "run"), tmp_path / "x.onnx")
    assert not (tmp_path / "x.onnx").exists()
    assert not (tmp_path / "x.onnx.json").exists()


def test_file_name_must_end_in_onnx(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="does not end in .onnx: name the file to write, such as x.onnx"):
        radii.export(make_run(tmp_path / "run"), tmp_path / "x.pt")


def test_certificates_of_other_weights_are_not_in_the_description(linear_onnx: Write, tmp_path: Path) -> None:
    run = import_onnx(linear_onnx(), tmp_path / "run", sigma=0.25, dataset="digits")
    certify(run, "auto")
    file = radii.export(run, tmp_path / "a.onnx")
    assert len(json.loads(description_file(file).read_text())["certified"]) == 1
    model = trained_model(run)
    model.load_state_dict({"1.graph": OnnxGraph(read(linear_onnx("b.onnx", shape=(2, 1, 8, 8)))).graph})
    save_weights(run, model, ModelSpec((1, 8, 8), tuple(map(str, range(10))), Normalisation()))
    file = radii.export(run, tmp_path / "a.onnx")
    assert json.loads(description_file(file).read_text())["certified"] == []


def test_header_of_a_certificate_file_with_the_same_name_is_kept(linear_onnx: Write, tmp_path: Path) -> None:
    run = import_onnx(linear_onnx(), tmp_path / "run", sigma=0.25, dataset="digits")
    (tmp_path / "mine.json").write_text('{"procedure": "fixed"}')
    first = radii.export(run, tmp_path / "mine.onnx")
    assert (tmp_path / "mine.json").read_text() == '{"procedure": "fixed"}'
    assert radii.export(run, first) == first  # an export replaces an earlier one


@pytest.mark.parametrize("name", ["mine.onnx", "mine.onnx.json"])
def test_files_of_others_are_not_replaced(linear_onnx: Write, tmp_path: Path, name: str) -> None:
    run = import_onnx(linear_onnx(), tmp_path / "run", sigma=0.25, dataset="digits")
    (tmp_path / name).write_text("{}")
    with pytest.raises(OnnxError, match="name another file"):
        radii.export(run, tmp_path / "mine.onnx")
    assert (tmp_path / name).read_text() == "{}"


def test_one_pass_graph_draws_fresh_noise_and_answers_as_torch_does(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    path = radii.export(run, tmp_path / "one.onnx", one_pass=True)
    graph, model = OnnxGraph(read(path)), trained_model(run)
    images = torch.rand(1, 1, 8, 8, generator=torch.Generator().manual_seed(0)).expand(2_000, 1, 8, 8).contiguous()
    first, second = graph(images), graph(images)
    assert not torch.equal(first, second)
    assert len(first.unique(dim=0)) > 1_990, "every picture of a batch has noise of its own"
    noisy = images + 0.25 * torch.randn(images.shape, generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        expected = model(noisy)
    spread = expected.std(0) / 2_000**0.5
    assert ((first.mean(0) - expected.mean(0)).abs() < 6 * spread).all()
    assert torch.allclose(first.std(0), expected.std(0), rtol=0.15)


@pytest.mark.parametrize("runtime", ["onnxruntime", "openvino", "onnx"])
def test_one_pass_graph_draws_fresh_noise_in_every_runtime(tmp_path: Path, runtime: str) -> None:
    pytest.importorskip(runtime)
    path = str(radii.export(make_run(tmp_path / "run"), tmp_path / "one.onnx", one_pass=True))
    image = np.full((1, 1, 8, 8), 0.5, np.float32)
    run: Callable[[], Any]
    if runtime == "onnxruntime":
        import onnxruntime

        session = onnxruntime.InferenceSession(path)
        run = partial(session.run, None, {session.get_inputs()[0].name: image})
    elif runtime == "openvino":
        import openvino

        compiled = openvino.compile_model(path, "CPU")
        run = lambda: list(compiled(image).values())  # noqa: E731
    else:
        import onnx
        from onnx.reference import ReferenceEvaluator

        evaluator: Any = ReferenceEvaluator(path)
        run = partial(evaluator.run, None, {onnx.load(path).graph.input[0].name: image})
    assert len({np.asarray(run()[0]).tobytes() for _ in range(10)}) == 10


def test_one_pass_graph_states_no_seed(tmp_path: Path) -> None:
    import onnx

    path = radii.export(make_run(tmp_path / "run"), tmp_path / "one.onnx", one_pass=True)
    (noise,) = [node for node in onnx.load(str(path)).graph.node if node.op_type == "RandomNormalLike"]
    assert {attribute.name: attribute.f for attribute in noise.attribute} == {"mean": 0.0, "scale": 0.25}


def test_one_pass_description_has_the_proof_and_its_limits(digits_run: Callable[..., Run], tmp_path: Path) -> None:
    run = digits_run()
    config = CertificationConfig(run=run.path, certifier=OnePass(radii=(0.1,), votes=4), engine="torch", every=9)
    certify_run_population(config, workers=1)
    description = json.loads(description_file(radii.export(run, tmp_path / "one.onnx", one_pass=True)).read_text())
    (proof,) = description["proven"]
    assert 0 < proof["proven_one_pass_accuracy"]["0.1"] < 1
    assert description["one_pass"] is True
    assert "certified" not in description
    assert any("nothing is promised about one picture" in line for line in description["use"])
    assert "proven" not in json.loads(description_file(radii.export(run, tmp_path / "base.onnx")).read_text())


def test_one_pass_needs_noise_that_onnx_can_draw(digits_run: Callable[..., Run], tmp_path: Path) -> None:
    run = digits_run()
    config = CertificationConfig(
        run=run.path,
        certifier=certifiers.create("fixed", estimation=20, selection=5),
        noise=noises.create("grid", sigma=0.25, levels=16),
        engine="torch",
        max_images=1,
    )
    certify_run(config, workers=1)
    with pytest.raises(OnnxError, match="ONNX can draw Gaussian noise only"):
        radii.export(run, tmp_path / "one.onnx", one_pass=True)
    assert not (tmp_path / "one.onnx").exists()
