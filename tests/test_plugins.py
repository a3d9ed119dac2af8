import pytest

from radii import plugins
from radii.fields import settings_of
from radii.objectives import Objective


def test_files_are_entries() -> None:
    assert "gaussian" in plugins.names("objectives")
    assert "base" not in plugins.names("objectives")
    assert not any(name.startswith("_") for folder in ("models", "datasets") for name in plugins.names(folder))


@pytest.mark.parametrize("folder", ["objectives", "certifiers", "datasets"])
def test_every_entry_has_a_sentence(folder: str) -> None:
    assert all(text.endswith(".") for text in plugins.describe(folder).values())


def test_every_model_has_a_sentence() -> None:
    assert all(text.endswith(".") for _, text in plugins.functions("models").values())


def test_unknown_name_suggests_the_nearest() -> None:
    with pytest.raises(LookupError, match="there is no objective 'gausian'; did you mean 'gaussian'?"):
        plugins.find("objectives", "gausian", Objective)


@pytest.mark.parametrize("name", [".:x", "..:x", ".here:x"])
def test_relative_module_name_is_refused(name: str) -> None:
    with pytest.raises(LookupError, match="expected module:name, with the module's full name"):
        plugins.import_object(name, "model")


@pytest.mark.parametrize("name", ["nets.py:x", "./nets:x", "./nets.py:x"])
def test_file_of_a_module_is_refused_with_its_name(name: str) -> None:
    with pytest.raises(LookupError, match=r"without .py; did you mean nets:x\?"):
        plugins.import_object(name, "model")


@pytest.mark.parametrize("name", plugins.names("objectives"))
def test_defaults_in_the_source_are_those_of_the_class(name: str) -> None:
    stated = {setting.name: setting.default for setting in settings_of(plugins.find("objectives", name, Objective))}
    defaults = plugins.defaults("objectives", name)
    assert defaults == {key: stated[key] for key in defaults}
    assert defaults or name in ("gaussian", "standard")
