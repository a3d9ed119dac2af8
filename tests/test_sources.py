"""What a module needs of a folder, without importing it."""

from pathlib import Path

import pytest

from radii.sources import names_in, source_files


def test_names_are_those_that_a_module_of_the_folder_imports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "nets.py").write_text("import json\nfrom helpers import one\n")
    (tmp_path / "helpers.py").write_text("def one():\n    import later\n")
    for name in ("later", "openvino", "unused"):
        (tmp_path / f"{name}.py").touch()
    assert names_in(tmp_path, "nets") == {"nets", "helpers", "later"}
    assert names_in(tmp_path, "json") == set()
    assert source_files("nets")["later"] == tmp_path / "later.py"


def test_a_package_without_source_names_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "outer" / "inner").mkdir(parents=True)
    (tmp_path / "outer" / "__init__.py").touch()
    assert names_in(tmp_path, "outer.inner.leaf") == {"outer"}
