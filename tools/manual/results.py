"""The figure of the scoreboard: certified accuracy against the hours of training."""

from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter

from benchmarks.archive import Archive
from benchmarks.scoreboard import points
from tools.manual.choices import ROOT
from tools.manual.drawing import PALETTE, figure, grid

PANELS = {"cifar10": ("CIFAR-10", 0.25, 0.25), "mnist": ("MNIST", 0.5, 1.0)}
"""Title, sigma and radius, by dataset."""
METHODS = ("gaussian", "consistency", "smoothmix", "transfer")
"""Methods with a colour of their own."""
OTHERS = "others"
HOURS = (0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20)


def hours() -> tuple[Figure, Any]:
    """Draw certified accuracy against hours of a core, a point for every run and a panel for a dataset."""
    archive, drawn = Archive(ROOT), figure(8.6, 3.6)
    data = {}
    for axes, (dataset, (title, sigma, radius)) in zip(drawn.subplots(1, 2), PANELS.items(), strict=True):
        data[dataset] = points(archive, dataset, sigma, radius)
        for method, colour in zip((*METHODS, OTHERS), PALETTE, strict=False):
            chosen = [point for point in data[dataset] if method == (point[0] if point[0] in METHODS else OTHERS)]
            axes.scatter(
                [x for _, x, _ in chosen], [y for _, _, y in chosen], s=30, color=colour, label=method, zorder=3
            )
        axes.set_title(f"{title}, sigma {sigma:.2f}, radius {radius:.2f}", loc="left")
        axes.set(xscale="log", xlabel="training, hours of a core")
        axes.xaxis.set_major_locator(FixedLocator(HOURS))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.xaxis.set_minor_formatter(NullFormatter())
        grid(axes)
    drawn.axes[0].set_ylabel("certified accuracy, %")
    drawn.axes[1].legend(frameon=False)
    return drawn, [[dataset, *map(list, found)] for dataset, found in data.items()]


FIGURES = {"hours": hours}
