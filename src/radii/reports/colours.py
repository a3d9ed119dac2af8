"""Colours of the inputs of a report: none is used twice, on a light and on a dark page."""

import colorsys

LIGHT = (
    *("#0b69b7", "#c84e06", "#0c8362", "#b03f93", "#8a6200", "#5b5bd6", "#b3261e", "#0e7490", "#4d7c0f", "#6b7280"),
    *("#7c3aed", "#9f1239"),
)
"""After Okabe and Ito: the first seven are distinguishable with any colour vision."""
DARK = (
    *("#58a9ec", "#f08a4b", "#3fc49b", "#e07fc4", "#e3b341", "#a5a5f7", "#f28b82", "#4fc3dc", "#a3cf5f", "#a9b2bf"),
    *("#c4a1ff", "#fb8fa6"),
)
"""The same colours on a dark page, in the same order."""
GOLDEN = 0.618033988749895
"""Hues that differ by this share of the circle stay apart however many there are."""


def light(number: int) -> str:
    """The colour of input `number` on a light page."""
    return LIGHT[number] if number < len(LIGHT) else _drawn(number, 0.38, 0.62)


def dark(number: int) -> str:
    """The colour of input `number` on a dark page."""
    return DARK[number] if number < len(DARK) else _drawn(number, 0.72, 0.7)


def _drawn(number: int, lightness: float, saturation: float) -> str:
    shade = lightness + 0.06 * (number % 3 - 1)
    red, green, blue = colorsys.hls_to_rgb(number * GOLDEN % 1.0, shade, saturation)
    return "#" + "".join(f"{round(255 * part):02x}" for part in (red, green, blue))
