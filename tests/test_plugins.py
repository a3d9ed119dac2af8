import pytest

from radii import plugins
from radii.objectives import Objective


def test_a_file_is_an_entry() -> None:
    assert "gaussian" in plugins.names("objectives")
    assert "base" not in plugins.names("objectives")
    assert not any(name.startswith("_") for folder in ("models", "datasets") for name in plugins.names(folder))


@pytest.mark.parametrize("folder", ["objectives", "certifiers", "datasets"])
def test_every_entry_has_a_sentence(folder: str) -> None:
    assert all(text.endswith(".") for text in plugins.describe(folder).values())


def test_every_model_has_a_sentence() -> None:
    assert all(text.endswith(".") for _, text in plugins.functions("models").values())


def test_an_unknown_name_says_which_was_meant() -> None:
    with pytest.raises(LookupError, match="there is no objective 'gausian'; did you mean 'gaussian'?"):
        plugins.find("objectives", "gausian", Objective)
