"""OpenVINO and NNCF open no connection and leave nothing in the home directory."""

import importlib.util
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tools.network import OWN_IMPORT, PREPARE, WAIT, run

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not importlib.util.find_spec("openvino"), reason="the extra radii[openvino] is not installed"),
]

SCRIPTS = {"alone": PREPARE + WAIT, "after an own import": OWN_IMPORT + PREPARE + WAIT}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("telemetry")


@pytest.fixture(scope="module")
def recorded(folder: Path) -> dict[str, tuple[list[str], list[Path]]]:
    """The network calls of each script and the files it left at home: they run at once, for they wait for seconds."""
    for name in SCRIPTS:
        (folder / name).mkdir()
    with ThreadPoolExecutor(len(SCRIPTS)) as pool:
        results = pool.map(lambda name: run(folder / name, SCRIPTS[name]), SCRIPTS)
        return dict(zip(SCRIPTS, results, strict=True))


def test_engines_open_no_connection_and_leave_the_home_directory_empty(
    recorded: dict[str, tuple[list[str], list[Path]]],
) -> None:
    assert recorded["alone"] == ([], [])


def test_no_telemetry_if_openvino_was_imported_before(
    recorded: dict[str, tuple[list[str], list[Path]]], folder: Path
) -> None:
    assert recorded["after an own import"][0] == []
    assert (folder / "after an own import" / "work" / "before").read_text()
