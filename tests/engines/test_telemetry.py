"""OpenVINO and NNCF open no connection and leave nothing in the home directory."""

import importlib.util
from pathlib import Path

import pytest

from tools.network import OWN_IMPORT, PREPARE, WAIT, run

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not importlib.util.find_spec("openvino"), reason="the extra radii[openvino] is not installed"),
]


def test_engines_open_no_connection_and_leave_the_home_directory_empty(tmp_path: Path) -> None:
    assert run(tmp_path, PREPARE + WAIT) == ([], [])


def test_no_telemetry_if_openvino_was_imported_before(tmp_path: Path) -> None:
    assert run(tmp_path, OWN_IMPORT + PREPARE + WAIT)[0] == []
    assert (tmp_path / "work" / "before").read_text()
