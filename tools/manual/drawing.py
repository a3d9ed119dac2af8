"""The style of the manual's figures; the same data give the same file."""

import hashlib
import json
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

FOLDER = Path(__file__).parents[2] / "docs" / "figures"
INK, MUTED, GRID, PAPER = "#1c2430", "#5d6878", "#dfe3e8", "#ffffff"
PALETTE = ("#0b69b7", "#d4560b", "#0f8f6b", "#b8479b", "#c38a00", "#4d9fd6", "#6b7280")
STYLE: dict[Any, Any] = {
    "font.size": 10,
    "text.color": INK,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.titlesize": 10.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "svg.fonttype": "none",
    "svg.hashsalt": "radii",
    "font.family": ["sans-serif"],
    "font.sans-serif": ["DejaVu Sans", "Helvetica", "Arial", "sans-serif"],
}


def figure(width: float, height: float) -> Figure:
    """Return an empty figure, in inches, on white."""
    matplotlib.rcParams.update(STYLE)
    return Figure(figsize=(width, height), facecolor=PAPER, layout="constrained")


def grid(axes: Axes) -> None:
    axes.grid(color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)


def picture(axes: Axes, pixels: Any, title: str = "", below: str = "", colour: str = INK) -> None:
    """A grey picture with words above and below it."""
    axes.imshow(pixels, cmap="gray_r", vmin=0, vmax=1, interpolation="nearest")
    axes.set(xticks=[], yticks=[])
    axes.set_title(title, fontsize=9.5, color=MUTED)
    axes.set_xlabel(below, fontsize=9.5, color=colour)
    for spine in axes.spines.values():
        spine.set(visible=True, color=GRID)


def save(name: str, drawn: Figure, data: Any) -> Path:
    """Write a figure with the digest of its data, by which a test finds a figure that is out of date."""
    FOLDER.mkdir(exist_ok=True)
    path = FOLDER / f"{name}.svg"
    with matplotlib.rc_context(STYLE):
        drawn.savefig(path, format="svg", metadata={"Date": None, "Description": f"data {digest(data)}"})
    return path


def digest(data: Any) -> str:
    """16 hex digits of the SHA-256 of plain data."""
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()[:16]
