"""Where one more source would help most, and how large a gain chance alone would give."""

from __future__ import annotations

import math

import numpy as np
from scipy.ndimage import correlate1d, maximum_filter
from scipy.optimize import brentq
from scipy.signal import oaconvolve

from fastsbl._base.types import FloatArray
from fastsbl.imaging._gaussian import pixel_factor
from fastsbl.imaging.refine import SourceShape

__all__ = ["ScoreMap", "gain_threshold"]

_RATIO = 1.3  # between neighbouring widths of the search


class ScoreMap:
    """Gain in chi-square of one more source, at every pixel and for every width.

    Parameters
    ----------
    shape : SourceShape
        Shape of the sources.
    weight : ndarray of shape (height, width)
        Inverse variances up to one common factor.
    with_level : bool
        Whether a constant is fitted too: what a source shares with it is no gain.
    """

    def __init__(self, shape: SourceShape, weight: FloatArray, *, with_level: bool) -> None:
        low, high = shape.sigma_range
        count = 1 + math.ceil(math.log(high / low) / math.log(_RATIO)) if shape.free and high > low else 1
        self.sigmas: FloatArray = np.geomspace(low, high, count)
        self.shape = shape
        self._factors = [self._factor(sigma) for sigma in self.sigmas]
        self.power = np.empty((count, *weight.shape))
        total = float(weight.sum())
        for k in range(count):
            self.power[k] = self._correlate(weight, k, squared=True)
            if with_level and total > 0:
                self.power[k] -= self._correlate(weight, k) ** 2 / total
        least = 0.05 * self.power.reshape(count, -1).max(axis=1)  # masked or cut off by the edge: no evidence there
        self.usable = self.power > np.maximum(least, 1e-300)[:, None, None]
        self.inverse = np.divide(1.0, self.power, out=np.zeros_like(self.power), where=self.usable)
        self.weight = weight

    def _factor(self, sigma: float) -> tuple[FloatArray, ...]:
        if self.shape.numbers[0] != 0.0:
            return (self.shape.stamp(sigma),)
        pair = (sigma, sigma) if self.shape.free else (self.shape.numbers[2], self.shape.numbers[3])
        out = []
        for width in pair:
            half = int(4.0 * width) + 1
            out.append(pixel_factor(np.array([float(half)]), np.array([width]), 2 * half + 1)[0])
        return tuple(out)

    def _correlate(self, image: FloatArray, k: int, *, squared: bool = False) -> FloatArray:
        factor = self._factors[k]
        if len(factor) == 1:
            stamp = factor[0] ** 2 if squared else factor[0]
            return np.asarray(oaconvolve(image, stamp[::-1, ::-1], mode="same"))
        across, down = (f**2 if squared else f for f in factor)
        rows = correlate1d(image, across, axis=1, mode="constant")
        return np.asarray(correlate1d(rows, down, axis=0, mode="constant"))

    def gains(self, residual: FloatArray, scale: float) -> FloatArray:
        """Gains of shape (widths, height, width) for a residual, with the weights times `scale`; 0 where negative."""
        weighted = self.weight * residual
        out = np.empty_like(self.power)
        for k in range(self.sigmas.size):
            score = np.maximum(self._correlate(weighted, k), 0.0)
            out[k] = score * score * self.inverse[k]
        out *= scale
        return out

    def candidates(self, gains: FloatArray, floor: float) -> FloatArray:
        """Local maxima above `floor`, strongest first: rows (x, y, sigma, gain)."""
        best = gains.max(axis=0)
        peaks = (best > floor) & (best >= maximum_filter(best, size=3, mode="constant"))
        rows, columns = np.nonzero(peaks)
        width = gains[:, rows, columns].argmax(axis=0)
        gain = best[rows, columns]
        order = np.argsort(-gain, kind="stable")
        return np.column_stack([columns, rows, self.sigmas[width], gain]).astype(np.float64)[order]


def gain_threshold(shape: SourceShape, area: float, false_alarms: float) -> float:
    """Gain in chi-square that noise alone exceeds `false_alarms` times per image, on average.

    The largest gain over all places (and widths) is the square of the maximum of a smooth Gaussian field; above a
    high level its expected number of peaks is the expected Euler characteristic of the region above it, which
    depends on the field only through the volume of the search in its own metric: an area over twice the squared
    width of the source and, for a free width, its logarithm.

    Parameters
    ----------
    shape : SourceShape
        Shape of the sources.
    area : float
        Number of pixels searched.
    false_alarms : float
        Expected number.

    Returns
    -------
    float
        The threshold.

    Examples
    --------
    >>> from fastsbl.imaging import GaussianPSF
    >>> shape = SourceShape.of(GaussianPSF(1.5), (1.0, 2.0))
    >>> round(gain_threshold(shape, 512**2, 0.05), 1)
    25.6
    """
    low, high = (math.sqrt(sigma**2 + 1.0 / 12.0) for sigma in shape.sigma_range)
    if shape.free and high > low:
        volume = area / 4.0 * (low**-2 - high**-2)
        edge = area / (2.0 * low**2) / 2.0  # half the face at the smallest width
    else:
        volume, edge = 0.0, area / (2.0 * low * low)

    def excess(u: float) -> float:
        field = volume * (u * u - 1.0) / (2.0 * math.pi) ** 2 + edge * u / (2.0 * math.pi) ** 1.5
        return math.log(field) - 0.5 * u * u - math.log(false_alarms)

    return float(brentq(excess, 1.5, 50.0)) ** 2 if excess(1.5) > 0 else 1.5**2
