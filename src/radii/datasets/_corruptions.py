"""Corrupt images in fifteen ways at five severities, after Hendrycks & Dietterich (2019).

The kinds have the published names but give other pixels: strengths are radii's own, lengths are scaled from 32 pixels
to the image's side, and frost is computed instead of photographed. An image is float64 [height, width, channel] in
[0, 1].
"""

import io
from collections.abc import Callable

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from PIL import Image
from scipy import ndimage

Pixels = NDArray[np.float64]
Corruption = Callable[[Pixels, int, Generator], Pixels]


def corrupt(image: Pixels, kind: str, severity: int, rng: Generator) -> NDArray[np.uint8]:
    """Corrupt an image at a severity from 1 to 5, and return bytes."""
    return _to_bytes(CORRUPTIONS[kind](image, severity - 1, rng))


def gaussian_noise(image: Pixels, level: int, rng: Generator) -> Pixels:
    return image + (0.04, 0.06, 0.08, 0.10, 0.12)[level] * rng.standard_normal(image.shape)


def shot_noise(image: Pixels, level: int, rng: Generator) -> Pixels:
    photons = (500, 250, 100, 75, 50)[level]
    return rng.poisson(photons * image) / photons


def impulse_noise(image: Pixels, level: int, rng: Generator) -> Pixels:
    share = (0.01, 0.02, 0.03, 0.05, 0.07)[level]
    drawn = rng.random(image.shape)
    return np.where(drawn < share / 2, 0.0, np.where(drawn < share, 1.0, image))


def defocus_blur(image: Pixels, level: int, _: Generator) -> Pixels:
    kernel = _disk((1.0, 1.4, 1.8, 2.3, 2.9)[level] * _scale(image))
    return np.asarray(ndimage.convolve(image, kernel[:, :, None], mode="mirror"))


def glass_blur(image: Pixels, level: int, rng: Generator) -> Pixels:
    """Move pixels to places nearby, between two blurs."""
    reach, sigma = (0.7, 1.0, 1.3, 1.7, 2.2)[level] * _scale(image), 0.4 * _scale(image)
    rows, columns = _grid(image) + reach * rng.uniform(-1, 1, (2, *image.shape[:2]))
    moved = _sampled(_blurred(image, sigma), rows, columns)
    return _blurred(moved, sigma)


def motion_blur(image: Pixels, level: int, rng: Generator) -> Pixels:
    return _streaked(image, (3.0, 4.0, 5.0, 6.5, 8.0)[level] * _scale(image), rng.uniform(0, np.pi))


def zoom_blur(image: Pixels, level: int, _: Generator) -> Pixels:
    most = (0.08, 0.14, 0.20, 0.26, 0.34)[level]
    return np.asarray(np.mean([_zoomed(image, 1 + most * step / 8) for step in range(9)], axis=0))


def snow(image: Pixels, level: int, rng: Generator) -> Pixels:
    """Add streaks of bright flakes to a paler image."""
    share, pale = ((0.02, 0.10), (0.04, 0.15), (0.06, 0.20), (0.09, 0.25), (0.12, 0.30))[level]
    flakes = (rng.random((*image.shape[:2], 1)) < share).astype(float)
    fallen = _streaked(flakes, 2.5 * _scale(image), rng.uniform(0.3, 0.7) * np.pi)
    return (1 - pale) * image + pale * np.maximum(image, 0.8) + 1.6 * fallen


def frost(image: Pixels, level: int, rng: Generator) -> Pixels:
    """Add the ridges of a fractal, like ice, to a darker image."""
    kept, ice = ((0.90, 0.25), (0.80, 0.35), (0.72, 0.45), (0.65, 0.52), (0.58, 0.60))[level]
    ridges = 1 - 2 * np.abs(_fractal(image, rng, 0.75) - 0.5)
    return kept * image + ice * ridges**3


def fog(image: Pixels, level: int, rng: Generator) -> Pixels:
    """Add a fractal haze, which lowers the contrast."""
    amount = (0.25, 0.40, 0.60, 0.80, 1.10)[level]
    return (image + amount * _fractal(image, rng, 0.5)) / (1 + amount)


def brightness(image: Pixels, level: int, _: Generator) -> Pixels:
    return image + (0.08, 0.14, 0.20, 0.27, 0.35)[level]


def contrast(image: Pixels, level: int, _: Generator) -> Pixels:
    mean = image.mean((0, 1))
    return np.asarray(mean + (0.75, 0.55, 0.40, 0.28, 0.16)[level] * (image - mean))


def elastic_transform(image: Pixels, level: int, rng: Generator) -> Pixels:
    reach, smooth = (0.8, 1.2, 1.6, 2.1, 2.7)[level] * _scale(image), 2.5 * _scale(image)
    field = np.stack([ndimage.gaussian_filter(axis, smooth) for axis in rng.uniform(-1, 1, (2, *image.shape[:2]))])
    rows, columns = _grid(image) + reach * field / max(float(np.abs(field).max()), 1e-12)
    return _sampled(image, rows, columns)


def pixelate(image: Pixels, level: int, _: Generator) -> Pixels:
    share = (0.9, 0.65, 0.5, 0.4, 0.3)[level]
    width, height = (max(2, round(share * side)) for side in image.shape[1::-1])
    small = _to_pil(image).resize((width, height), Image.Resampling.BOX)
    return _from_pil(small.resize(image.shape[1::-1], Image.Resampling.NEAREST), image)


def jpeg_compression(image: Pixels, level: int, _: Generator) -> Pixels:
    stored = io.BytesIO()
    _to_pil(image).save(stored, "JPEG", quality=(60, 40, 25, 16, 10)[level])
    return _from_pil(Image.open(stored), image)


CORRUPTIONS: dict[str, Corruption] = {
    function.__name__: function
    for function in (
        *(gaussian_noise, shot_noise, impulse_noise),
        *(defocus_blur, glass_blur, motion_blur, zoom_blur),
        *(snow, frost, fog, brightness),
        *(contrast, elastic_transform, pixelate, jpeg_compression),
    )
}
"""The kinds in the order of the published set: noise, blur, weather, digital."""


def _scale(image: Pixels) -> float:
    return float(max(image.shape[:2])) / 32


def _grid(image: Pixels) -> Pixels:
    return np.stack(np.meshgrid(*(np.arange(side, dtype=float) for side in image.shape[:2]), indexing="ij"))


def _sampled(image: Pixels, rows: Pixels, columns: Pixels) -> Pixels:
    """Sample the image at these rows and columns: interpolated between pixels, mirrored beyond its edge."""
    planes = [
        ndimage.map_coordinates(plane, (rows, columns), order=1, mode="mirror") for plane in np.moveaxis(image, 2, 0)
    ]
    return np.stack(planes, axis=2)


def _blurred(image: Pixels, sigma: float) -> Pixels:
    return np.asarray(ndimage.gaussian_filter(image, (sigma, sigma, 0), mode="mirror"))


def _disk(radius: float) -> Pixels:
    """Return the share of every pixel that a disk covers, computed on a finer grid; the shares sum to one."""
    reach, fine = int(np.ceil(radius)), 9
    places = (np.arange((2 * reach + 1) * fine) + 0.5) / fine - reach - 0.5
    inside = (places[:, None] ** 2 + places**2 <= radius**2).astype(float)
    shares = inside.reshape(2 * reach + 1, fine, 2 * reach + 1, fine).mean((1, 3))
    return np.asarray(shares / shares.sum())


def _streaked(image: Pixels, length: float, angle: float) -> Pixels:
    """Average the image along a line."""
    steps = np.linspace(-length / 2, length / 2, 9)
    rows, columns = _grid(image)
    moved = [_sampled(image, rows + step * np.sin(angle), columns + step * np.cos(angle)) for step in steps]
    return np.asarray(np.mean(moved, axis=0))


def _zoomed(image: Pixels, factor: float) -> Pixels:
    middle = (np.array(image.shape[:2], float)[:, None, None] - 1) / 2
    rows, columns = middle + (_grid(image) - middle) / factor
    return _sampled(image, rows, columns)


def _fractal(image: Pixels, rng: Generator, rough: float) -> Pixels:
    """Return noise of several wavelengths from 0 to 1; each has `rough` times the weight of the next longer one."""
    total, weight = np.zeros(image.shape[:2]), 1.0
    for cells in (2, 4, 8, 16):
        coarse = rng.random((cells + 1, cells + 1))
        places = [grid * cells / max(side - 1, 1) for grid, side in zip(_grid(image), image.shape[:2], strict=True)]
        total += weight * ndimage.map_coordinates(coarse, places, order=1)
        weight *= rough
    spread = max(float(np.ptp(total)), 1e-12)
    return np.asarray((total - total.min()) / spread)[:, :, None]


def _to_bytes(image: Pixels) -> NDArray[np.uint8]:
    return np.asarray(np.rint(255 * image.clip(0, 1)), np.uint8)


def _to_pil(image: Pixels) -> Image.Image:
    levels = _to_bytes(image)
    return Image.fromarray(levels.squeeze(2) if levels.shape[2] == 1 else levels)


def _from_pil(picture: Image.Image, like: Pixels) -> Pixels:
    return np.asarray(picture, float).reshape(like.shape) / 255
