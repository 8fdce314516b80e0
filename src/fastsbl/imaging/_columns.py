"""Columns of source dictionaries: how far each reaches, and the filling of dense and sparse matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fastsbl._base.types import FloatArray, IntArray
from fastsbl.imaging import _kernels
from fastsbl.imaging.psf import PSF, GaussianPSF, stamp_origin

_CHUNK_ELEMENTS = 4_000_000


def extent(
    n: int, psf: PSF | None, sigma: ArrayLike | None, fraction: float
) -> tuple[FloatArray | None, FloatArray | None, FloatArray, FloatArray]:
    """Gaussian widths (None when the PSF is not an axis-aligned Gaussian) and the half-axes of the cut."""
    if psf is not None and not (isinstance(psf, GaussianPSF) and psf.is_separable):
        half = np.full(n, max(1.0, psf.radius(fraction)))
        return None, None, half, half
    if isinstance(psf, GaussianPSF):
        sx, sy = np.full(n, psf.sigma_x), np.full(n, psf.sigma_y)
    else:
        widths = np.asarray(sigma, dtype=np.float64)
        if not np.all(np.isfinite(widths) & (widths > 0)):
            raise ValueError("sigma must be finite and above 0 for every candidate")
        sx = sy = np.array(np.broadcast_to(widths, (n,)))
    reach = -2.0 * np.log1p(-fraction)
    rx, ry = (np.maximum(1.0, np.sqrt(reach * (s**2 + 1.0 / 12.0))) for s in (sx, sy))
    return sx, sy, rx, ry


def _parts(total: int, per_item: int) -> list[slice]:
    size = max(1, _CHUNK_ELEMENTS // per_item)
    return [slice(start, min(start + size, total)) for start in range(0, total, size)]


def fill_dense(
    x: FloatArray,
    y: FloatArray,
    shape: tuple[int, int],
    psf: PSF | None,
    sigma: FloatArray | None,
    kind: np.dtype[Any],
    norms: FloatArray,
) -> FloatArray:
    """Uncut columns; the transpose of a C-ordered (n, pixels) array is Fortran-ordered."""
    pixels = shape[0] * shape[1]
    rows: np.ndarray[Any, np.dtype[Any]] = np.empty((x.size, pixels), dtype=kind)
    for part in _parts(x.size, pixels):
        if psf is None:
            assert sigma is not None
            stamps = GaussianPSF(1.0).stamp(x[part], y[part], shape, sigma=sigma[part])
        else:
            stamps = psf.stamp(x[part], y[part], shape)
        flat = stamps.reshape(-1, pixels)
        norms[part] = np.sqrt(np.einsum("ij,ij->i", flat, flat))
        rows[part] = flat / np.where(norms[part] > 0, norms[part], 1.0)[:, None]
    return rows.T


def fill_from_stamps(
    x: FloatArray,
    y: FloatArray,
    rx: FloatArray,
    ry: FloatArray,
    shape: tuple[int, int],
    psf: PSF,
    indptr: IntArray,
    indices: np.ndarray[tuple[int], np.dtype[np.integer]],
    data: FloatArray,
    norms: FloatArray,
) -> None:
    """Cut columns of any PSF, from stamps drawn a few thousand at a time."""
    side = 2 * int(np.ceil(max(rx.max(), ry.max()))) + 3
    for part in _parts(x.size, side * side):
        x0, y0 = stamp_origin(x[part], y[part], (side, side))
        stamps = psf.stamp(x[part], y[part], (side, side), (x0, y0))
        _kernels.fill_stamp_columns(
            stamps,
            x0,
            y0,
            x[part],
            y[part],
            rx[part],
            ry[part],
            shape[0],
            shape[1],
            indptr[part.start : part.stop + 1],
            indices,
            data,
            norms[part],
        )
