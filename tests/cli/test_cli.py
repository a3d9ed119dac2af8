"""The command line, with valid and invalid arguments."""

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from radii import cli
from radii.certifiers import Certifier
from radii.certifiers import create as created
from tests.cli.running import radii

RECIPE = """
dataset = "digits"
model = "digits_cnn"
sigma = 0.25

[objective]
name = "gaussian"

[training]
epochs = 3
images_per_step = 128
learning_rate = 0.05
"""


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one trained run."""
    folder = tmp_path_factory.mktemp("home")
    (folder / "small.toml").write_text(RECIPE)
    trained = radii("train", "small.toml", "--run", "runs/g", cwd=folder)
    assert trained.code == 0, trained.error
    assert "next, in 3 min: radii audit runs/g --minutes 3" in trained.out
    pixels = np.random.default_rng(0).integers(0, 256, (8, 8), dtype=np.uint8)
    Image.fromarray(pixels).save(folder / "photo.png")
    Image.fromarray(np.zeros((10, 9), np.uint8)).save(folder / "large.png")
    return folder


@pytest.mark.slow
def test_train_certify_report(home: Path) -> None:
    certified = radii("certify", "runs/g", "--every", "90", "--set", "estimation=200", "--linf", cwd=home)
    assert certified.code == 0, certified.error
    assert "5 images" in certified.out
    assert "over the square root of 64" in certified.out
    reported = radii("report", "runs/g", "--out", "out", cwd=home)
    assert reported.code == 0, reported.error
    assert {path.name for path in (home / "out").iterdir()} >= {
        "report.md",
        "report.csv",
        "report.tex",
        "report.html",
        "curves.svg",
        "curves.png",
    }


@pytest.mark.slow
def test_verify_has_an_exit_code_and_one_line(home: Path, tmp_path: Path) -> None:
    shutil.copytree(home / "runs" / "g", tmp_path / "g", ignore=shutil.ignore_patterns("certificates"))
    fields = ["--set", "estimation=200", "--engine", "torch", "--workers", "1"]
    assert radii("verify", "g", cwd=tmp_path).code == 2
    assert radii("certify", "g", "--max", "3", *fields, cwd=tmp_path).code == 0
    (file,) = (tmp_path / "g" / "certificates").glob("*.tsv")
    equal = radii("verify", "g", "--all", cwd=tmp_path)
    assert (equal.code, equal.out) == (0, "g: equal: 3 certificates in 1 file, 3 replayed, all votes equal\n")
    name = str(file.relative_to(tmp_path))
    assert radii("verify", name, "--rows", "1", cwd=tmp_path).out.endswith("1 replayed, all votes equal\n")
    assert radii("verify", name, "--run", str(home / "runs" / "g"), "--rows", "1", cwd=tmp_path).code == 0
    file.write_text(file.read_text().replace("\t300\t", "\t301\t", 1))
    differs = radii("verify", "g", cwd=tmp_path)
    assert (differs.code, differs.out.count("\n"), differs.error) == (1, 1, "")
    assert "g: differs: " in differs.out


@pytest.mark.slow
def test_predict_warns_about_another_engine_and_uses_the_certified_kind(home: Path, tmp_path: Path) -> None:
    pytest.importorskip("openvino")
    shutil.copytree(home / "runs" / "g", tmp_path / "g", ignore=shutil.ignore_patterns("certificates"))
    fields = ["--max", "1", "--set", "estimation=200", "--engine", "torch", "--workers", "1"]
    assert radii("certify", "g", "--with", "soft", *fields, cwd=tmp_path).code == 0
    photo = str(home / "photo.png")
    asked: list[str] = []

    def create(name: str, **fields: Any) -> Certifier:
        asked.append(name)
        return created(name, **fields)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("radii.certifiers.create", create)
        plain = radii("predict", "g", photo, cwd=tmp_path)
        other = radii("predict", "g", photo, "--engine", "openvino", "--with", "prediction", cwd=tmp_path)
    prepared = "radii: pictures are prepared as the test pictures: as they are, 8 x 8 pixels\n"
    # A photograph of noise may get no answer, which is exit code 1.
    assert plain.code in (0, 1)
    assert other.code in (0, 1)
    assert plain.error == prepared
    assert set(asked[:1]) == {"soft"}
    assert set(asked[-1:]) == {"prediction"}
    warning = "radii: the certificates of g were made with the engine 'torch': they do not hold for 'openvino'\n"
    assert sorted(other.error.splitlines(keepends=True)) == sorted([prepared, warning])


def test_list_shows_every_registry(home: Path) -> None:
    listed = radii("list", cwd=home).out
    for word in (
        "engines",
        "openvino_int8",
        "noises",
        "objectives",
        "gaussian",
        "certifiers",
        "fixed",
        "models",
        "lenet",
        "denoisers",
        "dncnn",
        "datasets",
        "digits",
        "recipes",
    ):
        assert word in listed
    assert "mnist" in listed
    assert "gaussian-0.25" in listed


WRONG: list[tuple[Sequence[str], str]] = [
    (["report", "[/x]"], "cannot read the certificate file [/x]"),
    (["report", "[/x].tsv", "--out", "[/x]"], "cannot read the certificate file [/x].tsv"),
    (["certify", "[/x]", "--trust", "[/x]"], "[/x] is not a run"),
    (["certify", "runs/g", "--set", "estimation=" + "7" * 400], "a whole number of 400 digits"),
    (["train", "absent.toml", "--run", "x"], "Cannot read the recipe absent.toml"),
    (["train", "small.toml", "--run", "x", "--set", "sigma=0"], "sigma = 0, expected a number > 0"),
    (["train", "small.toml", "--run", "x", "--set", "training.epoks=1"], "did you mean 'epochs'"),
    (["train", "small.toml", "--run", "x", "--set", "dataset=digit"], "did you mean 'digits'"),
    (["train", "small.toml", "--run", "x", "--set", "model=lenet"], "at least 16 x 16"),
    (["train", "small.toml", "--run", "x", "--set", "model=no.such:thing"], "cannot find the model"),
    (["train", "small.toml", "--run", "x", "--set", "objective.name=gausian"], "did you mean 'gaussian'"),
    (["train", "small.toml", "--run", "x", "--set", "objective.copys=2"], "did you mean 'copies'"),
    (
        ["train", "small.toml", "--run", "runs/g", "--set", "sigma=0.5"],
        "belongs to another recipe (it has sigma = 0.25, not 0.5); name another with --run",
    ),
    (
        ["train", "mnist/gaussian-0.25", "--run", "x", "--data", "nowhere"],
        "there is no folder nowhere: create it, or name another; name it with --data or RADII_DATA",
    ),
    (["train", "mnist/gausian-0.25", "--run", "x"], "did you mean 'mnist/gaussian-0.25'"),
    (["train", "small.toml", "--run", "x", "--set", "model.width=3"], "model 'digits_cnn' has no field 'width'"),
    (["train", "small.toml", "--run", "x", "--set", "dataset.siz=3"], "dataset 'digits' has no field 'siz'"),
    (["train", "digits/transfer-0.25", "--run", "x"], "needs teacher: the model of a trained run; pass --teacher RUN"),
    (["train", "digits/catrs-0.25", "--run", "x"], "; pass --soft-labels FILE made by `radii soft-labels RUN`"),
    (["train", "digits/denoising-0.25", "--run", "x"], "model 'denoised' needs the field 'classifier'"),
    (["train", "consistncy", "--from", "runs/g", "--run", "x"], "did you mean 'consistency'"),
    (["train", "denoising", "--from", "nowhere", "--run", "x"], "nowhere is not a run"),
    (["certify", "runs/g", "--noise", "gausian"], "there is no noise 'gausian'; did you mean 'gaussian'"),
    (["certify", "nowhere"], "is not a run"),
    (["certify", "runs/g1"], "did you mean 'runs/g'?"),
    (["certify", "g"], "did you mean 'runs/g'?"),
    (["certifi", "runs/g"], 'unknown command "certifi". Did you mean "certify"?'),
    (["certify", "runs/g", "--evry", "3"], "unknown option: --evry. Did you mean --every?"),
    (["certify", "runs/g", "more"], "too many arguments: more is not expected"),
    (["certify", "runs/g", "--device", "warp"], "there is no device 'warp' here, expected one of: cpu"),
    (["show", "runs/g1"], "did you mean 'runs/g'?"),
    (["list", "modls"], "did you mean 'models'?"),
    (["list", "models", "lennet"], "did you mean 'lenet'?"),
    (["certify", "runs/g", "--set", "failure=2"], "failure = 2, expected a number > 0 and < 1"),
    (["certify", "runs/g", "--set", "estimation=0"], "estimation = 0, expected"),
    (["certify", "runs/g", "--set", "estimation=5"], "the smallest that can is 10"),
    (["certify", "runs/g", "--with", "fixd"], "did you mean 'fixed'"),
    (["certify", "runs/g", "--every", "0"], "every = 0, expected"),
    (["certify", "runs/g", "--engine", "warp"], "there is no engine 'warp'"),
    (["certify", "runs/g", "--workers", "0"], "workers = 0, expected"),
    (["certify", "runs/g", "--radii", "a,b"], "expected numbers separated by commas"),
    (["predict", "runs/g", "absent.png"], "absent.png is not there. Name pictures, or folders of them."),
    (
        ["predict", "runs/g"],
        "There is nothing to predict. Name pictures, folders, or -",
    ),
    (["predict", "runs/g", "photo.png", "--jsn"], "Did you mean --json?"),
    (["predict", "runs/g", "photo.png", "--with", "fixd"], "did you mean 'fixed'"),
    (["predict", "runs/g", "small.toml"], "cannot read small.toml as an image"),
    (["predict", "runs/g", "large.png"], "large.png is 9 x 10 pixels, the model takes 8 x 8"),
    (["verify", "nowhere"], "There is neither a run nor a certificate file nowhere. Name an existing one."),
    (["verify", "runs/g", "--rows", "-1"], "rows = -1, expected"),
    (["report"], "nothing to report"),
    (["report", "nowhere"], "nowhere"),
    (["transfer", "--model", "digits_cnn"], "There is no teacher. Name one with --teacher RUN, or"),
    (["transfer", "--teacher", "g", "--model", "vit", "--set", "model.width=9"], "which --model replaces"),
    (["certify", "runs/g", "--radii", "0.25"], "--radii 0.25: fixed bounds the radius itself. Add --with sequential"),
    (["import", "nets", "--weights", "w.pt", "--run", "x"], "There is no file nets. Name a file, or a factory"),
    (["import", "my.nets.load", "--run", "x"], "or a factory as module:name, such as my.nets:load."),
    (["import", "digits_cnn", "--run", "x"], "digits_cnn begins with random weights. Name a file of trained ones with"),
    (["import", "nets:load"], "`radii import` needs --run. `radii import --help` says what it takes."),
    (["harden", "runs/g", "--minutes"], "`radii harden` needs a value after --minutes."),
    (["certify"], "`radii certify` needs RUN."),
    (["import", "a.pt", "--dataset", "digits", "--run", "x"], "needs --model. A network of your own is imported by"),
    (["import", "absent.pth", "--dataset", "cifar10", "--model", "cifar_resnet20", "--run", "x"], "no checkpoint"),
]


@pytest.mark.parametrize(("arguments", "message"), WRONG, ids=[" ".join(arguments) for arguments, _ in WRONG])
def test_invalid_arguments_give_a_one_line_error(arguments: Sequence[str], message: str, home: Path) -> None:
    before = sorted(path for path in home.rglob("*"))
    wrong = radii(*arguments, cwd=home)
    assert wrong.code not in (0, None)
    assert message in wrong.error
    assert "Traceback" not in wrong.error
    assert wrong.error.count("\n") == 1
    assert sorted(path for path in home.rglob("*")) == before


def test_list_does_not_import_torch(home: Path) -> None:
    code = "import sys\nfrom radii import cli\ntry: cli.main()\nexcept SystemExit: sys.exit('torch' in sys.modules)"
    listed = subprocess.run([sys.executable, "-c", code, "list"], cwd=home, check=False, capture_output=True)
    assert listed.returncode == 0
    assert listed.stdout


def test_every_argument_has_help() -> None:
    commands = [name for name in cli.app if not name.startswith("-")]
    texts = {
        (command, argument.name): argument.parameter.help
        for command in commands
        for argument in cli.app[command].assemble_argument_collection(parse_docstring=True)
        if argument.name != "*"  # a dataclass of options: each of them has a text
    }
    assert texts
    assert [where for where, text in texts.items() if not text] == []


def test_control_characters_in_a_file_do_not_reach_the_terminal(tmp_path: Path) -> None:
    (tmp_path / "log.tsv").write_text("idx\tlabel\tpredict\tradius\tcorrect\ttime\n\x1b[2J\t1\t1\t0\t1\t0\n")
    wrong = radii("report", "log.tsv", cwd=tmp_path)
    assert "line 2 is not a certificate" in wrong.error
    assert "\x1b" not in wrong.error


@pytest.mark.parametrize(
    ("verb", "flag"),
    [
        *(("certify", flag) for flag in ("every", "max", "seed", "workers")),
        *(("verify", flag) for flag in ("rows", "workers")),
        *(("soft-labels", flag) for flag in ("samples", "seed")),
    ],
)
def test_a_number_that_is_not_whole_is_never_rounded(tmp_path: Path, verb: str, flag: str) -> None:
    outcome = radii(verb, "run", f"--{flag}", "0.9", cwd=tmp_path)
    assert outcome.code == 2
    assert f"--{flag}: '0.9' is not a whole number" in outcome.out + outcome.error


def test_verify_of_another_file_names_that_file(tmp_path: Path) -> None:
    (tmp_path / "tuned.onnx").write_bytes(b"")
    (tmp_path / "mine.tsv").write_bytes(b"")
    assert "tuned.onnx is not a certificate file" in radii("verify", "tuned.onnx", cwd=tmp_path).error
    assert "mine.tsv is not in a run" in radii("verify", "mine.tsv", cwd=tmp_path).error


def test_into_is_another_spelling_of_run(tmp_path: Path) -> None:
    ended = radii("train", "digits/gaussian-0.25", "--into", "g", "--set", "training.epochs=1", cwd=tmp_path)
    assert (ended.code, (tmp_path / "g" / "model.safetensors").is_file()) == (0, True)
