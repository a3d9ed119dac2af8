"""`radii list`: the registries' entries with their fields, and the recipes."""

import json
from pathlib import Path

import pytest

from radii.cli.list import FOLDERS, RECIPES, fields_of, registry
from radii.runs import recipe as recipes
from tests.cli.running import radii


@pytest.mark.parametrize("kind", FOLDERS)
def test_every_entry_shows_its_fields_with_defaults(kind: str, tmp_path: Path) -> None:
    listed = radii("list", kind, cwd=tmp_path)
    assert listed.code == 0, listed.error
    found = json.loads(radii("list", kind, "--json", cwd=tmp_path).out)[kind]
    assert set(found) == set(registry(kind))
    for name, entry in found.items():
        assert f"{name:<18} {entry['text']}" in listed.out
        for field, default in entry["fields"].items():
            assert f"    {field} = {default}\n" in listed.out


def test_defaults_are_what_a_recipe_states() -> None:
    assert fields_of("models", "cifar_resnet20") == {"width": "16"}
    assert fields_of("models", "denoised") == {"classifier": "stated by you", "denoiser": '"dncnn"'}
    assert fields_of("certifiers", "sequential")["radii"] == "[0.0]"
    assert fields_of("datasets", "folder")["enlarge"] == "false"


def test_recipes_are_listed_by_the_beginning_of_their_name(tmp_path: Path) -> None:
    lines = radii("list", "recipes", "mnist", cwd=tmp_path).out.splitlines()
    assert [line.split()[0] for line in lines] == [name for name in recipes.shipped() if name.startswith("mnist")]
    assert all(line.split(maxsplit=1)[1] for line in lines)
    assert set(json.loads(radii("list", "--json", cwd=tmp_path).out)) == {*FOLDERS, RECIPES}
