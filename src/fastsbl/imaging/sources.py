"""Dictionaries of candidate sources: each column is the image of one source, at unit norm.

Rows are the pixels in C order (row by row). Norms are kept, so that a coefficient is turned back to a flux.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, DTypeLike
from scipy import sparse

from fastsbl._base.brief import Brief
from fastsbl._base.types import FloatArray
from fastsbl.imaging import _kernels
from fastsbl.imaging._checks import check_count, check_fraction, check_positive, check_range, check_shape
from fastsbl.imaging._columns import extent, fill_dense, fill_from_stamps
from fastsbl.imaging.psf import PSF, GaussianPSF

__all__ = [
    "SourceDictionary",
    "build_source_dictionary",
    "grid_source_dictionary",
    "sample_source_dictionary",
]

logger = logging.getLogger(__name__)

Storage: TypeAlias = Literal["auto", "dense", "sparse"]
Prior: TypeAlias = Literal["uniform", "gaussian"]

_DARK = 1e-9  # norm of a unit-flux column below which there is nothing but rounding
_DENSE_FILL = 0.25  # share of filled entries from which a dense matrix is about as small, and faster


@dataclass(frozen=True, eq=False, repr=False)
class SourceDictionary(Brief):
    """Candidate sources and their images.

    Attributes
    ----------
    matrix : ndarray (Fortran order) or scipy.sparse.csc_array of shape (pixels, n)
        Unit-norm columns, all entries at least zero for Gaussian sources.
    x, y : ndarray of shape (n,)
        Positions; pixel centres at integers from 0, x = column.
    sigma : ndarray of shape (n,)
        Widths of circular Gaussian sources, NaN for any other PSF.
    norms : ndarray of shape (n,)
        Norm of the column of a source of unit flux: coefficient = flux * norm.
    shape : (height, width)
        Size of the image.

    Examples
    --------
    >>> sources = sample_source_dictionary((28, 28), 50, rng=0)
    >>> sources.matrix.shape, len(sources)
    ((784, 50), 50)
    """

    matrix: FloatArray | sparse.csc_array
    x: FloatArray
    y: FloatArray
    sigma: FloatArray
    norms: FloatArray
    shape: tuple[int, int]

    def __len__(self) -> int:
        """Return the number of candidates."""
        return int(self.x.size)

    def flux(self, coef: ArrayLike) -> FloatArray:
        """Fluxes of coefficients on the unit-norm columns.

        Parameters
        ----------
        coef : array of shape (n,)
            Coefficients.

        Returns
        -------
        ndarray of shape (n,)
            ``coef / norms``.

        Examples
        --------
        >>> sources = sample_source_dictionary((9, 9), 2, rng=0)
        >>> sources.flux(3.0 * sources.norms)
        array([3., 3.])
        """
        return np.asarray(self._coef(coef) / self.norms)

    def image(self, coef: ArrayLike) -> FloatArray:
        """Image of coefficients on the unit-norm columns.

        Parameters
        ----------
        coef : array of shape (n,)
            Coefficients.

        Returns
        -------
        ndarray of shape (height, width)
            ``matrix @ coef`` as an image.

        Examples
        --------
        >>> sources = sample_source_dictionary((9, 9), 2, rng=0)
        >>> sources.image([1.0, 0.0]).shape
        (9, 9)
        """
        return np.asarray(self.matrix @ self._coef(coef), dtype=np.float64).reshape(self.shape)

    def _coef(self, coef: ArrayLike) -> FloatArray:
        values = np.asarray(coef, dtype=np.float64)
        if values.shape != self.x.shape:
            raise ValueError(f"coef must have shape {self.x.shape}, one per candidate; got {values.shape}")
        return values


def sample_source_dictionary(
    shape: Sequence[int],
    n: int,
    *,
    psf: PSF | None = None,
    sigma_range: tuple[float, float] = (0.8, 4.0),
    prior: Prior = "uniform",
    rng: np.random.Generator | int | None = None,
    fraction: float = 0.999,
    storage: Storage = "auto",
    dtype: DTypeLike = np.float64,
    max_bytes: float = 6e9,
) -> SourceDictionary:
    """Draw candidate sources at random positions (and widths), as the paper does.

    Parameters
    ----------
    shape : (height, width)
        Size of the image.
    n : int
        Number of candidates.
    psf : PSF, optional
        A known PSF. None means circular Gaussians of unknown width, drawn from `sigma_range`.
    sigma_range : (float, float), default (0.8, 4)
        Smallest and largest width.
    prior : {"uniform", "gaussian"}, default "uniform"
        "uniform": positions on the whole area of the frame (from -0.5), widths over `sigma_range`.
        "gaussian": normal about the middle of the same intervals, with a standard deviation of a quarter of
        their length, cut to the intervals.
    rng : Generator or int, optional
        Source of randomness, or its seed.
    fraction, storage, dtype, max_bytes
        As in `build_source_dictionary`.

    Returns
    -------
    SourceDictionary
        The candidates.

    Examples
    --------
    >>> sources = sample_source_dictionary((64, 64), 1000, sigma_range=(1.0, 1.5), rng=1)
    >>> sources.matrix.format
    'csc'
    """
    height, width = check_shape("shape", shape)
    n = check_count("n", n)
    low, high = check_range("sigma_range", sigma_range)
    if prior not in ("uniform", "gaussian"):
        raise ValueError(f'prior must be "uniform" or "gaussian"; got {prior!r}')
    generator = np.random.default_rng(rng)
    x = _draw(generator, prior, n, -0.5, width - 0.5)
    y = _draw(generator, prior, n, -0.5, height - 0.5)
    sigma = _draw(generator, prior, n, low, high) if psf is None else None
    return build_source_dictionary(
        (height, width),
        x,
        y,
        psf=psf,
        sigma=sigma,
        fraction=fraction,
        storage=storage,
        dtype=dtype,
        max_bytes=max_bytes,
    )


def grid_source_dictionary(
    shape: Sequence[int],
    *,
    psf: PSF | None = None,
    sigmas: ArrayLike | None = None,
    step: float = 0.5,
    fraction: float = 0.999,
    storage: Storage = "auto",
    dtype: DTypeLike = np.float64,
    max_bytes: float = 6e9,
) -> SourceDictionary:
    """Candidate sources on a regular grid finer than the pixels.

    The frame's area is divided into equal cells of at most `step` pixels, with one candidate at the centre of
    each cell; `step=1` gives the pixel centres. Candidates go width by width, row by row.

    Parameters
    ----------
    shape : (height, width)
        Size of the image.
    psf : PSF, optional
        A known PSF; give either this or `sigmas`.
    sigmas : float or array, optional
        Widths of circular Gaussians; every position gets every width.
    step : float, default 0.5
        Largest distance between neighbouring candidates, in pixels.
    fraction, storage, dtype, max_bytes
        As in `build_source_dictionary`.

    Returns
    -------
    SourceDictionary
        The candidates.

    Examples
    --------
    >>> sources = grid_source_dictionary((8, 8), sigmas=[1.0, 2.0], step=0.5)
    >>> len(sources), sources.x[:3].tolist()
    (512, [-0.25, 0.25, 0.75])
    """
    height, width = check_shape("shape", shape)
    step = check_positive("step", step)
    if (psf is None) == (sigmas is None):
        raise ValueError("give exactly one of psf (a known PSF) and sigmas (widths of Gaussian sources)")
    x, y = (_cell_centres(size, step) for size in (width, height))
    grid_y, grid_x = (axis.ravel() for axis in np.meshgrid(y, x, indexing="ij"))
    sigma: FloatArray | None = None
    if sigmas is not None:
        widths = np.atleast_1d(np.asarray(sigmas, dtype=np.float64)).ravel()
        sigma = np.repeat(widths, grid_x.size)
        grid_x, grid_y = np.tile(grid_x, widths.size), np.tile(grid_y, widths.size)
    return build_source_dictionary(
        (height, width),
        grid_x,
        grid_y,
        psf=psf,
        sigma=sigma,
        fraction=fraction,
        storage=storage,
        dtype=dtype,
        max_bytes=max_bytes,
    )


def build_source_dictionary(
    shape: Sequence[int],
    x: ArrayLike,
    y: ArrayLike,
    *,
    psf: PSF | None = None,
    sigma: ArrayLike | None = None,
    fraction: float = 0.999,
    storage: Storage = "auto",
    dtype: DTypeLike = np.float64,
    max_bytes: float = 6e9,
) -> SourceDictionary:
    """Unit-norm columns for candidates at given places.

    Parameters
    ----------
    shape : (height, width)
        Size of the image.
    x, y : array of shape (n,)
        Positions, inside the area of the frame.
    psf : PSF, optional
        A known PSF; give either this or `sigma`.
    sigma : float or array of shape (n,), optional
        Widths of circular Gaussians.
    fraction : float, default 0.999
        Sparse columns end at the radius that holds this share of the flux; for a Gaussian, what is cut off is
        also at most 1 - `fraction` of the column's norm. Dense columns are not cut.
    storage : {"auto", "dense", "sparse"}, default "auto"
        "auto" takes a dense matrix when more than a quarter of the entries would be filled.
    dtype : float64 or float32, default float64
        Type of the matrix; norms are float64 in any case.
    max_bytes : float, default 6e9
        Refuse, before anything is allocated, to build a matrix larger than this.

    Returns
    -------
    SourceDictionary
        The candidates.

    Examples
    --------
    >>> sources = build_source_dictionary((16, 16), [3.0, 9.5], [4.0, 8.0], sigma=1.2)
    >>> bool(abs((sources.matrix**2).sum(axis=0) - 1).max() < 1e-12)
    True
    """
    height, width = check_shape("shape", shape)
    x, y = np.broadcast_arrays(np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64))
    if x.ndim != 1 or x.size == 0:
        raise ValueError(f"x and y must be one-dimensional and not empty; got shape {x.shape}")
    x, y = np.ascontiguousarray(x), np.ascontiguousarray(y)
    for name, place, size in (("x", x, width), ("y", y, height)):
        if not np.all((place >= -0.5) & (place <= size - 0.5)):
            raise ValueError(f"{name} must lie within the frame, from -0.5 to {size - 0.5}")
    if (psf is None) == (sigma is None):
        raise ValueError("give exactly one of psf (a known PSF) and sigma (widths of Gaussian sources)")
    if storage not in ("auto", "dense", "sparse"):
        raise ValueError(f'storage must be "auto", "dense" or "sparse"; got {storage!r}')
    kind = np.dtype(dtype)
    if kind not in (np.dtype(np.float64), np.dtype(np.float32)):
        raise ValueError(f"dtype must be float64 or float32; got {kind}")
    fraction = check_fraction("fraction", fraction)

    sx, sy, rx, ry = extent(x.size, psf, sigma, fraction)
    indptr = np.zeros(x.size + 1, dtype=np.int64)
    _kernels.count_ellipse_pixels(x, y, rx, ry, height, width, indptr[1:])
    np.cumsum(indptr, out=indptr)
    entries, pixels = int(indptr[-1]), height * width
    dense = storage == "dense" or (storage == "auto" and entries > _DENSE_FILL * pixels * x.size)
    index_type = np.dtype(np.int32 if entries < 2**31 else np.int64)
    needed = pixels * x.size * kind.itemsize if dense else entries * (kind.itemsize + index_type.itemsize)
    if needed > max_bytes:
        raise MemoryError(
            f"the {'dense' if dense else 'sparse'} dictionary of {x.size} candidates needs "
            f"{needed / 1e9:.1f} GB, more than max_bytes = {max_bytes / 1e9:.1f} GB: take fewer candidates, "
            f"narrower sources, a smaller fraction, dtype float32 or tiles"
        )
    logger.debug("%d candidates, %d entries, %s, %.0f MB", x.size, entries, dense, needed / 1e6)

    norms = np.empty(x.size)
    matrix: FloatArray | sparse.csc_array
    if dense:
        matrix = fill_dense(x, y, (height, width), psf, sx, kind, norms)
    else:
        data = np.empty(entries, dtype=kind)
        indices = np.empty(entries, dtype=index_type)
        if sx is not None and sy is not None:
            _kernels.fill_gaussian_columns(x, y, sx, sy, rx, ry, height, width, indptr, indices, data, norms)
        else:
            assert psf is not None
            fill_from_stamps(x, y, rx, ry, (height, width), psf, indptr, indices, data, norms)
        matrix = sparse.csc_array((data, indices, indptr.astype(index_type)), shape=(pixels, x.size), copy=False)
    dark = int(np.sum(norms <= _DARK))
    if dark:
        raise ValueError(f"psf must have light inside the frame for every candidate; {dark} have none")
    circular = sigma is not None or (isinstance(psf, GaussianPSF) and psf.is_circular)
    widths = sx if circular and sx is not None else np.full(x.size, np.nan)
    return SourceDictionary(matrix, x, y, widths, norms, (height, width))


def _draw(generator: np.random.Generator, prior: Prior, n: int, low: float, high: float) -> FloatArray:
    """Draw n values on [low, high] from a prior."""
    if prior == "uniform" or low == high:
        return generator.uniform(low, high, n)
    values = np.empty(0)
    while values.size < n:  # 95 % of the draws are kept
        more = generator.normal((low + high) / 2, (high - low) / 4, n - values.size + 16)
        values = np.concatenate([values, more[(more >= low) & (more <= high)]])
    return values[:n]


def _cell_centres(size: int, step: float) -> FloatArray:
    """Centres of the equal cells of at most `step` that divide -0.5 .. size - 0.5."""
    cells = int(np.ceil(size / step - 1e-9))
    return np.asarray((np.arange(cells) + 0.5) * (size / cells) - 0.5, dtype=np.float64)
