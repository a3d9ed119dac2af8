"""Certification of a dataset from Python: whose noise, which file, who computes it."""

import importlib
import linecache
import os
import pickle
import signal
import subprocess
import sys
import time
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import radii
from radii import provenance
from radii.certification.certify import Certification
from radii.datasets import DataError
from radii.disk import LockedError, locked
from radii.errors import ParameterError, RunWarning
from radii.provenance import class_digests
from radii.runs import certificates
from radii.workers.pool import WorkerError
from tools.processes import warm_context

ROOT = Path(__file__).parents[2]


def threshold(shift: float = 0.0) -> nn.Sequential:
    """Two classes of 2 x 2 images: 0 if they are brighter than a half on average."""
    model = nn.Sequential(nn.Flatten(), nn.Linear(4, 2))
    weights = {"weight": torch.tensor([[1.0] * 4, [-1.0] * 4]), "bias": torch.tensor([-2.0, 2.0]) + shift}
    model[1].load_state_dict(weights)
    return model


SMOOTHED = radii.SmoothedClassifier(threshold(), sigma=0.25, classes=2)
IMAGES = torch.linspace(0, 1, 12)[:, None, None, None].expand(-1, 1, 2, 2).contiguous()
LABELS = (IMAGES.flatten(1)[:, 0] < 0.5).long()
QUICK: dict[str, Any] = {"seed": 0, "workers": 1, "selection": 10, "estimation": 200}


def told(rows: Any) -> list[tuple[Any, ...]]:
    return [(row.index, row.label, row.prediction, row.radius, dict(row.counts)) for row in rows]


def test_every_image_has_its_own_noise() -> None:
    same = IMAGES[7:8].expand(12, -1, -1, -1), LABELS[7:8].expand(12)
    rows = radii.certify_dataset(SMOOTHED, same, **QUICK).rows
    assert len({tuple(row.counts.items()) for row in rows}) > 6
    for row in rows[:3]:
        alone = radii.certify(SMOOTHED, IMAGES[7], seed=0, index=row.index, selection=10, estimation=200)
        assert alone.counts == tuple(row.counts.get(label, 0) for label in range(2))


def test_every_kind_of_dataset_gives_the_same_certificates() -> None:
    bytes_ = (IMAGES * 255).round().to(torch.uint8)
    pixels, dataset = bytes_.float() / 255, TensorDataset(bytes_.float() / 255, LABELS)
    wanted = told(radii.certify_dataset(SMOOTHED, (pixels, LABELS), **QUICK).rows)
    pairs = list(zip(bytes_, LABELS, strict=True))
    for given in [
        dataset,
        DataLoader(dataset, batch_size=5),
        (bytes_.permute(0, 2, 3, 1).numpy(), LABELS.numpy()),
        (bytes_[:, 0].numpy(), LABELS.tolist()),
        Listed([{"image": each.permute(1, 2, 0).numpy(), "label": int(label)} for each, label in pairs]),
    ]:
        assert told(radii.certify_dataset(SMOOTHED, given, **QUICK).rows) == wanted


class Listed:
    """A dataset of samples that are mappings."""

    def __init__(self, samples: list[Any]) -> None:
        self.samples = samples

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> Any:
        return self.samples[index]


def test_results_say_what_the_rows_say(tmp_path: Path) -> None:
    results = radii.certify_dataset(SMOOTHED, (IMAGES, LABELS), every=2, max_images=5, **QUICK)
    assert [row.index for row in results.rows] == [0, 2, 4, 6, 8]
    assert results.accuracy(0.1) == sum(row.correct and row.radius >= 0.1 for row in results.rows) / 5
    low, high = results.interval(0.1)
    assert 0 <= low <= results.accuracy(0.1) <= high <= 1
    assert results.acr == pytest.approx(sum(row.radius for row in results.rows if row.correct) / 5)
    for _ in range(2):
        assert results.report(tmp_path / "report").is_file()
    assert told(certificates.read(tmp_path / "report" / "certificates.tsv").rows) == told(results.rows)
    assert repr(results).startswith("Results(5 images, ")


def test_untested_radius_is_refused() -> None:
    results = radii.certify_dataset(SMOOTHED, (IMAGES, LABELS), "sequential", radii=(0.1, 0.2), seed=0, workers=1)
    assert results.accuracy(0.2) > 0
    with pytest.raises(ValueError, match=r"radius 0.15 was not tested, expected one of 0.1, 0.2"):
        results.accuracy(0.15)


@pytest.mark.parametrize("radius", [float("nan"), -0.1, "0.5", None, True])
def test_radius_that_is_none_is_refused(radius: Any) -> None:
    results = radii.certify_dataset(SMOOTHED, (IMAGES, LABELS), **QUICK)
    for ask in (results.accuracy, results.interval):
        with pytest.raises(ValueError, match="expected a number >= 0"):
            ask(radius)


def test_file_is_continued(tmp_path: Path) -> None:
    out, seen = tmp_path / "mine.tsv", []
    whole = told(radii.certify_dataset(SMOOTHED, (IMAGES, LABELS), **QUICK).rows)

    def stop(_: int, row: Any) -> None:
        seen.append(row)
        if len(seen) == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        radii.certify_dataset(SMOOTHED, (IMAGES, LABELS), out=out, progress=stop, **QUICK)
    assert len(certificates.read(out).rows) == 4
    assert told(radii.certify_dataset(SMOOTHED, (IMAGES, LABELS), out=out, **QUICK).rows) == whole
    before = out.read_bytes()
    assert told(radii.certify_dataset(SMOOTHED, (IMAGES, LABELS), out=str(out), **QUICK).rows) == whole
    assert out.read_bytes() == before


def other_function() -> radii.SmoothedClassifier:
    """The same weights and classes of layers, but another attribute."""
    model = threshold()
    model[0].start_dim = -3  # type: ignore[assignment]
    return radii.SmoothedClassifier(model, sigma=0.25, classes=2)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"classifier": radii.SmoothedClassifier(threshold(0.1), sigma=0.25, classes=2)}, "weights"),
        ({"classifier": radii.SmoothedClassifier(threshold(), sigma=0.3, classes=2)}, "noise.sigma"),
        ({"classifier": radii.SmoothedClassifier(threshold(), sigma=0.25, classes=2, engine="openvino")}, "engine"),
        ({"classifier": other_function()}, "structure"),
        ({"seed": 1}, "seed"),
        ({"estimation": 300}, "parameters.estimation"),
        ({"every": 2}, "every"),
        ({"dataset": (IMAGES.flip(0), LABELS)}, "data"),
        ({"dataset": TensorDataset(IMAGES.flip(0), LABELS)}, "data|dataset"),
    ],
)
def test_another_certification_is_not_mixed_in(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    call = {"classifier": SMOOTHED, "dataset": (IMAGES, LABELS), "out": tmp_path / "mine.tsv", **QUICK}
    radii.certify_dataset(**call)
    before = call["out"].read_bytes()
    with pytest.raises(ValueError, match=f"was made with ({words}) = "):
        radii.certify_dataset(**{**call, **change})
    assert call["out"].read_bytes() == before


class Settings:
    """A setting that no digest of a module reads."""

    scale = 1.0


class Scaled(nn.Module):
    """A linear layer behind a function that its weights and plain attributes do not determine."""

    def __init__(self, activation: Any = torch.relu, scale: float = 1.0) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 2)
        self.linear.load_state_dict(threshold()[1].state_dict())
        self.activation = activation
        self.table = {"scale": scale}
        self.array = np.array([scale])
        self.config = Settings()
        self.config.scale = scale
        self._scale = scale

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.linear(self.activation(images.flatten(1) - 0.5) + 0.5)
        return logits * self.table["scale"] * float(self.array[0]) * self.config.scale * self._scale


class Masked(nn.Module):
    """Adds a class that a large negative constant masks."""

    def forward(self, logits: Tensor) -> Tensor:
        return torch.cat([logits, torch.full_like(logits[:, :1], -1e9)], 1)


def hooked(scale: float) -> nn.Module:
    model = Scaled()
    model.linear.register_forward_hook(lambda _module, _given, output: scale * output)
    return model


def changed(name: str, value: Any) -> nn.Module:
    model = Scaled()
    setattr(model, name, value)
    return model


def config(scale: float) -> nn.Module:
    model = Scaled()
    model.config.scale = scale
    return model


def encoder(activation: Any) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        layer = nn.TransformerEncoderLayer(4, 2, 8, activation=activation, batch_first=True)
        return nn.Sequential(nn.Flatten(), nn.Unflatten(1, (1, 4)), layer, nn.Flatten(), nn.Linear(4, 2)).eval()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (Scaled(torch.relu), Scaled(torch.tanh)),
        (Scaled(), changed("table", {"scale": 2.0})),
        (Scaled(), changed("array", np.array([2.0]))),
        (Scaled(), config(2.0)),
        (hooked(1.0), hooked(2.0)),
        (Scaled(), changed("_scale", 2.0)),
        (encoder(nn.functional.silu), encoder(nn.functional.mish)),
        (Scaled(nn.functional.gelu), Scaled(partial(nn.functional.gelu, approximate="tanh"))),
        (Scaled(torch.tanh), Scaled(nn.functional.hardtanh)),
        (nn.Sequential(Scaled(torch.relu), Masked()), nn.Sequential(Scaled(torch.tanh), Masked())),
    ],
    ids=["activation", "dict", "array", "config", "hook", "private", "encoder", "gelu", "hardtanh", "masked"],
)
def test_another_function_of_the_same_weights_is_not_mixed_in(
    tmp_path: Path, before: nn.Module, after: nn.Module
) -> None:
    classes = 3 if isinstance(before, nn.Sequential) and isinstance(before[1], Masked) else 2
    first, other = (radii.SmoothedClassifier(model, sigma=0.25, classes=classes) for model in (before, after))
    call = {"dataset": (IMAGES, LABELS), "out": tmp_path / "mine.tsv", **QUICK}
    radii.certify_dataset(first, **call)
    radii.certify_dataset(first, **call)
    with pytest.raises(ValueError, match="was made with another function: logits of random images differ by"):
        radii.certify_dataset(other, **call)


NOISE = """
from dataclasses import dataclass
from radii.smoothing.noise import Gaussian

@dataclass(frozen=True)
class Mine(Gaussian):
    def draw(self, pixels, out, stream, first):
        stream.fill_normal(out.view(len(out), -1), first, deviation=self.sigma * 1.0)
        return out.add_(pixels)
"""
CERTIFIER = """
from dataclasses import dataclass, replace
from radii.certifiers.fixed import Fixed

@dataclass(frozen=True, kw_only=True)
class Mine(Fixed):
    def certify(self, about, label=None):
        certificate = yield from super().certify(about, label)
        return replace(certificate, radius=certificate.radius * 1.0)
"""


@pytest.mark.parametrize("source", [NOISE, CERTIFIER], ids=["noise", "certifier"])
def test_other_code_of_a_noise_or_a_certifier_is_not_mixed_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    def certify_with(source: str) -> None:
        (tmp_path / "my_own.py").write_text(source)
        linecache.clearcache()
        sys.modules.pop("my_own", None)
        importlib.invalidate_caches()
        mine = importlib.import_module("my_own").Mine
        noise, certifier = (mine(sigma=0.25), "fixed") if "sigma" in source else (None, mine(estimation=200))
        fields = {"estimation": 200} if certifier == "fixed" else {}
        classifier = radii.SmoothedClassifier(
            threshold(), classes=2, **({"noise": noise} if noise else {"sigma": 0.25})
        )
        options: dict[str, Any] = {"seed": 0, "workers": 1, "max_images": 2, "out": tmp_path / "mine.tsv", **fields}
        radii.certify_dataset(classifier, (IMAGES, LABELS), certifier, **options)

    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    certify_with(source)
    certify_with(source)
    with pytest.raises(ValueError, match="was made with other code of my_own:Mine"):
        certify_with(source.replace("* 1.0", "* 3.0"))
    sys.modules.pop("my_own")


def test_model_that_takes_no_random_images_is_recognised_by_the_first_image(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    probe = radii.SmoothedClassifier.probe_logits

    def picky(self: radii.SmoothedClassifier, shape: Any, image: Tensor | None = None) -> list[list[float]]:
        if image is None:
            raise ParameterError("the base classifier does not take 8 images of 1 x 2 x 2", "base")
        return probe(self, shape, image)

    monkeypatch.setattr(radii.SmoothedClassifier, "probe_logits", picky)
    call = {"dataset": (IMAGES, LABELS), "out": tmp_path / "mine.tsv", **QUICK}
    radii.certify_dataset(radii.SmoothedClassifier(Scaled(torch.relu), sigma=0.25, classes=2), **call)
    with pytest.raises(ValueError, match="was made with another function"):
        radii.certify_dataset(radii.SmoothedClassifier(Scaled(torch.tanh), sigma=0.25, classes=2), **call)


def test_layer_with_a_list_of_functions_is_the_same_in_every_process() -> None:
    """The repr of a function names its place in memory."""
    layers = [changed("functions", [torch.relu]), changed("functions", [torch.tanh])]
    assert provenance.structure_digest(layers[0]) == provenance.structure_digest(layers[1])
    assert provenance.structure_digest(changed("sizes", [1])) != provenance.structure_digest(changed("sizes", [2]))


def test_file_without_a_recorded_function_is_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "mine.tsv"
    with monkeypatch.context() as old:
        old.setattr(Certification, "function", None)
        radii.certify_dataset(SMOOTHED, (IMAGES, LABELS), out=out, **QUICK)
    assert "function" not in certificates.read(out).header
    whole = out.read_text()
    out.write_text("".join(whole.splitlines(keepends=True)[:5]))
    radii.certify_dataset(SMOOTHED, (IMAGES, LABELS), out=out, **QUICK)
    assert told(certificates.read(out).rows) == told(radii.certify_dataset(SMOOTHED, (IMAGES, LABELS), **QUICK).rows)
    assert "function" not in certificates.read(out).header


def test_other_images_of_a_lazy_dataset_are_not_mixed_in(tmp_path: Path) -> None:
    out = tmp_path / "mine.tsv"
    radii.certify_dataset(SMOOTHED, TensorDataset(IMAGES, LABELS), out=out, **QUICK)
    with pytest.raises(ValueError, match="was made from other data: its image 0 differs"):
        radii.certify_dataset(SMOOTHED, TensorDataset(IMAGES.flip(0), LABELS), out=out, **QUICK)


def test_one_writer_at_a_time(tmp_path: Path) -> None:
    out = tmp_path / "mine.tsv"
    with locked(out), pytest.raises(LockedError):
        radii.certify_dataset(SMOOTHED, (IMAGES, LABELS), out=out, **QUICK)


def test_model_that_is_trained_meanwhile_is_refused(tmp_path: Path) -> None:
    smoothed = radii.SmoothedClassifier(threshold(), sigma=0.25, classes=2)

    def train(_: int, row: Any) -> None:
        if row is not None:
            next(smoothed.base.parameters()).data.add_(1)

    with pytest.raises(ValueError, match="the model changed since the certification began"):
        radii.certify_dataset(smoothed, (IMAGES, LABELS), out=tmp_path / "a.tsv", progress=train, **QUICK)
    assert len(certificates.read(tmp_path / "a.tsv").rows) == 1


class Shaken:
    """A dataset with a random transform."""

    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return torch.rand(1, 2, 2), 0


@pytest.mark.parametrize(
    ("dataset", "words"),
    [
        (DataLoader(TensorDataset(IMAGES, LABELS), shuffle=True), "the loader shuffles"),
        (Shaken(), "changes between reads: remove random transforms"),
        ((IMAGES * 2, LABELS), r"pixels from 0 to 2, expected floats in \[0, 1\]"),
        (TensorDataset(IMAGES * 2, LABELS), "image 6 of the dataset: the image has pixels from 1.09"),
        ((IMAGES, LABELS + 1), "image 0 of the dataset has the label 2, expected 0 to 1"),
        (TensorDataset(IMAGES), "image 0 of the dataset is a tuple, expected a pair"),
        (Listed([]), "the dataset has no images"),
        ((IMAGES, ["a"] * len(IMAGES)), "the labels cannot be made one array of numbers"),
        ((np.array([None, None]), [0, 1]), "the images cannot be made one array of numbers"),
        (([[1, 2], [3]], [0, 1]), "the images cannot be made one array of numbers"),
        (7, "the dataset is a int, expected a torch Dataset"),
    ],
)
def test_unusable_dataset_is_refused_in_a_sentence(dataset: object, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        radii.certify_dataset(SMOOTHED, dataset, **QUICK)


def test_dataset_by_name() -> None:
    smoothed = radii.SmoothedClassifier(nn.Sequential(nn.Flatten(), nn.Linear(64, 10)), sigma=0.25, classes=10)
    results = radii.certify_dataset(smoothed, "digits", every=150, **QUICK)
    assert (len(results.rows), results.certificates.header["dataset"]) == (3, "digits")


@pytest.mark.slow
def test_any_executor_gives_the_same_certificates() -> None:
    quick = {**QUICK, "workers": None}
    wanted = told(radii.certify_dataset(SMOOTHED, (IMAGES, LABELS), **QUICK).rows)
    pools: list[Executor] = [ThreadPoolExecutor(2), ProcessPoolExecutor(1, warm_context())]
    for pool in pools:
        with pool:
            found = radii.certify_dataset(SMOOTHED, (IMAGES, LABELS), executor=pool, **quick)
            assert told(found.rows) == wanted
    assert told(radii.certify_dataset(SMOOTHED, (IMAGES, LABELS), **{**QUICK, "workers": 2}).rows) == wanted


class Unpicklable(nn.Module):
    """Keeps a generator, which no pickler takes."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers = (number for number in range(3))

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = SMOOTHED.base(images)
        return logits


def test_model_that_cannot_be_pickled_is_certified_by_threads() -> None:
    smoothed = radii.SmoothedClassifier(Unpicklable(), sigma=0.25, classes=2)
    with pytest.warns(RunWarning, match="the model Unpicklable cannot be pickled: .*; it runs in threads"):
        rows = radii.certify_dataset(smoothed, (IMAGES, LABELS), **{**QUICK, "workers": 2}).rows
    assert told(rows) == told(radii.certify_dataset(SMOOTHED, (IMAGES, LABELS), **QUICK).rows)
    with (
        ProcessPoolExecutor(1) as pool,
        pytest.raises(ValueError, match="cannot be pickled: .*use an executor of threads"),
    ):
        radii.certify_dataset(smoothed, (IMAGES, LABELS), executor=pool, **QUICK)


@pytest.mark.slow
def test_model_of_a_function_is_sent_to_processes() -> None:
    class Local(nn.Flatten):
        pass

    smoothed = radii.SmoothedClassifier(Local(), sigma=0.25, classes=4)
    two, one = (
        radii.certify_dataset(smoothed, (IMAGES, LABELS), **{**QUICK, "workers": workers}).rows for workers in (2, 1)
    )
    assert told(two) == told(one)


SCRIPT = """
import sys, torch, radii
print("begins", __name__)
model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 2))
smoothed = radii.SmoothedClassifier(model, sigma=0.25, classes=2)
results = radii.certify_dataset(
    smoothed, (torch.rand(4, 1, 2, 2), [0, 1, 0, 1]), seed=0, workers=2, selection=10, estimation=100
)
print(len(results.rows))
"""


@pytest.mark.slow
def test_script_without_a_main_guard_is_not_run_by_the_workers(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "script.py"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "begins __main__\n4\n"


def test_progress_is_a_line_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    radii.certify_dataset(SMOOTHED, (IMAGES, LABELS), **QUICK)
    assert capsys.readouterr().err == "", "it is no terminal"
    radii.certify_dataset(SMOOTHED, (IMAGES, LABELS), progress=True, **QUICK)
    lines = capsys.readouterr().err.split("\r")
    assert lines[1].strip() == "certifying: 0 of 12 images, 0 certified and correct"
    assert lines[-1].startswith("certifying: 12 of 12 images, ")


def test_loaded_arrays_are_those_of_the_header(tmp_path: Path) -> None:
    out = tmp_path / "mine.tsv"
    radii.certify_dataset(SMOOTHED, (IMAGES.numpy(), np.asarray(LABELS)), out=out, **QUICK)
    header = certificates.read(out).header
    assert (header["engine"], header["seed"], header["noise"]) == ("torch", 0, {"name": "gaussian", "sigma": 0.25})
    assert all(header[name] for name in ("weights", "structure", "data", "images", "stream"))
    assert header["code"] == {}, "torch's own layers are not the user's code"


class Blackening(nn.Module):
    """Makes dark pixels black in the tensor that it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.after = threshold()

    def forward(self, images: Tensor) -> Tensor:
        images[images < 0.3] = 0.0
        logits: Tensor = self.after(images)
        return logits


def test_model_that_works_in_place_changes_no_image() -> None:
    images = torch.tensor([0.25, 0.75]).repeat(6, 2).reshape(6, 1, 2, 2)
    before, smoothed = images.clone(), radii.SmoothedClassifier(Blackening(), sigma=0.25, classes=2)
    rows = radii.certify_dataset(smoothed, TensorDataset(images, LABELS[:6]), **QUICK).rows
    assert torch.equal(images, before)
    later = radii.certify_dataset(smoothed, TensorDataset(before, LABELS[:6]), **QUICK).rows
    assert told(rows) == told(later)


def test_image_is_sent_without_the_tensor_that_it_is_part_of() -> None:
    sizes: list[int] = []

    class Measuring(ThreadPoolExecutor):
        def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
            sizes.append(len(pickle.dumps(args)))
            return super().submit(fn, *args, **kwargs)

    images = torch.rand(50_000, 1, 2, 2)
    dataset = TensorDataset(images, torch.zeros(50_000, dtype=torch.long))
    with Measuring(2) as executor:
        radii.certify_dataset(SMOOTHED, dataset, **{**QUICK, "max_images": 4}, executor=executor)
    assert max(sizes) < 20_000


class Deadly(nn.Module):
    """Kills its process at a white image, unless that is the one with this id."""

    def __init__(self, spared: int) -> None:
        super().__init__()
        self.after, self.spared = threshold(), spared

    def forward(self, images: Tensor) -> Tensor:
        if os.getpid() != self.spared and bool((images.mean((1, 2, 3)) > 0.9).any()):
            os.kill(os.getpid(), signal.SIGKILL)
        logits: Tensor = self.after(images)
        return logits


@pytest.mark.slow
def test_image_that_kills_workers_is_named_and_the_rows_before_it_are_kept(tmp_path: Path) -> None:
    images = torch.full((6, 1, 2, 2), 0.5)
    images[4] = 1.0
    smoothed = radii.SmoothedClassifier(Deadly(os.getpid()), sigma=0.01, classes=2)
    options = {**QUICK, "workers": 2, "out": tmp_path / "certificates.tsv"}
    with pytest.raises(WorkerError, match="3 worker processes died at image 4, the last of signal SIGKILL"):
        radii.certify_dataset(smoothed, (images, LABELS[:6]), **options)
    assert [row.index for row in certificates.read(options["out"]).rows] == [0, 1, 2, 3]


@pytest.mark.parametrize("label", [-1, 2])
def test_label_out_of_range_is_an_error_in_its_turn(label: int, tmp_path: Path) -> None:
    labels = LABELS.tolist()
    labels[3] = label
    dataset = TensorDataset(IMAGES, torch.tensor(labels))
    with pytest.raises(DataError, match=f"image 3 of the dataset has the label {label}, expected 0 to 1"):
        radii.certify_dataset(SMOOTHED, dataset, **QUICK, out=tmp_path / "certificates.tsv")
    assert len(certificates.read(tmp_path / "certificates.tsv").rows) == 3


def test_worker_that_answers_nonsense_is_refused() -> None:
    class Forgetful(ThreadPoolExecutor):
        def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
            return super().submit(fn if len(args) == 1 else lambda *_: None, *args, **kwargs)

    with Forgetful(1) as executor, pytest.raises(WorkerError, match="answered a NoneType, expected a report"):
        radii.certify_dataset(SMOOTHED, (IMAGES, LABELS), **QUICK, executor=executor)


def test_source_of_a_model_is_parsed_by_one_thread_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python 3.11 raises a SystemError otherwise."""
    inside, most = list[int](), list[int]()

    def getsource(_: type) -> str:
        inside.append(0)
        most.append(len(inside))
        time.sleep(0.02)
        inside.pop()
        return ""

    monkeypatch.setattr("inspect.getsource", getsource)
    monkeypatch.setattr("radii.runs.trust.source_digest", lambda _: "")
    with ThreadPoolExecutor(4) as executor:
        list(executor.map(class_digests, [[Blackening()]] * 4))
    assert most == [1, 1, 1, 1]
