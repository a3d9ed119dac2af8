"""A run directory is data: code that it names is imported only after the user has trusted it."""

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import radii
from radii.certification.certify import CertificationConfig, certify_run
from radii.cli import main
from radii.cli.app import in_words
from radii.reports.report import report
from radii.runs import certificates, trust
from radii.runs.recipe import Recipe, Training
from radii.runs.run import Run
from radii.runs.trust import UntrustedError
from radii.training.loop import train
from radii.training.transfer import train_students

TRAINING = Training(epochs=1, images_per_step=256, learning_rate=0.05)
OWN = """
import pathlib
pathlib.Path("canary").write_text("imported")
from torch import nn

class Tiny(nn.Sequential):
    def __init__(self, classes, width=16):
        super().__init__(nn.Flatten(), nn.Linear(64, width), nn.ReLU(), nn.Linear(width, classes))
"""


@pytest.fixture(scope="module")
def trained(trained_digits: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    run = Run(shutil.copytree(trained_digits, tmp_path_factory.mktemp("runs") / "digits"))
    from radii import certifiers

    config = CertificationConfig(run=run.path, certifier=certifiers.create("fixed", estimation=100), every=90)
    certify_run(config, workers=1)
    return run


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A current folder with a module in it that writes a canary file when it is imported, and no record of trust."""
    (tmp_path / "nets.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delitem(sys.modules, "nets", raising=False)
    return tmp_path


def run_naming_code(trained: Run, folder: Path, old: str, new: str) -> Run:
    """A copy of a run, as from another user, whose recipe names code."""
    shutil.copytree(trained.path, folder / "run")
    run = Run(folder / "run")
    text = run.recipe_file.read_text()
    assert old in text
    run.recipe_file.write_text(text.replace(old, new))
    return run


def certify(run: Run) -> object:
    from radii import certifiers

    config = CertificationConfig(run=run.path, certifier=certifiers.create("fixed", estimation=100), every=90, seed=0)
    return certify_run(config, workers=1)


def transfer_from(run: Run) -> object:
    return list(
        train_students(run, Recipe(dataset="digits", model="digits_cnn", sigma=0.25, training=TRAINING), ["lenet"])
    )


USES: dict[str, Callable[[Run], object]] = {
    "certify": certify,
    "load": lambda run: radii.load(run.path),
    "report": lambda run: report([run.path], run.path.parent / "out"),
    "transfer": transfer_from,
}
NAMES = ["os:system", "nets:Tiny", "nets.deeper:Tiny", "no_such_module:Tiny"]
PLACES = [
    ('model = "digits_cnn"', 'model = "{}"'),
    ('dataset = "digits"', 'dataset = "{}"'),
    ('name = "gaussian"', 'name = "{}"'),
]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("old", "new"), PLACES, ids=["model", "dataset", "objective"])
@pytest.mark.parametrize("use", USES)
def test_code_that_a_run_names_is_refused_and_not_imported(
    use: str, old: str, new: str, name: str, trained: Run, here: Path
) -> None:
    run = run_naming_code(trained, here, old, new.format(name))
    with pytest.raises(UntrustedError, match=f"names the code '{name}', which this user has not run before"):
        USES[use](run)
    assert not (here / "canary").exists()
    assert "nets" not in sys.modules


@pytest.mark.parametrize(
    "arguments",
    [
        ["certify", "run"],
        ["predict", "run", "photo.png"],
        ["report", "run"],
        ["transfer", "--teacher", "run", "--model", "digits_mlp"],
        ["soft-labels", "run"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_cli_error_is_one_sentence_with_the_flag(
    arguments: list[str], trained: Run, here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from PIL import Image

    Image.new("L", (8, 8)).save(here / "photo.png")
    run_naming_code(trained, here, 'model = "digits_cnn"', 'model = "nets:Tiny"')
    monkeypatch.setattr(sys, "argv", ["radii", *arguments])
    with pytest.raises(SystemExit) as stopped:
        main()
    error = capsys.readouterr().err
    assert stopped.value.code == 2
    assert error.count("\n") == 1
    assert error.endswith("Read nets, then trust it with --trust nets\n")
    assert not (here / "canary").exists()


def test_an_engine_that_a_certificate_file_names_is_not_imported(trained: Run, here: Path) -> None:
    run = run_naming_code(trained, here, "digits_cnn", "digits_cnn")
    (file,) = run.certificates.glob("*.json")
    engine = '"engine": "openvino"' if '"engine": "openvino"' in file.read_text() else '"engine": "torch"'
    file.write_text(file.read_text().replace(engine, '"engine": "nets:Tiny"'))
    with pytest.raises(UntrustedError, match="nets:Tiny"):
        certify(run)
    assert not (here / "canary").exists()


def test_naming_the_module_trusts_it(here: Path) -> None:
    recipe = Recipe(dataset="digits", model={"name": "nets:Tiny", "width": 8}, sigma=0.25, training=TRAINING)
    run = train(recipe, here / "own")
    shutil.rmtree(here / "state")
    with pytest.raises(UntrustedError):
        radii.load(run.path)
    assert radii.load(run.path, trust=["nets"], engine="torch").classes == 10
    with pytest.raises(UntrustedError):
        radii.load(run.path, trust=["other"])


def test_run_of_the_same_user_is_trusted_until_the_source_changes(here: Path) -> None:
    recipe = Recipe(dataset="digits", model="nets:Tiny", sigma=0.25, training=TRAINING)
    run = train(recipe, here / "own")
    assert run.recipe.model == {"name": "nets:Tiny", "width": 16}
    assert radii.load(run.path, engine="torch").classes == 10
    (here / "nets.py").write_text(OWN + "\n# changed\n")
    with pytest.raises(UntrustedError):
        radii.load(run.path)


def test_digest_covers_imported_modules(here: Path) -> None:
    (here / "nets.py").write_text("import pieces\n" + OWN)
    (here / "pieces.py").write_text("x = 1\n")
    trust.record(["nets:Tiny"])
    assert trust.is_known("nets")
    (here / "pieces.py").write_text("x = 2\n")
    assert not trust.is_known("nets")


def test_imports_of_radii_itself_are_not_followed(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / "nets.py").write_text("import radii.certification\n" + OWN)
    read: list[str] = []

    def imports(name: str, _: Path) -> list[str]:
        read.append(name)
        return ["radii.certification"]

    monkeypatch.setattr("radii.sources._imports", imports)
    assert trust.source_digest("nets") is not None
    assert read == ["nets"]


def test_package_is_found_without_importing_it(here: Path) -> None:
    (here / "mine").mkdir()
    (here / "mine" / "__init__.py").write_text("raise SystemExit('imported')\n")
    (here / "mine" / "nets.py").write_text("from . import parts\nfrom .parts import x\n")
    (here / "mine" / "parts.py").write_text("x = 1\n")
    first = trust.source_digest("mine.nets")
    assert first is not None
    (here / "mine" / "parts.py").write_text("x = 2\n")
    assert trust.source_digest("mine.nets") not in (None, first)
    assert "mine" not in sys.modules


def test_trust_reaches_worker_processes(here: Path) -> None:
    recipe = Recipe(dataset="digits", model="nets:Tiny", sigma=0.25, training=TRAINING)
    run = train(recipe, here / "own")
    shutil.rmtree(here / "state")
    code = (
        "from radii import certifiers; from radii.certification.certify import *\n"
        "if __name__ == '__main__':\n"
        "    fixed = certifiers.create('fixed', estimation=100)\n"
        "    trust = frozenset(['nets'])\n"
        "    config = CertificationConfig(run='own', certifier=fixed, every=90, engine='torch', trust=trust)\n"
        "    certify_run(config, workers=2)\n"
    )
    (here / "script.py").write_text(code)
    subprocess.run([sys.executable, "script.py"], cwd=here, check=True)
    (file,) = run.certificates.glob("*.tsv")
    assert len(certificates.read(file).rows) == 5


def test_modules_that_trusted_code_does_not_name_are_not_imported_from_the_folder(here: Path) -> None:
    """Libraries are imported later than trusted code, and the folder may hold files by their names."""
    recipe = Recipe(dataset="digits", model="nets:Tiny", sigma=0.25, training=TRAINING)
    run = train(recipe, here / "run")
    libraries = ("openvino", "fractions", "jinja2", "PIL", "onnx", "onnxruntime", "matplotlib", "scipy")
    for name in libraries:
        (here / f"{name}.py").write_text(f"open({str(here / 'hit')!r}, 'a').write({name!r})")
    commands = [
        ["certify", run.path, "--every", "90", "--set", "estimation=100", "--workers", "2"],
        ["report", run.path],
    ]
    for command in [*commands, ["export", run.path, here / "net.onnx"]]:
        ended = subprocess.run(
            [sys.executable, "-P", "-m", "radii", *map(str, command)], capture_output=True, text=True, check=False
        )
        assert ended.returncode == 0, ended.stderr
        assert not (here / "hit").exists(), (command, (here / "hit").read_text())


def test_cli_adds_the_trust_flag_to_the_error() -> None:
    assert in_words(UntrustedError("x names code: trust it", "nets")) == "x names code: trust it with --trust nets"


def test_bytecode_beside_trusted_source_is_not_run(here: Path) -> None:
    import importlib.util
    import py_compile

    recipe = Recipe(dataset="digits", model="nets:Tiny", sigma=0.25, training=TRAINING)
    run = train(recipe, here / "own")
    sys.modules.pop("nets")
    (here / "canary").unlink()
    evil = here / "evil.py"
    evil.write_text("import pathlib\npathlib.Path('evil-canary').write_text('ran')\n" + OWN)
    cached = importlib.util.cache_from_source(str(here / "nets.py"))
    py_compile.compile(str(evil), cached, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
    assert radii.load(run.path, engine="torch").classes == 10
    assert (here / "canary").exists()
    assert not (here / "evil-canary").exists()


def test_namespace_package_inside_a_package_that_is_not_imported_has_no_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "outer_package" / "inner").mkdir(parents=True)
    (tmp_path / "outer_package" / "__init__.py").touch()
    (tmp_path / "outer_package" / "inner" / "leaf.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    assert trust.source_digest("outer_package.inner.leaf") is None
    assert trust.source_digest("outer_package") is not None


MIXED = """
import numpy as np
from functools import partial
from numpy import load, save as write
from numpy import *
from torch import nn

class Tiny(nn.Module): ...
def make(): ...
maker = partial(Tiny)
other = make
read = np.load
again = load
made = make()
short = lambda: make()
saved = partial(np.load, allow_pickle=True)
cached = (partial)(load)
chosen = np.load if np else make
first = make or np.load
table = [np.load][0]
alias = (walrus := np.load)
try:
    from numpy import tri
except ImportError:
    def tri(): ...
"""


@pytest.mark.parametrize("name", ["Tiny", "make", "maker", "other", "made", "short"])
def test_trust_covers_names_that_the_module_defines(here: Path, name: str) -> None:
    (here / "mixed.py").write_text(MIXED)
    trust.require([f"mixed:{name}"], ["mixed"], here)


@pytest.mark.parametrize(
    "name",
    [
        *("load", "write", "read", "again", "tri", "np", "zeros", "missing", "saved", "cached", "chosen", "first"),
        *("table", "alias", "walrus"),
    ],
)
def test_trusting_a_module_does_not_trust_what_it_imports(here: Path, name: str) -> None:
    (here / "mixed.py").write_text(MIXED)
    with pytest.raises(UntrustedError, match="does not define it"):
        trust.require([f"mixed:{name}"], ["mixed"], here)
    trust.record(["mixed:Tiny"])
    with pytest.raises(UntrustedError, match="does not define it"):
        trust.require([f"mixed:{name}"], [], here)
    trust.require([f"mixed:{name}"], [f"mixed:{name}"], here)
    trust.record([f"mixed:{name}"])  # the user runs it
    trust.require([f"mixed:{name}"], [], here)


def test_names_of_the_own_package_are_defined_by_it(here: Path) -> None:
    (here / "pack" / "deep").mkdir(parents=True)
    (here / "pack" / "__init__.py").write_text("from .deep import Net\nfrom pack.deep.nets import *\n")
    (here / "pack" / "deep" / "__init__.py").write_text("from .nets import Net\n")
    (here / "pack" / "deep" / "nets.py").write_text("from numpy import load\nclass Net: ...\nclass More: ...\n")
    trust.require(["pack:Net", "pack:More", "pack.deep:Net"], ["pack", "pack.deep"], here)
    with pytest.raises(UntrustedError):
        trust.require(["pack:load"], ["pack"], here)


def test_images_in_an_unnamed_folder_are_not_read(here: Path) -> None:
    import numpy as np

    generator = np.random.default_rng(0)
    images, labels = generator.integers(0, 256, (40, 8, 8, 1), dtype=np.uint8), np.arange(40) % 10
    (here / "mine").mkdir()
    np.savez(
        here / "mine" / "arrays.npz", train_images=images, train_labels=labels, test_images=images, test_labels=labels
    )
    recipe = Recipe(dataset={"name": "arrays", "path": "mine"}, model="digits_cnn", sigma=0.25, training=TRAINING)
    run = train(recipe, here / "run")
    certify(run)  # this user named the path
    shutil.rmtree(run.certificates)
    trust.record_file().unlink()  # as another user's
    with pytest.raises(trust.UnnamedDataError, match="which this user has not named before") as refused:
        certify(run)
    assert "Name it with --data" in in_words(refused.value)
    radii.load(run.path)  # needs no images of the run's dataset
    from radii import certifiers

    config = CertificationConfig(
        run=run.path, certifier=certifiers.create("fixed", estimation=100), every=20, data=here / "mine"
    )
    certify_run(config, workers=1)
    shutil.rmtree(run.certificates)
    certify(run)


def test_deep_modules_have_a_digest(here: Path) -> None:
    for number in range(1500):
        (here / f"m{number}.py").write_text(f"import m{number + 1}\n")
    (here / "sums.py").write_text("import m0\nvalue = " + "+".join(["1"] * 20_000) + "\nclass Net: ...\n")
    assert trust.source_digest("sums")
    trust.is_known("sums")
    with pytest.raises(UntrustedError):
        trust.require(["sums:Other"], ["sums"], here)
