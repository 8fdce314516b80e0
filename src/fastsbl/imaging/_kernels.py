"""Compiled kernels on plain arrays; every one has a numpy twin in the tests.

Positions are pixel centres counted from 0, x along columns. Nothing is checked here.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

_SQRT2 = math.sqrt(2.0)


@njit(cache=True, nogil=True)
def _row_span(x: float, half: float, n_columns: int) -> tuple[int, int]:  # pragma: no cover - compiled
    """First and one-past-last pixel whose centre is within `half` of x, inside the frame."""
    first = max(0, math.ceil(x - half))
    last = min(n_columns - 1, math.floor(x + half))
    return first, last + 1


@njit(cache=True, nogil=True)
def count_ellipse_pixels(
    x: Any, y: Any, rx: Any, ry: Any, n_rows: int, n_columns: int, counts: Any
) -> None:  # pragma: no cover - compiled
    """Count the pixel centres of the frame inside each ellipse of half-axes rx, ry."""
    for k in range(x.size):
        total = 0
        top, bottom = _row_span(y[k], ry[k], n_rows)
        for i in range(top, bottom):
            v = (i - y[k]) / ry[k]
            half = rx[k] * math.sqrt(max(0.0, 1.0 - v * v))
            left, right = _row_span(x[k], half, n_columns)
            if right > left:
                total += right - left
        counts[k] = total


@njit(cache=True, nogil=True)
def _edge_factors(centre: float, sigma: float, first: int, last: int, out: Any) -> None:  # pragma: no cover
    """Integral of a unit Gaussian over each of the pixels first..last-1, into out[0:last-first]."""
    scale = 1.0 / (_SQRT2 * sigma)
    low = math.erf((first - 0.5 - centre) * scale)
    for i in range(first, last):
        high = math.erf((i + 0.5 - centre) * scale)
        out[i - first] = 0.5 * (high - low)
        low = high


@njit(cache=True, nogil=True)
def fill_gaussian_columns(
    x: Any,
    y: Any,
    sx: Any,
    sy: Any,
    rx: Any,
    ry: Any,
    n_rows: int,
    n_columns: int,
    indptr: Any,
    indices: Any,
    data: Any,
    norms: Any,
) -> None:  # pragma: no cover - compiled
    """Unit-norm CSC columns of pixel-integrated Gaussians, cut to their ellipses."""
    across = np.empty(n_columns)
    down = np.empty(n_rows)
    for k in range(x.size):
        top, bottom = _row_span(y[k], ry[k], n_rows)
        first, last = _row_span(x[k], rx[k], n_columns)
        _edge_factors(x[k], sx[k], first, last, across)
        _edge_factors(y[k], sy[k], top, bottom, down)
        position = indptr[k]
        energy = 0.0
        for i in range(top, bottom):
            v = (i - y[k]) / ry[k]
            half = rx[k] * math.sqrt(max(0.0, 1.0 - v * v))
            left, right = _row_span(x[k], half, n_columns)
            factor = down[i - top]
            for j in range(left, right):
                value = factor * across[j - first]
                energy += value * value
                data[position] = value
                indices[position] = i * n_columns + j
                position += 1
        norm = math.sqrt(energy)
        norms[k] = norm
        if norm > 0.0:
            inverse = 1.0 / norm
            for p in range(indptr[k], position):
                data[p] *= inverse


@njit(cache=True, nogil=True)
def fill_stamp_columns(
    stamps: Any,
    x0: Any,
    y0: Any,
    x: Any,
    y: Any,
    rx: Any,
    ry: Any,
    n_rows: int,
    n_columns: int,
    indptr: Any,
    indices: Any,
    data: Any,
    norms: Any,
) -> None:  # pragma: no cover - compiled
    """Unit-norm CSC columns from ready stamps (k, h, w) whose first pixels are (x0, y0)."""
    for k in range(x.size):
        position = indptr[k]
        energy = 0.0
        top, bottom = _row_span(y[k], ry[k], n_rows)
        for i in range(top, bottom):
            v = (i - y[k]) / ry[k]
            half = rx[k] * math.sqrt(max(0.0, 1.0 - v * v))
            left, right = _row_span(x[k], half, n_columns)
            for j in range(left, right):
                value = stamps[k, i - y0[k], j - x0[k]]
                energy += value * value
                data[position] = value
                indices[position] = i * n_columns + j
                position += 1
        norm = math.sqrt(energy)
        norms[k] = norm
        if norm > 0.0:
            inverse = 1.0 / norm
            for p in range(indptr[k], position):
                data[p] *= inverse


@njit(cache=True, nogil=True)
def add_stamps(stamps: Any, x0: Any, y0: Any, flux: Any, image: Any) -> None:  # pragma: no cover - compiled
    """Add flux[k] * stamps[k] to the image at (x0[k], y0[k]); what falls outside is lost."""
    n_rows, n_columns = image.shape
    height, width = stamps.shape[1], stamps.shape[2]
    for k in range(x0.size):
        for i in range(max(0, -y0[k]), min(height, n_rows - y0[k])):
            for j in range(max(0, -x0[k]), min(width, n_columns - x0[k])):
                image[y0[k] + i, x0[k] + j] += flux[k] * stamps[k, i, j]


@njit(cache=True, nogil=True)
def _cubic(t: float, weights: Any) -> None:  # pragma: no cover - compiled
    """Cubic B-spline weights of the four knots around a point at fraction t."""
    s = 1.0 - t
    weights[0] = s * s * s / 6.0
    weights[1] = (4.0 - 6.0 * t * t + 3.0 * t * t * t) / 6.0
    weights[2] = (4.0 - 6.0 * s * s + 3.0 * s * s * s) / 6.0
    weights[3] = t * t * t / 6.0


@njit(cache=True, nogil=True)
def _cubic_slope(t: float, weights: Any) -> None:  # pragma: no cover - compiled
    """Compute the slopes of the cubic B-spline weights with respect to t."""
    s = 1.0 - t
    weights[0] = -0.5 * s * s
    weights[1] = -2.0 * t + 1.5 * t * t
    weights[2] = 2.0 * s - 1.5 * s * s
    weights[3] = 0.5 * t * t


@njit(cache=True, nogil=True)
def spline_stamps(
    coefficients: Any, ux: Any, uy: Any, ox: int, oy: int, gradient: bool, value: Any, d_x: Any, d_y: Any
) -> None:  # pragma: no cover - compiled
    """Cubic-spline values (and slopes) of an oversampled image on pixel grids.

    ux[k], uy[k] is the place of stamp k's first pixel in `coefficients`; the pixels are `ox`, `oy`
    samples apart, so that all pixels of a stamp share the same spline weights. Zero outside: the
    coefficients come with a margin of zeros, where the spline has faded out.
    """
    n_rows, n_columns = coefficients.shape
    height, width = value.shape[1], value.shape[2]
    wx, wy, gx, gy = np.zeros(4), np.zeros(4), np.zeros(4), np.zeros(4)
    for k in range(ux.size):
        jx, iy = math.floor(ux[k]), math.floor(uy[k])
        _cubic(ux[k] - jx, wx)
        _cubic(uy[k] - iy, wy)
        if gradient:
            _cubic_slope(ux[k] - jx, gx)
            _cubic_slope(uy[k] - iy, gy)
        for i in range(height):
            row = int(iy) - 1 + oy * i
            for j in range(width):
                column = int(jx) - 1 + ox * j
                total, total_x, total_y = 0.0, 0.0, 0.0
                if row >= 0 and row + 4 <= n_rows and column >= 0 and column + 4 <= n_columns:
                    for a in range(4):
                        c0, c1 = coefficients[row + a, column], coefficients[row + a, column + 1]
                        c2, c3 = coefficients[row + a, column + 2], coefficients[row + a, column + 3]
                        plain = wx[0] * c0 + wx[1] * c1 + wx[2] * c2 + wx[3] * c3
                        total += wy[a] * plain
                        if gradient:
                            total_x += wy[a] * (gx[0] * c0 + gx[1] * c1 + gx[2] * c2 + gx[3] * c3)
                            total_y += gy[a] * plain
                value[k, i, j] = total
                if gradient:
                    d_x[k, i, j] = -ox * total_x
                    d_y[k, i, j] = -oy * total_y
