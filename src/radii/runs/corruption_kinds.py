"""The kinds of corruption that the papers average over: the files of each, by the name that its column has."""

from collections.abc import Mapping, Sequence

KINDS: Mapping[str, Mapping[str, str]] = {
    "cifar10_c": {
        **{"Gaussian": "gaussian_noise", "Shot": "shot_noise", "Impulse": "impulse_noise", "Defocus": "defocus_blur"},
        **{"Glass": "glass_blur", "Motion": "motion_blur", "Zoom": "zoom_blur", "Snow": "snow", "Frost": "frost"},
        **{"Fog": "fog", "Bright": "brightness", "Contrast": "contrast", "Elastic": "elastic_transform"},
        **{"Pixel": "pixelate", "JPEG": "jpeg_compression"},
    },
    "mnist_c": {
        **{"Bright": "brightness", "Line": "dotted_line", "Glass": "glass_blur", "Impulse": "impulse_noise"},
        **{"Rotate": "rotate", "Shear": "shear", "Spatter": "spatter", "Translate": "translate"},
        **{"Edges": "canny_edges", "Fog": "fog", "Motion": "motion_blur", "Scale": "scale", "Shot": "shot_noise"},
        **{"Stripe": "stripe", "Zigzag": "zigzag"},
    },
}
"""By dataset. CIFAR-10-C has four kinds more, which are not in the means."""
MORE = ("gaussian_blur", "saturate", "spatter", "speckle_noise")


def corrupted_sets(dataset: str) -> Sequence[Mapping[str, str]]:
    """The corrupted test images of every kind, as datasets with their fields; of CIFAR-10-C with all severities."""
    return [{"name": dataset, "kind": kind} for kind in KINDS[dataset].values()]


def is_kind(name: str) -> bool:
    """Whether a log of this name is of a kind of corruption."""
    return name in MORE or any(name in kinds.values() for kinds in KINDS.values())
