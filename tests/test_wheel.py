"""The wheel, installed in a separate environment, works outside of the checkout."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CLEAN = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"} | {"OMP_NUM_THREADS": "1"}


def run(*command: object, folder: Path) -> str:
    """Run a command and return its output; fail with its errors."""
    done = subprocess.run([*map(str, command)], cwd=folder, env=CLEAN, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def pip(*arguments: object, folder: Path) -> None:
    run(sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments, folder=folder)


def installed(folder: Path) -> Path:
    """An environment that contains only the wheel; its dependencies are taken from this one."""
    pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", folder / "wheels", ROOT, folder=folder)
    (wheel,) = (folder / "wheels").iterdir()
    run(sys.executable, "-m", "venv", "--without-pip", folder / "env", folder=folder)
    pip("--python", folder / "env/bin/python", "install", "--no-deps", "--no-index", wheel, folder=folder)
    (packages,) = (folder / "env/lib").glob("python*/site-packages")
    (packages / "borrowed.pth").write_text("\n".join(path for path in sys.path if path.endswith("-packages")))
    return folder / "env"


@pytest.mark.slow
def test_wheel_works_outside_of_the_checkout(tmp_path: Path) -> None:
    env, away = installed(tmp_path), tmp_path / "away"
    away.mkdir()
    package = Path(run(env / "bin/python", "-c", "import radii; print(*radii.__path__)", folder=away).strip())
    assert env in package.parents
    assert (package / "py.typed").is_file()
    for folder in ("recipes", "tables"):
        assert names(package / folder) == names(ROOT / folder)
    assert "crt-2" in run(env / "bin/radii", "table", folder=away)
    assert "digits" in run(env / "bin/radii", "demo", "--help", folder=away)
    assert "gaussian" in run(env / "bin/radii", "list", folder=away)
    run(env / "bin/radii", "train", "digits/gaussian-0.25", "--run", "r", "--set", "training.epochs=2", folder=away)
    run(
        env / "bin/radii", "certify", "r", "--every", "20", "--engine", "torch", "--set", "estimation=1000", folder=away
    )
    (certificates,) = (away / "r/certificates").glob("*.tsv")
    assert len(certificates.read_text().splitlines()) > 10


def names(shipped: Path) -> list[str]:
    """The recipes or tables of a folder, without the folder."""
    return sorted(str(path.relative_to(shipped)) for path in shipped.rglob("*.toml"))
