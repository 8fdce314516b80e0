"""Images of lists of sources."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from fastsbl._base.types import FloatArray
from fastsbl.imaging import _kernels
from fastsbl.imaging._checks import check_finite, check_shape
from fastsbl.imaging._gaussian import pixel_factor
from fastsbl.imaging.psf import PSF, GaussianPSF, stamp_origin

__all__ = ["render_sources"]

_CHUNK = 4096


def render_sources(
    shape: Sequence[int],
    x: ArrayLike,
    y: ArrayLike,
    flux: ArrayLike,
    *,
    psf: PSF,
    sigma: ArrayLike | None = None,
    fraction: float = 1.0 - 1e-9,
) -> FloatArray:
    """Image of a list of sources, without background and noise.

    Parameters
    ----------
    shape : (height, width)
        Size of the image.
    x, y, flux : array of shape (n,)
        Positions and fluxes.
    psf : PSF
        The point-spread function.
    sigma : array of shape (n,), optional
        Widths of circular Gaussian sources; only with a `GaussianPSF`.
    fraction : float, default 1 - 1e-9
        How much of each source is drawn when the PSF has no product form (rotated Gaussians, `PixelPSF`);
        axis-aligned Gaussians are drawn in full.

    Returns
    -------
    ndarray of shape (height, width)
        The image.

    Examples
    --------
    >>> from fastsbl.imaging import GaussianPSF
    >>> image = render_sources((32, 32), [10.0, 20.5], [12.0, 15.0], [100.0, 50.0], psf=GaussianPSF(1.2))
    >>> round(float(image.sum()), 6)
    150.0
    """
    height, width = check_shape("shape", shape)
    x, y, flux = np.broadcast_arrays(
        *(np.atleast_1d(check_finite(n, a)) for n, a in (("x", x), ("y", y), ("flux", flux)))
    )
    if x.ndim != 1:
        raise ValueError(f"x, y and flux must be one-dimensional; got shape {x.shape}")
    if sigma is not None and not isinstance(psf, GaussianPSF):
        raise ValueError("sigma must be None unless psf is a GaussianPSF; got widths for another PSF")
    image = np.zeros((height, width))
    gaussian = psf if isinstance(psf, GaussianPSF) else None
    if gaussian is not None and (sigma is not None or gaussian.is_separable):
        sx, sy = (gaussian.sigma_x, gaussian.sigma_y) if sigma is None else (sigma, sigma)
        sx, sy = (np.broadcast_to(np.asarray(s, dtype=np.float64), x.shape) for s in (sx, sy))
        if np.any(~(sx > 0)) or np.any(~(sy > 0)):
            raise ValueError("sigma must be above 0 for every source; got a value that is not")
        for part in _chunks(x.size, _CHUNK):
            down = pixel_factor(y[part], sy[part], height)
            down *= flux[part, None]
            image += down.T @ pixel_factor(x[part], sx[part], width)
        return image
    half = int(np.ceil(psf.radius(fraction))) + 1
    box = (2 * half + 1, 2 * half + 1)
    for part in _chunks(x.size, max(1, 2_000_000 // (box[0] * box[1]))):
        x0, y0 = stamp_origin(x[part], y[part], box)
        stamps = psf.stamp(x[part], y[part], box, (x0, y0))
        _kernels.add_stamps(stamps, x0, y0, np.ascontiguousarray(flux[part]), image)
    return image


def _chunks(total: int, size: int) -> list[slice]:
    return [slice(start, min(start + size, total)) for start in range(0, total, size)]
