"""Every reader on damaged files; RADII_FUZZ says how many damages each gets."""

import os
from pathlib import Path

import pytest

from tools.fuzz import complaints, fuzz
from tools.readers import READERS

COUNT = int(os.environ.get("RADII_FUZZ", "200"))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", READERS)
def test_a_damaged_file_is_read_or_told_of_in_a_sentence(name: str, tmp_path: Path) -> None:
    found = fuzz(READERS[name], tmp_path, COUNT)
    assert complaints(found) == []
    assert found["refused"] > 0
