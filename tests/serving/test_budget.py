from math import fsum
from pathlib import Path

import pytest

from radii.serving.budget import AskedIndex, share_of


def test_shares_fall_like_one_over_the_square_and_never_exceed_one() -> None:
    shares = [share_of(asked) for asked in range(1, 1 << 16)]
    assert fsum(shares) == 1 - 2.0**-16
    assert all(0.25 <= share * asked**2 <= 2 for asked, share in enumerate(shares, start=1))
    assert shares[:4] == [0.5, 0.125, 0.125, 0.03125]


def test_number_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match="asked = 0"):
        share_of(0)


def test_questions_are_counted_by_picture_and_weights(tmp_path: Path) -> None:
    index = AskedIndex(tmp_path / "index.sqlite")
    assert [index.ask("a", "w"), index.ask("a", "w"), index.ask("b", "w"), index.ask("a", "v")] == [1, 2, 1, 1]
    index.keep(7, 2, "head")
    index.ask("a", "w")
    index.forget()
    index.close()
    again = AskedIndex(tmp_path / "index.sqlite")
    assert (again.times("a", "w"), again.times("c", "w"), again.counted()) == (2, 0, (7, 2, "head"))
    again.close()
