"""A pretended accelerator, in a process of its own: no mixtures of devices, and budgets of what a GPU is waited for."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from radii import certifiers, engines, objectives
from radii.certification.verify import verify_run
from radii.runs import certificates
from radii.runs.run import Run
from radii.training.loop import train

ROOT = Path(__file__).parents[2]
PREPARATION = ("engines/", "smoothing/probe.py", "smoothing/logits.py", "training/weights.py", "training/accuracy.py")
"""Where the device may be waited for: when a model is loaded, measured without noise, prepared and probed, once."""


@pytest.fixture(scope="module", params=[True, False], ids=["float64", "without float64"])
def has_float64(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture(scope="module")
def both(trained_digits: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[bool, tuple[dict[str, Any], Run]]:
    """Everything that is measured on a device with float64 and on one without it, and the run of each."""
    runs = [shutil.copytree(trained_digits, tmp_path_factory.mktemp("pretended") / "run") for _ in range(2)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "tools.pretended", *map(str, runs)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment, timeout=600)
    assert done.returncode == 0, done.stderr[-2000:]
    with_float64, without = json.loads(done.stdout.splitlines()[-1]).values()
    return {True: (with_float64, Run(runs[0])), False: (without, Run(runs[1]))}


@pytest.fixture(scope="module")
def measured(has_float64: bool, both: dict[bool, tuple[dict[str, Any], Run]]) -> tuple[dict[str, Any], Run]:
    return both[has_float64]


def at(places: dict[str, int], *allowed: str) -> dict[str, int]:
    """Return the lines where something happened, with how often, without those that are allowed."""
    return {place: count for place, count in places.items() if count and not place.startswith(allowed)}


def test_a_question_waits_for_nothing_and_copies_once(measured: tuple[dict[str, Any], Run], has_float64: bool) -> None:
    for name, counts in measured[0]["questions"].items():
        assert counts["equal"], f"{name}: another answer than on the CPU"
        places = counts["places"]
        assert at(places["waits"]) == {}, name
        assert at(places["to_device"], "smoothing/packing.py") == {}, name
        assert counts["to_device"] == 1, name
        passes = 2 if not has_float64 and "probabilities" in name else 0  # computed on the CPU, in float64
        assert counts["to_host"] - passes == 1, (name, at(places["to_host"]))
        assert at(places["to_host"], "smoothing/packing.py", "smoothing/questions.py") == {}, name


@pytest.mark.parametrize(("noise", "launches"), [("gaussian", 310), ("grid", 580)])
def test_launches_of_a_pass(measured: tuple[dict[str, Any], Run], noise: str, launches: int) -> None:
    """Most are the 64-bit integers of Philox; the network has ten."""
    assert measured[0]["questions"][f"{noise} votes"]["launches"] <= 2 * launches


def test_every_certifier_gives_the_certificate_of_the_cpu(measured: tuple[dict[str, Any], Run]) -> None:
    assert measured[0]["certifiers"] == dict.fromkeys(certifiers.names(), True)


def test_engines_run_beside_a_gpu_and_one_that_returns_zeros_is_found_out(measured: tuple[dict[str, Any], Run]) -> None:
    found = dict(measured[0]["engines"])
    assert found.pop("agreement of zeros") < 0.5
    of_the_cpu = {name for name in ("onnx", "openvino") if engines.create(name).runs_on(torch.device("cpu"))}
    assert of_the_cpu <= set(found.pop("on the CPU")) <= {"onnx", "openvino", "openvino_bf16"}
    assert of_the_cpu | {"torch", "torch_bf16", "torch_fp16"} <= found.keys()
    assert set(found.values()) == {100}


@pytest.mark.parametrize("drawn", ["objectives", "objectives by place"])
def test_a_training_step_reads_the_device_once(measured: tuple[dict[str, Any], Run], drawn: str) -> None:
    trained = measured[0][drawn]
    assert trained.keys() == set(objectives.names())
    for name, counts in trained.items():
        places = counts["places"]
        assert at(places["waits"]) == {}, name
        allowed = ["smoothing/streams.py"] if "place" in drawn else []  # the lanes of several copies
        assert at(places["to_device"], *allowed) == {}, name
        assert counts["to_device"] <= len(allowed), name
        assert sum(at(places["to_host"], "training/step.py").values()) == 0, name
        assert counts["to_host"] == 1, name


def test_draws_by_place_train_as_on_the_cpu(measured: tuple[dict[str, Any], Run]) -> None:
    for name, counts in measured[0]["objectives by place"].items():
        gpu, cpu = counts["losses"]
        assert gpu == pytest.approx(cpu, rel=1e-4), name
    assert measured[0]["objectives by place"]["macer"]["launches"] <= 500, "the noise of 16 copies is drawn at once"


def test_a_classifier_is_sent_without_its_device(measured: tuple[dict[str, Any], Run]) -> None:
    assert measured[0]["shipped"] == {"device": "cpu", "picture": "cpu", "equal": True, "trainable": True}


def test_networks_inside_others_count_on_the_device(measured: tuple[dict[str, Any], Run]) -> None:
    """An ensemble by consensus waits once a pass, to know which copies its other members have to see."""
    for name, counts in measured[0]["nested"].items():
        assert counts["equal"], name
        assert (counts["to_device"], counts["to_host"]) == (1, 1), name
        waits = [(place.partition(":")[0], count) for place, count in counts["places"]["waits"].items()]
        assert waits == ([("models/ensemble.py", 2)] if name == "consensus" else []), name


def test_one_pass_answers_are_copied_once_for_all_pictures(measured: tuple[dict[str, Any], Run]) -> None:
    found = measured[0]["one pass"]
    assert found["equal"]
    assert at(found["places"]["waits"], "engines/_classifier.py") == {}, "but where pixels on the device are checked"
    assert found["to_host"] == 1
    tables = at(found["places"]["to_device"], "smoothing/packing.py")
    assert (set(tables.values()), len(tables)) == ({2}, 1), "the streams of a pass"
    assert found["launches"] <= 2 * 330 + 6 * 20, "noise of 20 pictures is drawn in two passes, not 20 times"


def test_gradients_of_mean_probabilities_wait_for_nothing(measured: tuple[dict[str, Any], Run]) -> None:
    found = measured[0]["as module"]
    assert found["equal"]
    assert (found["waits"], found["to_device"], found["to_host"]) == (0, 0, 0), found["places"]


def test_one_rank_of_two_reads_the_device_once_a_step(both: dict[bool, tuple[dict[str, Any], Run]]) -> None:
    found = both[True][0]["ranks"]
    assert found["split"] == [2, 0]
    assert (found["waits"], found["to_host"]) == (0, 1), found["places"]


def test_certifying_waits_only_to_prepare(measured: tuple[dict[str, Any], Run]) -> None:
    run = measured[0]["run"]
    assert (run["device"], run["batch_size"]) == ("gpu:0", 2048)
    places = run["certify"]["places"]
    assert at(places["waits"], *PREPARATION) == {}
    assert at(places["to_device"], *PREPARATION, "smoothing/packing.py", "smoothing/streams.py") == {}
    assert sum(at(places["to_host"], *PREPARATION).values()) <= 2, "two questions about six images, packed"


def test_attacking_waits_once_an_ascent(measured: tuple[dict[str, Any], Run]) -> None:
    places = measured[0]["run"]["attacked"]["places"]
    assert at(places["waits"], *PREPARATION, "certification/attack.py") == {}
    assert at(places["to_host"], *PREPARATION, "smoothing/packing.py", "certification/attack.py") == {}


def test_updates_and_populations_wait_only_to_prepare_and_verify_on_this_cpu(
    measured: tuple[dict[str, Any], Run],
) -> None:
    """Updates ask two functions, populations also about training pictures."""
    found = measured[0]["after"]
    new, *files = map(Path, found["files"])
    assert all(words.startswith("equal: ") and "all votes equal" in words for words in found["verified"])
    for name, questions in (("update", 2), ("population", 2)):
        places = found["places"][name]
        assert at(places["waits"], *PREPARATION) == {}, name
        assert sum(at(places["to_host"], *PREPARATION).values()) <= questions, name
        assert at(places["to_device"], *PREPARATION, "smoothing/packing.py", "smoothing/streams.py") == {}, name
    for file in files:
        assert verify_run(new, file, rows=None).in_words().startswith("equal: ")


def test_a_dataset_is_certified_as_its_run(measured: tuple[dict[str, Any], Run]) -> None:
    run = measured[0]["run"]
    rows = certificates.read(Path(run["file"])).rows[:3]
    assert run["dataset"] == [[row.prediction, row.radius, list(row.counts.values())] for row in rows]


def test_clocks_are_read_when_the_device_is_done(measured: tuple[dict[str, Any], Run]) -> None:
    timings = measured[0]["timings"]
    steps = sum(
        count for place, count in timings["training"]["to_host"].items() if place.startswith("training/step.py")
    )
    assert steps >= 2
    assert at(timings["training"]["waits"], "training/timing.py") == {}
    clocks = [count for place, count in timings["training"]["waits"].items() if not place.endswith("device")]
    assert clocks == [1], "the forward pass of the evaluation"
    for name in ("cost of a step", "cost of a copy"):
        assert sum(count for place, count in timings[name]["waits"].items() if place.startswith("papers/cost.py")) >= 4


def test_the_benchmark_of_gpus_finds_the_noise_of_the_cpu_and_one_wait(measured: tuple[dict[str, Any], Run]) -> None:
    numbers, text = measured[0]["benchmark"].values()
    assert (numbers["noise"]["words_equal"], numbers["noise"]["grid_equal"]) == (True, True)
    found = {name: rates["waits"] for name, rates in numbers["subjects"]["digits_cnn"].items()}
    assert found == {"plain loop": None, "torch": 1, "torch, 64 images": 1, "torch_bf16": 1, "torch_fp16": 1}
    assert text.count("bit for bit | yes |") == 2
    assert len(re.findall(r"\| digits_cnn \| torch[^|]* \| [\d,]+ \| \d+\.\d\d \| 1 \|", text)) == 4


def test_serving_waits_once_a_pass(measured: tuple[dict[str, Any], Run]) -> None:
    served = measured[0]["served"]
    assert served["device"] == "gpu"
    assert len(served["labels"]) == 2
    assert at(served["places"]["waits"]) == {}
    assert at(served["places"]["to_host"], "smoothing/packing.py") == {}
    assert served["to_host"] == served["passes"]


def test_training_on_the_device_stops_continues_and_teaches(measured: tuple[dict[str, Any], Run]) -> None:
    """The second epoch, after a stop: every step reads its loss, a checkpoint whether its weights are finite."""
    found = measured[0]["training"]
    run, places = Run(found["run"]), found["trained"]["places"]
    beginning_and_end = ("datasets/_images.py", "training/loop.py", "training/checkpoint.py", "training/accuracy.py")
    assert at(places["waits"], *beginning_and_end) == {}
    assert sum(at(places["to_device"], *beginning_and_end).values()) == 3 * -(-1347 // 720), "queued, in each step"
    files = ("step", "accuracy", "checkpoint", "weights")
    allowed = [f"training/{name}.py" for name in files]
    assert at(places["to_host"], *allowed) == {}
    steps = -(-1347 // 720)
    assert sum(count for place, count in places["to_host"].items() if place.startswith("training/step.py")) == steps + 1
    by_tape = found["by tape"]
    assert sum(count for place, count in by_tape["to_host"].items() if place.startswith("training/step.py")) == 2 * (
        steps + 1
    )
    assert at(by_tape["to_host"], *allowed, *PREPARATION) == {}
    tape = at(by_tape["waits"], *beginning_and_end, *PREPARATION, "training/build.py")
    assert sum(tape.values()) == 2, (tape, "the logits of an epoch are put on the device once")
    assert Run(found["student"]).finished
    assert (run.path / "soft-labels.counts").stat().st_size == 3 * 4 * 10, "three images have votes"
    same = train(run.recipe, run.path.parent / "on-this-cpu")
    for ours, theirs in zip(same.history(), run.history(), strict=True):
        assert float(ours["loss"]) == pytest.approx(float(theirs["loss"]), rel=1e-3)


def test_a_file_of_one_device_verifies_on_it_and_on_this_cpu(measured: tuple[dict[str, Any], Run]) -> None:
    found, run = measured
    assert found["run"]["verified"].startswith("equal: 6 certificates in 1 file, 6 replayed, all votes equal")
    path = Path(found["run"]["file"])
    header = certificates.read(path).header
    assert [entry["device"] for entry in header["environments"]] == ["gpu"]
    result = verify_run(run, rows=None)
    assert result.exit_code == 0, result.in_words()
    assert result.replayed == 6


def test_a_file_of_one_device_is_continued_on_this_cpu(
    measured: tuple[dict[str, Any], Run], tmp_path: Path, certify_on: Callable[[Run, int], Path]
) -> None:
    found, made = measured
    run = Run(shutil.copytree(made.path, tmp_path / "run"))
    path = run.certificates / Path(found["run"]["file"]).name
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:4]))
    assert certify_on(run, 6) == path
    again = certificates.read(path)
    assert [(row.prediction, row.radius, row.counts) for row in again.rows] == [
        (row.prediction, row.radius, row.counts) for row in certificates.read(Path(found["run"]["file"])).rows
    ]
    assert [entry["device"] for entry in again.header["environments"]] == ["gpu", "cpu"]


@pytest.fixture
def certify_on() -> Callable[[Run, int], Path]:
    from radii.certification.certify import CertificationConfig, certify_run

    fixed = certifiers.create("fixed", selection=20, estimation=200)
    return lambda run, images: certify_run(
        CertificationConfig(run=run.path, certifier=fixed, max_images=images, engine="torch"), workers=1
    )
