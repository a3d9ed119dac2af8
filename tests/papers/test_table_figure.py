"""The trade-off over a hyper-parameter."""

from radii.papers import table
from radii.papers.table_figure import figures, reported
from radii.reports import curves

CATRS_7 = table.read(table.find("catrs-7"))


def test_reported_trade_off_of_cat_rs_is_drawn() -> None:
    """Figures 4 and 5: ACR and certified accuracy at 1.0 and 2.0 over the clean accuracy, a line for each method."""
    drawn = figures(CATRS_7, {})
    assert list(drawn) == ["trade-off-ACR", "trade-off-1.00", "trade-off-2.00"]
    svg = curves.image(drawn["trade-off-2.00"], "svg").decode()
    for name in ("Gaussian", "Consistency", "SmoothMix", "CAT-RS", "Clean accuracy, %"):
        assert name in svg


def test_points_are_the_reported_numbers() -> None:
    points = reported(CATRS_7, "acr")
    assert {name: len(some) for name, some in points.items()} == {
        "Gaussian": 1,
        "Consistency": 6,
        "SmoothMix": 5,
        "CAT-RS": 7,
    }
    assert points["CAT-RS"][4] == (93.2, 1.831)


def test_table_without_a_sweep_has_no_figure() -> None:
    assert not figures(table.read(table.find("crt-2")), {})
