"""Is what a model leaves over white noise? And how far to follow the model if not."""

from __future__ import annotations

import numpy as np

from fastsbl._base.types import BoolArray, FloatArray

__all__ = ["follow", "is_structured", "lag_covariances", "white_variance"]

_LAGS = tuple((dy, dx) for dy in range(3) for dx in range(-2, 3) if dy > 0 or dx > 0)  # one of each pair +-
_UNLIKELY = 4.5  # standard deviations; with twelve lags, one white residual in 25,000 goes beyond


def lag_covariances(residual: FloatArray, valid: BoolArray) -> tuple[FloatArray, FloatArray]:
    """Mean products of valid pixels at the twelve shortest distances, and how many pairs each is the mean of.

    Examples
    --------
    >>> import numpy as np
    >>> board = np.indices((8, 8)).sum(axis=0) % 2 * 2.0 - 1.0
    >>> means, pairs = lag_covariances(board, np.ones((8, 8), bool))
    >>> means[:2], int(pairs[0])
    (array([-1.,  1.]), 56)
    """
    clean = np.where(valid, residual, 0.0)
    means, pairs = np.zeros(len(_LAGS)), np.zeros(len(_LAGS))
    height, width = residual.shape
    for k, (dy, dx) in enumerate(_LAGS):
        if dy >= height or abs(dx) >= width:
            continue
        here = (slice(0, height - dy), slice(max(0, -dx), width - max(0, dx)))
        there = (slice(dy, height), slice(max(0, dx), width - max(0, -dx)))
        pairs[k] = np.count_nonzero(valid[here] & valid[there])
        if pairs[k]:
            means[k] = np.sum(clean[here] * clean[there]) / pairs[k]
    return means, pairs


def is_structured(residual: FloatArray, valid: BoolArray, freedom: float, variance: float | None = None) -> bool:
    """Whether a residual is too large, or neighbouring pixels are too alike, for white noise.

    Parameters
    ----------
    residual : ndarray of shape (height, width)
        In units in which the noise has one variance everywhere.
    valid : ndarray of bool
        Pixels that count.
    freedom : float
        How many pixels' worth of noise the model has followed.
    variance : float, optional
        Of the noise, when it is known and not estimated from the image.

    Returns
    -------
    bool
        True when chance would do this less than once in ten thousand images.

    Examples
    --------
    >>> import numpy as np
    >>> noise = np.random.default_rng(0).normal(size=(40, 40))
    >>> everywhere = np.ones((40, 40), bool)
    >>> is_structured(noise, everywhere, 0.0), is_structured(noise.cumsum(axis=0), everywhere, 0.0)
    (False, True)
    """
    size = int(np.count_nonzero(valid))
    left = max(size - freedom, 1.0)
    square = float(np.sum(residual[valid] ** 2))
    if square == 0.0:
        return False
    if variance is not None and square > variance * (left + _UNLIKELY * np.sqrt(2.0 * left)):
        return True
    means, pairs = lag_covariances(residual, valid)
    return bool(np.any(means * np.sqrt(pairs) > _UNLIKELY * square / size))


def white_variance(residual: FloatArray, valid: BoolArray, freedom: float) -> float:
    """Variance of the part of a residual that neighbouring pixels do not share.

    What they share is the covariance at distance one, and, where it falls off, its extrapolation to distance zero.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> image = np.outer(np.sin(np.arange(64) / 5), np.ones(64)) + rng.normal(0, 0.5, (64, 64))
    >>> round(white_variance(image, np.ones((64, 64), bool), 0.0), 1)
    0.2
    """
    size = int(np.count_nonzero(valid))
    whole = float(np.sum(residual[valid] ** 2)) / max(size - freedom, 1.0)
    means, pairs = lag_covariances(residual, valid)
    shared = 0.0
    for near, far in (((0, 1), (0, 2)), ((1, 0), (2, 0))):
        first, second = _LAGS.index(near), _LAGS.index(far)
        if pairs[first]:
            shared = max(shared, means[first], 2.0 * means[first] - means[second] if pairs[second] else 0.0)
    for diagonal in ((1, 1), (1, -1)):
        shared = max(shared, means[_LAGS.index(diagonal)])
    return max(float(whole - shared), 0.0)


def quiet_variance(residual: FloatArray, valid: BoolArray) -> float:
    """Variance of the finest detail where there is least of it: no more than noise, even beside fine textures.

    Second differences along both axes, in blocks of 8 x 8 pixels; the quietest block counts. In pure noise it comes
    out at about half the variance.

    Examples
    --------
    >>> import numpy as np
    >>> image = np.random.default_rng(0).normal(size=(32, 32))
    >>> image[:, 10:] += 9.0 * np.random.default_rng(1).normal(size=(32, 22))
    >>> 0.3 < quiet_variance(image, np.ones((32, 32), bool)) < 1.2
    True
    """
    if min(residual.shape) < 3:
        return float(np.mean(residual[valid] ** 2))
    part = np.where(valid, residual, 0.0)
    for axis in (0, 1):
        part = np.diff(part, 2, axis=axis)
    good = np.ones(part.shape, dtype=np.bool_)
    for down in range(3):
        for across in range(3):
            good &= valid[down : down + part.shape[0], across : across + part.shape[1]]
    best = np.inf
    for top in range(0, part.shape[0], 8):
        for left in range(0, part.shape[1], 8):
            block = (slice(top, top + 8), slice(left, left + 8))
            if np.count_nonzero(good[block]) >= 32:
                best = min(best, float(np.mean(part[block][good[block]] ** 2)) / 36.0)
    return best if np.isfinite(best) else float(np.mean(residual[valid] ** 2))


def follow(residual: FloatArray, valid: BoolArray, freedom: float, variance: float | None) -> float:
    """How far to follow a model: 1 if its residual is white noise, else the share that risks least.

    Between the image (share 0) and the model (share 1) the expected squared error is least at
    ``variance (pixels - freedom) / sum(residual^2)``, Stein's estimate; it does not exceed that of the image.

    Parameters
    ----------
    residual, valid, freedom
        As in `is_structured`.
    variance : float or None
        Of the noise; None takes what is white in the residual, and no more than the quietest part of it shows.

    Returns
    -------
    float
        Between 0 and 1.

    Examples
    --------
    >>> import numpy as np
    >>> ramp = np.add.outer(np.arange(20.0), np.arange(20.0)) - 19.0
    >>> follow(ramp, np.ones((20, 20), bool), 0.0, 0.01) < 1e-3
    True
    """
    if not is_structured(residual, valid, freedom, variance):
        return 1.0
    square = float(np.sum(residual[valid] ** 2))
    if variance is None:
        level = min(white_variance(residual, valid, freedom), quiet_variance(residual, valid))
    else:
        level = variance
    return float(np.clip(level * (np.count_nonzero(valid) - freedom) / square, 0.0, 1.0))
