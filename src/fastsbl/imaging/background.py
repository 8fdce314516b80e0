"""How bright the sky is and how strong the noise, from the image itself."""

from __future__ import annotations

import warnings

import numpy as np
from scipy.interpolate import BSpline
from scipy.ndimage import convolve1d

from fastsbl._base.types import BoolArray, FloatArray
from fastsbl.imaging._checks import optional_import

__all__ = ["noise_variance_of", "sky_level", "smooth_background"]

_MAD = 1.4826022185056018  # standard deviation of a normal variable with a median absolute deviation of 1
_BOX = 16  # pixels of the boxes whose levels make up a smooth background
_KNOTS = 64  # pixels between the knots of its spline
_STIFF = 0.1  # weight of its bending beside one box
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


def smooth_background(image: FloatArray, valid: BoolArray) -> FloatArray:
    """Estimate a background that changes over many pixels, under the sources.

    Photutils' `SExtractorBackground` gives the level of each box of 16 x 16 pixels; a cubic spline with knots every 64
    pixels goes through the levels, without the boxes that sources have lifted.

    Parameters
    ----------
    image : ndarray of shape (height, width)
        The image.
    valid : ndarray of bool
        Pixels that count.

    Returns
    -------
    ndarray of shape (height, width)
        The background.

    Examples
    --------
    >>> ramp = np.linspace(0.0, 30.0, 128) * np.ones((128, 1))
    >>> image = ramp + np.random.default_rng(0).normal(size=ramp.shape)
    >>> error = smooth_background(image, np.ones(ramp.shape, bool)) - ramp
    >>> round(float(error.std()), 1)
    0.1
    """
    module = optional_import("photutils.background", 'background="map"')
    box = [max(1, min(_BOX, size // 4)) for size in image.shape]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of boxes without any pixel that counts
        levels = module.Background2D(
            image,
            box,
            mask=~valid,
            filter_size=1,
            exclude_percentile=80.0,
            bkg_estimator=module.SExtractorBackground(),
        ).background_mesh
    centres = [(np.arange(count) + 0.5) * side - 0.5 for count, side in zip(levels.shape, box, strict=True)]
    down, across = (_splines(place, size) for place, size in zip(centres, image.shape, strict=True))
    tall, wide = down.shape[1], across.shape[1]
    stiff = _STIFF * np.vstack(
        [
            np.kron(np.diff(np.eye(tall), 2, axis=0), np.eye(wide)),
            np.kron(np.eye(tall), np.diff(np.eye(wide), 2, axis=0)),
        ]
    )
    seen = valid.astype(np.float64)
    for axis, (size, side) in enumerate(zip(image.shape, box, strict=True)):
        seen = np.add.reduceat(seen, np.arange(0, size, side), axis=axis)
    levels = np.where(seen >= 0.2 * box[0] * box[1], levels, np.nan)  # photutils fills those without pixels
    rows, values = np.kron(down, across), np.asarray(levels, dtype=np.float64).ravel()
    kept = np.isfinite(values)
    for _ in range(10):
        target = np.concatenate([values[kept], np.zeros(stiff.shape[0])])
        heights = np.linalg.lstsq(np.vstack([rows[kept], stiff]), target, rcond=None)[0]
        rest = values - rows @ heights
        spread = _MAD * float(np.median(np.abs(rest[kept])))
        again = np.isfinite(rest) & (rest <= 2.5 * spread) & (rest >= -4.0 * spread)
        if spread == 0.0 or not again.any() or np.array_equal(again, kept):
            break
        kept = again
    down, across = (_splines(np.arange(size, dtype=np.float64), size) for size in image.shape)
    return np.asarray(down @ heights.reshape(tall, wide) @ across.T)


def _splines(place: FloatArray, size: int) -> FloatArray:
    """Values of the cubic B-splines over a side of so many pixels, one row per place."""
    edges = np.linspace(-0.5, size - 0.5, max(1, round(size / _KNOTS)) + 1)
    knots = np.concatenate([np.repeat(edges[0], 3), edges, np.repeat(edges[-1], 3)])
    return np.asarray(BSpline.design_matrix(np.minimum(place, edges[-1] - 1e-9), knots, 3).toarray())
