"""The figures of "How to choose", and of the first hour: from results/, performance.md and the papers' tables."""

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from benchmarks.archive import Archive
from tools.manual.choices import RADII, ROOT, SIGMAS, costs, methods, published
from tools.manual.drawing import GRID, INK, MUTED, PALETTE, figure, grid

DEMO = {"SmoothMix teacher": "smoothmix", "student, by transfer": "smoothmix-to-digits_mlp", "Gaussian": "gaussian"}
BOX = (2.55, 0.78)
ANSWERS = (
    ("prediction", "only the class", "{prediction} copies"),
    ("sequential", "is it certified\nat this radius?", "{one} copies"),
    ("sequential, several radii", "a curve at\nseveral radii", "{grid} copies"),
    ("planned", "the radius, nearly\n(ACR within 1 %)", "{planned} copies"),
    ("fixed", "the radius, exactly\nas in the papers", "{fixed} copies"),
)
"""Certifier, what it is for, what it costs per image."""


def demo() -> tuple[Figure, Any]:
    """Draw the certified accuracy of the demonstration's models, from runs of the same recipes in results/."""
    archive, drawn = Archive(ROOT), figure(7.4, 3.6)
    axes, radii = drawn.subplots(), [number / 100 for number in range(93)]
    data = {}
    for (name, run), colour in zip(DEMO.items(), PALETTE, strict=False):
        summary = archive.summary(f"digits/thirty-epochs/{run}")
        shares = [100 * summary.at(radius).value for radius in radii]
        axes.plot(radii, shares, color=colour, linewidth=2, label=name, drawstyle="steps-pre")
        data[name] = [round(share, 6) for share in shares]
    axes.set(xlim=(0, 0.92), ylim=(0, 100), xlabel="radius (l2, pixels in [0, 1])", ylabel="certified accuracy, %")
    axes.legend(frameon=False, loc="lower left")
    grid(axes)
    return drawn, data


def sigma() -> tuple[Figure, Any]:
    """Draw certified accuracy against the radius for three sigmas, on two datasets."""
    drawn = figure(8.6, 3.4)
    data = {}
    for axes, dataset in zip(drawn.subplots(1, 2, sharey=True), ("CIFAR-10", "MNIST"), strict=True):
        for each, colour in zip(SIGMAS, PALETTE, strict=False):
            shares = published()[dataset, "Gaussian"][each]
            data[f"{dataset} {each}"] = shares
            _sigma_line(axes, each, shares, colour)
        axes.set_title(dataset, loc="left")
        axes.set(xlim=(0, 2.3), ylim=(0, 100), xlabel="radius (l2, pixels in [0, 1])")
        grid(axes)
    drawn.axes[0].set_ylabel("certified accuracy, %")
    drawn.axes[0].legend(frameon=False, title="trained and certified at")
    return drawn, data


def _sigma_line(axes: Axes, sigma: str, shares: dict[str, float], colour: str) -> None:
    kept = [(float(radius[1:]), shares[radius]) for radius in RADII if shares[radius]]
    axes.plot(*zip(*kept, strict=True), marker="o", markersize=3.5, color=colour, linewidth=1.8, label=f"sigma {sigma}")


def accuracy_and_time() -> tuple[Figure, Any]:
    """Draw the ACR of every method against the seconds of an epoch."""
    drawn = figure(7.4, 3.8)
    axes = drawn.subplots()
    for method in methods():
        own = method.name.startswith("transfer")
        axes.scatter(method.seconds, method.acr, s=52, color=PALETTE[1] if own else PALETTE[0], zorder=3)
        shift = {"CAT-RS": (-8, -3), "SmoothMix": (0, 9), "SmoothAdv": (0, 9), "MACER": (-8, -3)}.get(
            method.name, (8, -3)
        )
        side = "left" if shift[0] > 0 else "center" if not shift[0] else "right"
        axes.annotate(
            method.name, (method.seconds, method.acr), shift, textcoords="offset points", fontsize=9.5, ha=side
        )
    axes.set(
        xscale="log",
        xlim=(5.5, 340),
        ylim=(1.335, 1.452),
        xlabel="seconds per epoch",
        ylabel="average certified radius",
    )
    axes.set_xticks([10, 30, 100, 300], ["10", "30", "100", "300"])
    axes.minorticks_off()
    grid(axes)
    return drawn, [[each.name, round(each.acr, 6), each.seconds] for each in methods()]


def decision() -> tuple[Figure, Any]:
    """Draw which certifier answers which question, and its cost per image."""
    measured = costs()
    drawn = figure(9.4, 3.1)
    axes = drawn.subplots()
    axes.set(xlim=(0, 14.2), ylim=(0, 4.6))
    axes.axis("off")
    axes.text(7.1, 4.25, "What do you want to know about an image?", ha="center", fontsize=12, weight="bold")
    for number, (name, question, cost) in enumerate(ANSWERS):
        _answer(axes, 0.1 + 2.83 * number, name, question, cost.format_map(measured))
    return drawn, [measured, ANSWERS]


def _answer(axes: Axes, left: float, name: str, question: str, cost: str) -> None:
    middle = left + BOX[0] / 2
    axes.plot([7.1, middle], [4.05, 3.5], color=GRID, linewidth=1.6)
    axes.text(middle, 3.0, question, ha="center", va="center", fontsize=10)
    axes.annotate("", (middle, 1.82), (middle, 2.5), arrowprops={"arrowstyle": "->", "color": MUTED})
    axes.add_patch(
        FancyBboxPatch((left, 0.95), *BOX, boxstyle="round,pad=0.02", facecolor="#e8f1fa", edgecolor=PALETTE[0])
    )
    first, _, rest = name.partition(", ")
    axes.text(
        middle,
        1.34,
        first + (f",\n{rest}" if rest else ""),
        ha="center",
        va="center",
        fontsize=10,
        color=INK,
        weight="bold",
    )
    axes.text(middle, 0.45, cost, ha="center", va="center", fontsize=9.5, color=MUTED)


FIGURES = {"demo": demo, "sigma": sigma, "methods": accuracy_and_time, "decision": decision}
