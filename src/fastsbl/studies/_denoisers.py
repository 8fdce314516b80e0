"""Denoising methods that others offer, on one image each: wavelets of scikit-image, and BM3D."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.util import find_spec
from itertools import product

import numpy as np

from fastsbl._base.types import FloatArray

__all__ = ["WAVELETS", "bm3d_image", "missing_package", "wavelet_images"]

WAVELETS = ("db1", "db2", "db4", "sym4", "coif1")
_SHIFTS = 8
_LINES = {"wavelet": ("skimage", "scikit-image"), "bm3d": ("bm3d", "bm3d")}


def missing_package(method: str) -> str | None:
    """What to install for a method, if it is missing."""
    if method not in _LINES:
        return None
    module, package = _LINES[method]
    return None if find_spec(module) is not None else f"{package} is not installed (pip install {package})"


def wavelet_images(image: FloatArray, noise_variance: float) -> Iterator[tuple[str, FloatArray]]:
    """Denoise with wavelets: the default of scikit-image, and the mean over all shifts for each of five wavelets.

    The default estimates the noise level; the others are given the true one.
    """
    from skimage.restoration import denoise_wavelet

    yield "wavelet", np.asarray(denoise_wavelet(image))
    sigma = float(np.sqrt(noise_variance))
    for name in WAVELETS:

        def denoise(shifted: FloatArray, name: str = name) -> FloatArray:
            return np.asarray(denoise_wavelet(shifted, wavelet=name, sigma=sigma))

        yield f"cycle-spun {name}", cycle_spun(image, denoise)


def cycle_spun(image: FloatArray, denoise: Callable[[FloatArray], FloatArray]) -> FloatArray:
    """Mean over shifts of the image of what a method makes of it, shifted back."""
    total = np.zeros(image.shape)
    for shift in product(range(_SHIFTS), repeat=2):
        back = (-shift[0], -shift[1])
        total += np.roll(denoise(np.roll(image, shift, (0, 1))), back, (0, 1))
    return total / _SHIFTS**2


def bm3d_image(image: FloatArray, noise_variance: float) -> FloatArray:
    """Denoise with BM3D, given the true noise level."""
    import bm3d

    return np.asarray(bm3d.bm3d(image, float(np.sqrt(noise_variance))), dtype=np.float64)
