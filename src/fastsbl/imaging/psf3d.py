"""The pixel-integrated Gaussian in three dimensions (stacks of focal planes)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaincinv

from fastsbl._base.brief import Brief
from fastsbl._base.types import FloatArray
from fastsbl.imaging._checks import check_finite, check_fraction, check_positive, check_shape
from fastsbl.imaging._gaussian import pixel_factor, pixel_factor_gradient

__all__ = ["GaussianPSF3D", "StampGradient3D"]


@dataclass(frozen=True, eq=False, repr=False)
class StampGradient3D(Brief):
    """Voxel values of unit-flux sources and their derivatives, each (..., depth, height, width).

    Attributes
    ----------
    value, d_x, d_y, d_z, d_sigma_xy, d_sigma_z : ndarray of shape (..., depth, height, width)
        Values, and derivatives with respect to position and widths.

    Examples
    --------
    >>> GaussianPSF3D(1.0, 2.0).stamp_and_gradient(1.0, 1.0, 1.0, (3, 3, 3)).d_z.shape
    (3, 3, 3)
    """

    value: FloatArray
    d_x: FloatArray
    d_y: FloatArray
    d_z: FloatArray
    d_sigma_xy: FloatArray
    d_sigma_z: FloatArray


@dataclass(frozen=True)
class GaussianPSF3D:
    """A three-dimensional Gaussian integrated over each voxel.

    The density is ``exp(-((x-x0)^2 + (y-y0)^2) / (2 sigma_xy^2) - (z-z0)^2 / (2 sigma_z^2))`` divided by
    ``(2 pi)^(3/2) sigma_xy^2 sigma_z``; its integral over voxels is a product of three erf differences.

    Parameters
    ----------
    sigma_xy : float
        Standard deviation across, in pixels.
    sigma_z : float
        Standard deviation along the optical axis, in planes.

    Examples
    --------
    >>> stamp = GaussianPSF3D(1.2, 2.0).stamp(8.0, 8.0, 12.0, (25, 17, 17))
    >>> stamp.shape, round(float(stamp.sum()), 6)
    ((25, 17, 17), 1.0)
    """

    sigma_xy: float
    sigma_z: float

    def __post_init__(self) -> None:
        """Check the widths."""
        object.__setattr__(self, "sigma_xy", check_positive("sigma_xy", self.sigma_xy))
        object.__setattr__(self, "sigma_z", check_positive("sigma_z", self.sigma_z))

    def radius(self, fraction: float = 0.999) -> tuple[float, float]:
        """Half-axes (across, along z) of the ellipsoid that holds `fraction` of the flux.

        Parameters
        ----------
        fraction : float, default 0.999
            Share of the flux, between 0 and 1.

        Returns
        -------
        radius_xy, radius_z : float
            Half-axes in pixels and planes, the voxel's own width included.

        Examples
        --------
        >>> [round(r, 2) for r in GaussianPSF3D(1.0, 2.0).radius(0.999)]
        [4.2, 8.15]
        """
        reach = float(np.sqrt(2.0 * gammaincinv(1.5, check_fraction("fraction", fraction))))
        voxel = 1.0 / 12.0
        return reach * float(np.sqrt(self.sigma_xy**2 + voxel)), reach * float(np.sqrt(self.sigma_z**2 + voxel))

    def stamp(
        self,
        x: ArrayLike,
        y: ArrayLike,
        z: ArrayLike,
        shape: Sequence[int],
        origin: tuple[ArrayLike, ArrayLike, ArrayLike] = (0, 0, 0),
    ) -> FloatArray:
        """Voxel values of unit-flux sources.

        Parameters
        ----------
        x, y, z : float or array of shape (...)
            Positions; voxel centres are at the integers, counted from 0.
        shape : (depth, height, width)
            Size of the box.
        origin : (x0, y0, z0), default (0, 0, 0)
            Index of the first voxel of the box, whole numbers or arrays with one per source.

        Returns
        -------
        ndarray of shape (..., depth, height, width)
            The values.

        Examples
        --------
        >>> GaussianPSF3D(1.0, 2.0).stamp([1.0, 2.0], 1.0, 1.0, (3, 4, 5)).shape
        (2, 3, 4, 5)
        """
        places, lead, sizes = self._prepare(x, y, z, shape, origin)
        widths = (self.sigma_xy, self.sigma_xy, self.sigma_z)
        across, down, along = (
            pixel_factor(place, np.full(place.shape, width), size)
            for place, width, size in zip(places, widths, sizes[::-1], strict=True)
        )
        return _product(along, down, across, (*lead, *sizes))

    def stamp_and_gradient(
        self,
        x: ArrayLike,
        y: ArrayLike,
        z: ArrayLike,
        shape: Sequence[int],
        origin: tuple[ArrayLike, ArrayLike, ArrayLike] = (0, 0, 0),
    ) -> StampGradient3D:
        """Voxel values and their analytic derivatives.

        Parameters
        ----------
        x, y, z, shape, origin
            As for `stamp`.

        Returns
        -------
        StampGradient3D
            Values, slopes in position and in the two widths.

        Examples
        --------
        >>> answer = GaussianPSF3D(1.0, 2.0).stamp_and_gradient(1.0, 1.0, 1.0, (3, 3, 3))
        >>> bool(abs(answer.d_x[1, 1, 1]) < 1e-15)
        True
        """
        places, lead, sizes = self._prepare(x, y, z, shape, origin)
        widths = (self.sigma_xy, self.sigma_xy, self.sigma_z)
        (a, a_u, a_s), (d, d_u, d_s), (g, g_u, g_s) = (
            pixel_factor_gradient(place, np.full(place.shape, width), size)
            for place, width, size in zip(places, widths, sizes[::-1], strict=True)
        )
        full = (*lead, *sizes)
        return StampGradient3D(
            value=_product(g, d, a, full),
            d_x=_product(g, d, a_u, full),
            d_y=_product(g, d_u, a, full),
            d_z=_product(g_u, d, a, full),
            d_sigma_xy=_product(g, d, a_s, full) + _product(g, d_s, a, full),
            d_sigma_z=_product(g_s, d, a, full),
        )

    @staticmethod
    def _prepare(
        x: ArrayLike,
        y: ArrayLike,
        z: ArrayLike,
        shape: Sequence[int],
        origin: tuple[ArrayLike, ArrayLike, ArrayLike],
    ) -> tuple[list[FloatArray], tuple[int, ...], tuple[int, ...]]:
        sizes = check_shape("shape", shape, ndim=3)
        corners = [np.asarray(corner) for corner in origin]
        if len(corners) != 3 or not all(np.issubdtype(corner.dtype, np.integer) for corner in corners):
            raise ValueError(f"origin must hold three whole numbers (column, row, plane); got {origin!r}")
        named = zip(("x", "y", "z"), (x, y, z), corners, strict=True)
        places = np.broadcast_arrays(*(check_finite(name, value) - corner for name, value, corner in named))
        return [place.ravel() for place in places], places[0].shape, sizes


def _product(along: FloatArray, down: FloatArray, across: FloatArray, full: tuple[int, ...]) -> FloatArray:
    return (along[:, :, None, None] * down[:, None, :, None] * across[:, None, None, :]).reshape(full)
