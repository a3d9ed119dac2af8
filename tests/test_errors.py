"""Errors advise commands that work for this installation."""

import json
import sys
from typing import Any

import pytest

from radii import errors


class Distribution:
    def __init__(self, source: object) -> None:
        self.source = source

    def read_text(self, name: str) -> str | None:
        assert name == "direct_url.json"
        return None if self.source is None else json.dumps(self.source)


@pytest.mark.parametrize(
    ("source", "command"),
    [
        (None, "pip install 'radii[onnx]'"),
        ({"url": "file:///a/my%20radii", "dir_info": {"editable": True}}, "pip install -e '/a/my radii[onnx]'"),
        ({"url": "file:///a/radii", "dir_info": {}}, "pip install '/a/radii[onnx]'"),
        (
            {"url": "https://x/radii.git", "vcs_info": {"vcs": "git", "commit_id": "1"}},
            "pip install 'radii[onnx] @ git+https://x/radii.git'",
        ),
        ({"url": "file:///a/radii.whl", "archive_info": {}}, "pip install 'radii[onnx] @ file:///a/radii.whl'"),
    ],
)
def test_extra_is_installed_from_where_radii_came(source: Any, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("radii.errors.metadata.distribution", lambda _: Distribution(source))
    monkeypatch.setattr("radii.errors._installer", lambda: ["pip", "install"])
    assert errors.install("onnx") == command


def test_extra_is_installed_into_this_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("radii.errors.metadata.distribution", lambda _: Distribution(None))
    monkeypatch.setattr("shutil.which", lambda _: f"{sys.prefix}/bin/pip")
    assert errors.install("onnx") == "pip install 'radii[onnx]'"
    monkeypatch.setattr("shutil.which", lambda _: "/usr/bin/pip")
    assert errors.install("onnx") == f"{sys.executable} -m pip install 'radii[onnx]'"
    monkeypatch.setattr("importlib.machinery.PathFinder.find_spec", lambda _: None)
    assert errors.install("onnx") == f"uv pip install --python {sys.executable} 'radii[onnx]'"
