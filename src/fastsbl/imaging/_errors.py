"""How uncertain each pixel of a fitted image is."""

from __future__ import annotations

from typing import Any

import numpy as np

from fastsbl._base.types import BoolArray, FloatArray
from fastsbl.imaging.catalog import SourceCatalog
from fastsbl.imaging.psf import PSF, GaussianPSF

__all__ = ["model_std"]

_CORE = 32  # side of the parts of a large frame
_REACH = 4.0  # widths a source is followed to


def model_std(
    catalog: SourceCatalog, valid: BoolArray, psf: PSF | None, with_level: bool, noise_variance: Any
) -> tuple[FloatArray, FloatArray]:
    """Standard deviation of a catalogue's image, and how much of its own noise each pixel of it follows.

    With J the derivatives of the image in all parameters and V the noise, the covariance of the image is
    ``J (J' V^-1 J)^-1 J'``. Large frames are done part by part, with the sources around each.

    Parameters
    ----------
    catalog : SourceCatalog
        From `locate_sources`.
    valid : ndarray of bool, shape (height, width)
        Pixels that were fitted.
    psf : PSF or None
        As in `locate_sources`.
    with_level : bool
        Whether a constant was fitted.
    noise_variance : float or array of shape (height, width)
        Variance of the noise.

    Returns
    -------
    std, leverage : ndarray of shape (height, width)
        The leverages of the fitted pixels add up to the number of parameters.

    Examples
    --------
    >>> from fastsbl.imaging import locate_sources, make_starfield
    >>> field = make_starfield(snr_db=20.0, rng=5)
    >>> catalog = locate_sources(field.image, noise_variance=field.noise_variance)
    >>> everywhere = np.ones((28, 28), bool)
    >>> std, leverage = model_std(catalog, everywhere, None, True, field.noise_variance)
    >>> len(catalog), round(float(leverage.sum()), 6)  # four numbers per source, one for the level
    (4, 17.0)
    """
    shape = valid.shape
    noise = np.broadcast_to(np.maximum(np.asarray(noise_variance, dtype=np.float64), 1e-300), shape)
    weight = np.where(valid, 1.0 / noise, 0.0)
    names = ("x_fit", "y_fit", "flux_fit", "sigma_fit")
    x, y, flux, sigma = (np.asarray(catalog.table[name], dtype=np.float64) for name in names)
    widths = sigma if psf is None else np.full(x.size, psf.radius(0.999) / _REACH)
    variance = np.zeros(shape)
    one = max(shape) <= 2 * _CORE
    size = max(shape) if one else _CORE
    for top in range(0, shape[0], size):
        for left in range(0, shape[1], size):
            core = (slice(top, min(top + size, shape[0])), slice(left, min(left + size, shape[1])))
            halo = 0 if one or not x.size else int(np.ceil(_REACH * widths.max())) + 1
            near = (
                (x > left - 0.5 - halo)
                & (x < core[1].stop - 0.5 + halo)
                & (y > top - 0.5 - halo)
                & (y < core[0].stop - 0.5 + halo)
            )
            if one:
                near[:] = True
            outer = tuple(
                slice(max(0, part.start - 2 * halo), min(side, part.stop + 2 * halo))
                for part, side in zip(core, shape, strict=True)
            )
            box = (outer[0].stop - outer[0].start, outer[1].stop - outer[1].start)
            rows = _derivatives(psf, x[near], y[near], flux[near], sigma[near], box, (outer[1].start, outer[0].start))
            if with_level and one:
                rows = np.vstack([rows, np.ones((1, rows.shape[1]))])
            if not rows.size:
                continue
            inside = (
                slice(core[0].start - outer[0].start, core[0].stop - outer[0].start),
                slice(core[1].start - outer[1].start, core[1].stop - outer[1].start),
            )
            shown = rows.reshape(-1, *box)[:, *inside].reshape(rows.shape[0], -1)
            variance[core] = _spread(rows, weight[outer].ravel(), shown).reshape(variance[core].shape)
    if with_level and not one:
        variance += 1.0 / max(float(weight.sum()), 1e-300)
    return np.sqrt(variance), variance * weight


def _derivatives(
    psf: PSF | None,
    x: FloatArray,
    y: FloatArray,
    flux: FloatArray,
    sigma: FloatArray,
    box: tuple[int, int],
    origin: tuple[int, int],
) -> FloatArray:
    """Derivatives of the image in x, y, flux (and width) of each source: one row each, one column per pixel."""
    if psf is None:
        slopes = GaussianPSF(1.0).stamp_and_gradient(x, y, box, origin, sigma=sigma)
    else:
        slopes = psf.stamp_and_gradient(x, y, box, origin)
    scale = flux[:, None, None]
    parts = [slopes.value, scale * slopes.d_x, scale * slopes.d_y]
    if psf is None:
        parts.append(scale * slopes.d_sigma)
    return np.concatenate(parts).reshape(-1, box[0] * box[1])


def _spread(rows: FloatArray, weight: FloatArray, shown: FloatArray) -> FloatArray:
    """Variance of the shown pixels; directions the pixels do not determine are left out."""
    fisher = (rows * weight) @ rows.T
    scale = np.sqrt(np.maximum(np.diag(fisher), 1e-300))
    values, vectors = np.linalg.eigh(fisher / scale / scale[:, None])
    safe = values > 1e-10
    half = (vectors[:, safe] / np.sqrt(values[safe])).T @ (shown / scale[:, None])
    return np.asarray(np.einsum("ij,ij->j", half, half))
