"""A measured point-spread function, given as an oversampled image."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.ndimage import spline_filter

from fastsbl._base.types import FloatArray
from fastsbl.imaging import _kernels
from fastsbl.imaging._checks import check_finite, check_fraction, check_shape
from fastsbl.imaging.psf import StampGradient, relative_positions

__all__ = ["PSFNormalizationWarning", "PixelPSF"]

_PAD = 16  # zeros around the image; the spline's response to the edge has fallen to 1e-9 there
_SUM_TOLERANCE = 0.01


class PSFNormalizationWarning(UserWarning):
    """A PSF image does not sum to one, so fluxes need a second look."""


class PixelPSF:
    """A point-spread function tabulated on a grid finer than the pixels.

    Each sample is the value of a detector pixel (the integral over the pixel included, an "effective PSF")
    at that offset from the source. Sample [i, j] belongs to the offset ``((j - cx) / ox, (i - cy) / oy)`` in
    pixels from the source, where (ox, oy) is the oversampling and (cx, cy) the `center`. Between samples the
    image is a cubic spline with continuous second derivatives; outside it falls to zero.

    Parameters
    ----------
    image : array of shape (rows, columns)
        The oversampled image.
    oversampling : int or (oversampling_x, oversampling_y), default 1
        Samples per pixel along x and y.
    normalize : bool, default True
        True rescales the image so that the samples sum to ``ox * oy``: one unit of flux is then the light of
        the whole image. Both usual habits, images summing to 1 and to ``ox * oy``, are taken silently; any
        other sum is rescaled with a `PSFNormalizationWarning`. False keeps the values as pixel values of a
        unit-flux source (for images whose wings are known to be missing) and warns when the samples do not
        sum to ``ox * oy`` within 1 %.
    center : (cx, cy), optional
        Place of the source in sample indices. By default ((columns - 1) / 2, (rows - 1) / 2): the middle
        sample for odd sizes, half-way between the two middle samples for even ones. Tables that start with
        the first sample of a pixel have it at ``oversampling * (pixels // 2)`` instead; a wrong centre shifts
        all positions and nothing else.

    Attributes
    ----------
    image : ndarray of shape (rows, columns)
        The samples as used, after rescaling.
    total : float
        Flux inside the image of a source of unit flux, ``image.sum() / (ox * oy)``.

    Examples
    --------
    >>> import numpy as np
    >>> offset = (np.arange(41) - 20) / 4
    >>> image = np.exp(-0.5 * (offset[:, None] ** 2 + offset**2) / 1.5**2)
    >>> psf = PixelPSF(image / image.sum(), oversampling=4)
    >>> stamp = psf.stamp(10.3, 9.8, (21, 21))
    >>> round(float(stamp.sum()), 3)
    1.0
    """

    def __init__(
        self,
        image: ArrayLike,
        oversampling: int | Sequence[int] = 1,
        *,
        normalize: bool = True,
        center: tuple[float, float] | None = None,
    ) -> None:
        samples = check_finite("image", image)
        if samples.ndim != 2 or samples.size == 0:
            raise ValueError(f"image must be a two-dimensional array that is not empty; got shape {samples.shape}")
        per_axis = (oversampling, oversampling) if np.ndim(oversampling) == 0 else oversampling
        self.oversampling = check_shape("oversampling", per_axis)  # type: ignore[arg-type]
        per_pixel = self.oversampling[0] * self.oversampling[1]
        total = float(samples.sum())
        if not total > 0:
            raise ValueError(f"image must have a positive sum; got {total:g}")
        share = total / per_pixel
        usual = abs(share - 1.0) <= _SUM_TOLERANCE
        if normalize:
            if not usual and abs(total - 1.0) > _SUM_TOLERANCE:
                wanted = "not to 1" if per_pixel == 1 else f"neither to 1 nor to {per_pixel} (samples per pixel)"
                self._warn(
                    f"the PSF image sums to {total:.6g}, {wanted}; it has been rescaled, and fluxes count "
                    f"the light inside the image"
                )
            samples = samples * (per_pixel / total)
        elif not usual:
            self._warn(
                f"the PSF image sums to {total:.6g} where a unit flux would give {per_pixel}; it is used as "
                f"it is, and the image of a source of flux 1 sums to {share:.6g} (normalize=True rescales it)"
            )
        self.normalize = normalize
        self.image: FloatArray = np.array(samples)
        self.image.setflags(write=False)
        self.total = float(self.image.sum()) / per_pixel
        rows, columns = self.image.shape
        if center is None:
            center = ((columns - 1) / 2, (rows - 1) / 2)
        place = check_finite("center", center)
        if place.shape != (2,) or not (-0.5 <= place[0] <= columns - 0.5 and -0.5 <= place[1] <= rows - 0.5):
            raise ValueError(f"center must be a place (cx, cy) inside the image; got {center!r}")
        self.center = (float(place[0]), float(place[1]))
        self._coefficients: FloatArray = spline_filter(np.pad(self.image, _PAD), order=3, mode="mirror")

    @classmethod
    def from_photutils(cls, model: Any, *, normalize: bool = True) -> PixelPSF:
        """Take over an image PSF of photutils (`ImagePSF` or the older `EPSFModel`).

        Parameters
        ----------
        model : object with `data` and `oversampling`
            The photutils model; `oversampling` is read as (y, x), `origin`, if present, as (x, y) in samples.
        normalize : bool, default True
            As in `PixelPSF`.

        Returns
        -------
        PixelPSF
            The same PSF.

        Examples
        --------
        >>> from types import SimpleNamespace
        >>> import numpy as np
        >>> model = SimpleNamespace(data=np.ones((6, 6)) / 9, oversampling=np.array([2, 2]))
        >>> PixelPSF.from_photutils(model).oversampling
        (2, 2)
        """
        over = np.broadcast_to(np.asarray(model.oversampling, dtype=np.int64), (2,))
        origin = getattr(model, "origin", None)
        center = None if origin is None else (float(origin[0]), float(origin[1]))
        return cls(model.data, (int(over[1]), int(over[0])), normalize=normalize, center=center)

    def __repr__(self) -> str:
        """Size, oversampling and centre."""
        return (
            f"PixelPSF(shape={self.image.shape}, oversampling={self.oversampling}, "
            f"center={self.center}, total={self.total:.6g})"
        )

    def radius(self, fraction: float = 0.999) -> float:
        """Radius of the circle about the source that holds `fraction` of the light of the image.

        Negative samples (noise in the wings) count with their absolute value, so that they are not cut.

        Parameters
        ----------
        fraction : float, default 0.999
            Share of the light, between 0 and 1.

        Returns
        -------
        float
            Radius in pixels, at least one.

        Examples
        --------
        >>> import numpy as np
        >>> round(PixelPSF(np.ones((9, 9)) / 81).radius(0.9), 2)
        5.0
        """
        fraction = check_fraction("fraction", fraction)
        rows, columns = np.indices(self.image.shape)
        distance = np.hypot(
            (columns - self.center[0]) / self.oversampling[0], (rows - self.center[1]) / self.oversampling[1]
        ).ravel()
        order = np.argsort(distance, kind="stable")
        light = np.cumsum(np.abs(self.image.ravel()[order]))
        where = int(np.searchsorted(light, fraction * light[-1]))
        return max(1.0, float(distance[order[min(where, order.size - 1)]]))

    def stamp(
        self,
        x: ArrayLike,
        y: ArrayLike,
        shape: Sequence[int],
        origin: tuple[ArrayLike, ArrayLike] = (0, 0),
    ) -> FloatArray:
        """Pixel values of unit-flux sources.

        Parameters
        ----------
        x, y : float or array of shape (...)
            Positions; they are broadcast against each other.
        shape : (height, width)
            Size of the box of pixels.
        origin : (x0, y0), default (0, 0)
            Column and row of the first pixel of the box, whole numbers or arrays with one per source.

        Returns
        -------
        ndarray of shape (..., height, width)
            A two-dimensional stamp for scalar positions.

        Examples
        --------
        >>> import numpy as np
        >>> PixelPSF(np.ones((3, 3)) / 9).stamp(2.0, 2.0, (5, 5))[2, 1:4].round(3)
        array([0.111, 0.111, 0.111])
        """
        return self._evaluate(x, y, shape, origin, gradient=False).value

    def stamp_and_gradient(
        self,
        x: ArrayLike,
        y: ArrayLike,
        shape: Sequence[int],
        origin: tuple[ArrayLike, ArrayLike] = (0, 0),
    ) -> StampGradient:
        """Pixel values and the analytic derivatives of the spline in x and y.

        Parameters
        ----------
        x, y, shape, origin
            As for `stamp`.

        Returns
        -------
        StampGradient
            With an empty `d_shape`.

        Examples
        --------
        >>> import numpy as np
        >>> PixelPSF(np.ones((3, 3)) / 9).stamp_and_gradient(2.0, 2.0, (5, 5)).d_x.shape
        (5, 5)
        """
        return self._evaluate(x, y, shape, origin, gradient=True)

    def _evaluate(
        self,
        x: ArrayLike,
        y: ArrayLike,
        shape: Sequence[int],
        origin: tuple[ArrayLike, ArrayLike],
        *,
        gradient: bool,
    ) -> StampGradient:
        height, width = check_shape("shape", shape)
        u, v, lead = relative_positions(x, y, origin)
        ox, oy = self.oversampling
        ux = self.center[0] + _PAD - ox * u
        uy = self.center[1] + _PAD - oy * v
        value = np.empty((u.size, height, width))
        d_x, d_y = (np.empty_like(value) if gradient else np.empty((0, 0, 0)) for _ in range(2))
        _kernels.spline_stamps(self._coefficients, ux, uy, ox, oy, gradient, value, d_x, d_y)
        full = (*lead, height, width)
        if not gradient:
            return StampGradient(value.reshape(full), d_x, d_y)
        return StampGradient(value.reshape(full), d_x.reshape(full), d_y.reshape(full))

    @staticmethod
    def _warn(message: str) -> None:
        warnings.warn(message, PSFNormalizationWarning, stacklevel=3)
