"""Gaussians integrated over pixels: the formulas behind `GaussianPSF`, on flat arrays.

Positions are measured from the centre of a stamp's first pixel; k counts sources.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import erf

from fastsbl._base.types import FloatArray

_SQRT2 = np.sqrt(2.0)
_SQRT2PI = np.sqrt(2.0 * np.pi)
_ELEMENTS = 2_000_000  # of the largest temporary array of the rotated integral


def pixel_factor(u: FloatArray, sigma: FloatArray, size: int) -> FloatArray:
    """Integral of a unit Gaussian over pixels 0..size-1.

    Parameters
    ----------
    u, sigma : ndarray of shape (k,)
        Centres and widths.
    size : int
        Number of pixels.

    Returns
    -------
    ndarray of shape (k, size)
        One row per source.

    Examples
    --------
    >>> import numpy as np
    >>> pixel_factor(np.array([1.0]), np.array([0.5]), 3).round(3)
    array([[0.157, 0.683, 0.157]])
    """
    edges = np.arange(size + 1) - 0.5
    steps = erf((edges - u[:, None]) / (_SQRT2 * sigma[:, None]))
    return np.asarray(0.5 * np.diff(steps, axis=1))


def pixel_factor_gradient(u: FloatArray, sigma: FloatArray, size: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Integral over pixels, and its derivatives in the centre and in the width.

    Parameters
    ----------
    u, sigma : ndarray of shape (k,)
        Centres and widths.
    size : int
        Number of pixels.

    Returns
    -------
    value, d_u, d_sigma : ndarray of shape (k, size)
        The three tables.

    Examples
    --------
    >>> import numpy as np
    >>> value, d_u, d_sigma = pixel_factor_gradient(np.array([1.0]), np.array([0.5]), 3)
    >>> bool(abs(d_u[0, 1]) < 1e-15)
    True
    """
    distance = (np.arange(size + 1) - 0.5 - u[:, None]) / sigma[:, None]
    density = np.exp(-0.5 * distance * distance) / (_SQRT2PI * sigma[:, None])
    value = 0.5 * np.diff(erf(distance / _SQRT2), axis=1)
    return value, -np.diff(density, axis=1), -np.diff(distance * density, axis=1)


@dataclass(frozen=True, eq=False)
class RotatedShape:
    """Covariance of turned Gaussians, in the form the integral uses.

    A Gaussian with covariance S is the product of a Gaussian in y of variance `s_yy` and, given y, a Gaussian
    in x with centre `slope * y` and width `narrow`.

    Parameters
    ----------
    sigma_x, sigma_y : ndarray of shape (k,)
        Widths along the two axes of the ellipse.
    theta : float
        Angle of the first axis from x towards y.
    """

    sigma_x: FloatArray
    sigma_y: FloatArray
    theta: float

    @property
    def cosine(self) -> float:
        """Cosine of theta."""
        return float(np.cos(self.theta))

    @property
    def sine(self) -> float:
        """Sine of theta."""
        return float(np.sin(self.theta))

    @property
    def s_yy(self) -> FloatArray:
        """Variance in y."""
        return np.asarray((self.sine * self.sigma_x) ** 2 + (self.cosine * self.sigma_y) ** 2)

    @property
    def s_xy(self) -> FloatArray:
        """Covariance of x and y."""
        return np.asarray(self.cosine * self.sine * (self.sigma_x**2 - self.sigma_y**2))

    @property
    def slope(self) -> FloatArray:
        """Mean of x given y = 1."""
        return np.asarray(self.s_xy / self.s_yy)

    @property
    def narrow(self) -> FloatArray:
        """Width of x given y."""
        return np.asarray(self.sigma_x * self.sigma_y / np.sqrt(self.s_yy))

    def part(self, where: slice) -> RotatedShape:
        """Shapes of some of the sources."""
        return RotatedShape(self.sigma_x[where], self.sigma_y[where], self.theta)

    def derivatives(self) -> dict[str, tuple[FloatArray, FloatArray, FloatArray]]:
        """Differentiate (s_yy, slope, narrow) in sigma_x, sigma_y and theta."""
        c, s, sx, sy = self.cosine, self.sine, self.sigma_x, self.sigma_y
        s_yy, s_xy, narrow = self.s_yy, self.s_xy, self.narrow
        in_yy = {"sigma_x": 2 * s * s * sx, "sigma_y": 2 * c * c * sy, "theta": 2 * s_xy}
        in_xy = {
            "sigma_x": 2 * c * s * sx,
            "sigma_y": -2 * c * s * sy,
            "theta": (c * c - s * s) * (sx**2 - sy**2),
        }
        in_product = {"sigma_x": sy, "sigma_y": sx, "theta": np.zeros_like(sx)}
        out = {}
        for name, yy in in_yy.items():
            d_slope = in_xy[name] / s_yy - s_xy * yy / s_yy**2
            d_narrow = in_product[name] / np.sqrt(s_yy) - 0.5 * narrow * yy / s_yy
            out[name] = (yy, d_slope, d_narrow)
        return out


def _nodes(shape: RotatedShape) -> tuple[FloatArray, FloatArray]:
    """Gauss-Legendre nodes and weights on a pixel, enough for the narrowest source."""
    narrowest = float(min(shape.sigma_x.min(), shape.sigma_y.min()))
    count = min(400, max(12, int(np.ceil(3.0 / narrowest)) + 2))
    nodes, weights = np.polynomial.legendre.leggauss(count)
    return nodes / 2.0, weights / 2.0


def _parts(total: int, per_source: int) -> list[slice]:
    size = max(1, _ELEMENTS // per_source)
    return [slice(start, min(start + size, total)) for start in range(0, total, size)]


def _rows(v: FloatArray, shape: RotatedShape, nodes: FloatArray, height: int) -> tuple[FloatArray, FloatArray]:
    """Heights of the nodes above each source, (k, height, node), and the density of y there."""
    above = (np.arange(height)[:, None] + nodes)[None] - v[:, None, None]
    s_yy = shape.s_yy[:, None, None]
    return above, np.exp(-0.5 * above**2 / s_yy) / (_SQRT2PI * np.sqrt(s_yy))


def rotated_stamps(u: FloatArray, v: FloatArray, shape: RotatedShape, box: tuple[int, int]) -> FloatArray:
    """Pixel integrals of turned Gaussians.

    Parameters
    ----------
    u, v : ndarray of shape (k,)
        Centres.
    shape : RotatedShape
        Widths and angle.
    box : (height, width)
        Size of the stamps.

    Returns
    -------
    ndarray of shape (k, height, width)
        Values for unit flux.

    Examples
    --------
    >>> import numpy as np
    >>> shape = RotatedShape(np.array([2.0]), np.array([1.0]), 0.5)
    >>> stamp = rotated_stamps(np.array([15.0]), np.array([15.0]), shape, (31, 31))
    >>> bool(abs(stamp.sum() - 1.0) < 1e-12)
    True
    """
    height, width = box
    out = np.empty((u.size, height, width))
    if u.size == 0:
        return out
    nodes, weights = _nodes(shape)
    for part in _parts(u.size, height * nodes.size * (width + 1)):
        some = shape.part(part)
        above, density = _rows(v[part], some, nodes, height)
        centre = u[part, None, None] + some.slope[:, None, None] * above
        across = pixel_factor(centre.ravel(), _per_node(some.narrow, above), width)
        out[part] = np.einsum("khq,khqw->khw", weights * density, across.reshape(*above.shape, width))
    return out


def _per_node(value: FloatArray, above: FloatArray) -> FloatArray:
    return np.broadcast_to(value[:, None, None], above.shape).ravel()


def rotated_stamps_gradient(
    u: FloatArray, v: FloatArray, shape: RotatedShape, box: tuple[int, int]
) -> tuple[FloatArray, FloatArray, FloatArray, dict[str, FloatArray]]:
    """Pixel integrals of turned Gaussians with all their derivatives.

    Parameters
    ----------
    u, v, shape, box
        As for `rotated_stamps`.

    Returns
    -------
    value, d_x, d_y : ndarray of shape (k, height, width)
        Values, and slopes in the centre.
    d_shape : dict of ndarray
        Slopes in `sigma_x`, `sigma_y` and `theta`.

    Examples
    --------
    >>> import numpy as np
    >>> shape = RotatedShape(np.array([2.0]), np.array([1.0]), 0.5)
    >>> *_, d_shape = rotated_stamps_gradient(np.array([3.0]), np.array([3.0]), shape, (7, 7))
    >>> sorted(d_shape)
    ['sigma_x', 'sigma_y', 'theta']
    """
    height, width = box
    value, d_x, d_y, d_yy, d_slope, d_narrow = (np.empty((u.size, height, width)) for _ in range(6))
    if u.size == 0:
        return value, d_x, d_y, {name: d_yy for name in ("sigma_x", "sigma_y", "theta")}
    nodes, weights = _nodes(shape)
    for part in _parts(u.size, height * nodes.size * (width + 1)):
        some = shape.part(part)
        above, density = _rows(v[part], some, nodes, height)
        s_yy = some.s_yy[:, None, None]
        centre = u[part, None, None] + some.slope[:, None, None] * above
        tables = pixel_factor_gradient(centre.ravel(), _per_node(some.narrow, above), width)
        across, across_u, across_s = (table.reshape(*above.shape, width) for table in tables)
        mass = weights * density
        value[part] = np.einsum("khq,khqw->khw", mass, across)
        d_x[part] = np.einsum("khq,khqw->khw", mass, across_u)
        d_narrow[part] = np.einsum("khq,khqw->khw", mass, across_s)
        d_slope[part] = np.einsum("khq,khqw->khw", mass * above, across_u)
        d_yy[part] = np.einsum("khq,khqw->khw", mass * (above**2 / s_yy - 1.0) / (2.0 * s_yy), across)
        # In y the derivative of the integral is the difference of its integrand at the two edges.
        edge_above, edge_density = _rows(v[part], some, np.array([-0.5]), height + 1)
        edge_centre = u[part, None, None] + some.slope[:, None, None] * edge_above
        line = pixel_factor(edge_centre.ravel(), _per_node(some.narrow, edge_above), width)
        d_y[part] = -np.diff(edge_density * line.reshape(*edge_above.shape[:2], width), axis=1)
    chain = shape.derivatives()
    d_shape = {
        name: yy[:, None, None] * d_yy + sl[:, None, None] * d_slope + na[:, None, None] * d_narrow
        for name, (yy, sl, na) in chain.items()
    }
    return value, d_x, d_y, d_shape
