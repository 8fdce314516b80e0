"""How bright the sky is and how strong the noise, from the image itself."""

from __future__ import annotations

import numpy as np
from scipy.ndimage import convolve1d

from fastsbl.imaging._typing import BoolArray, FloatArray

__all__ = ["noise_variance_of", "sky_level"]

_MAD = 1.4826022185056018  # standard deviation of a normal variable with a median absolute deviation of 1
_KERNELS = (np.array([1.0, -4.0, 6.0, -4.0, 1.0]), np.array([1.0, -2.0, 1.0]), np.array([1.0, -1.0]))


def noise_variance_of(image: FloatArray, valid: BoolArray | None = None) -> float:
    """Variance of white noise, from differences of neighbouring pixels that smooth sources hardly enter.

    Differences are taken along both axes, of the highest order (four, two, one) that the image has room for. Their
    spread is measured by the median of their absolute values, so that sharp sources count little as long as they
    cover a small part of the image.

    Parameters
    ----------
    image : ndarray of shape (height, width)
        The image; pixels that are not valid may hold any finite number.
    valid : ndarray of bool, optional
        Pixels that count; differences that touch another pixel are left out.

    Returns
    -------
    float
        The variance; 0 for a constant image or when too few pixels are left.

    Examples
    --------
    >>> import numpy as np
    >>> image = np.random.default_rng(0).normal(5.0, 2.0, (100, 100))
    >>> round(noise_variance_of(image))
    4
    """
    good = np.ones(image.shape, dtype=np.bool_) if valid is None else valid
    for kernel in _KERNELS:
        half = kernel.size // 2
        if min(image.shape) <= kernel.size:
            continue
        difference = image
        bad = (~good).astype(np.float64)
        inside = [slice(half, size - (kernel.size - 1 - half)) for size in image.shape]
        if kernel.size == 2:
            inside = [slice(1, size) for size in image.shape]
        for axis in (0, 1):
            difference = convolve1d(difference, kernel, axis=axis, mode="nearest")
            if valid is not None:
                bad = convolve1d(bad, np.ones(kernel.size), axis=axis, mode="nearest")
        core = difference[inside[0], inside[1]]
        values = core if valid is None else core[bad[inside[0], inside[1]] < 0.5]
        if values.size >= 8:
            spread = _MAD * float(np.median(np.abs(values))) / float(np.sum(kernel**2))
            return spread**2
    return 0.0


def sky_level(image: FloatArray, valid: BoolArray) -> float:
    """First guess of a constant background: the median of the valid pixels below the upper tail of the sources.

    Parameters
    ----------
    image : ndarray of shape (height, width)
        The image.
    valid : ndarray of bool
        Pixels that count.

    Returns
    -------
    float
        The level; 0 when no pixel is valid.

    Examples
    --------
    >>> import numpy as np
    >>> sky_level(np.array([[1.0, 1.0, 9.0], [1.0, 1.1, 0.9]]), np.ones((2, 3), bool))
    1.0
    """
    values = image[valid]
    if values.size == 0:
        return 0.0
    for _ in range(10):  # sigma clipping about the median, on the bright side only
        middle = float(np.median(values))
        spread = _MAD * float(np.median(np.abs(values[values <= middle] - middle)))
        kept = values[values <= middle + 2.5 * spread] if spread > 0 else values
        if kept.size == values.size or kept.size < 8:
            break
        values = kept
    return float(np.median(values))
