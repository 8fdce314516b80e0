"""From an image to a catalogue of point sources."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from fastsbl._base.types import BoolArray, FloatArray
from fastsbl.imaging._catalogue import catalogue_of
from fastsbl.imaging._checks import (
    check_count,
    check_finite,
    check_jobs,
    check_numbers,
    check_positive,
    check_range,
)
from fastsbl.imaging.background import sky_level, smooth_background
from fastsbl.imaging.catalog import SourceCatalog
from fastsbl.imaging.detect import gain_threshold
from fastsbl.imaging.psf import PSF, check_psf
from fastsbl.imaging.refine import Scene, SourceShape
from fastsbl.imaging.search import Search
from fastsbl.imaging.tiles import search_tiles

__all__ = ["locate_sources"]

Background: TypeAlias = Literal["constant", "map"] | float | ArrayLike | Callable[[Any], Any] | None


def locate_sources(
    image: ArrayLike,
    psf: PSF | None = None,
    noise_variance: float | ArrayLike | None = None,
    *,
    background: Background = "constant",
    mask: ArrayLike | None = None,
    sigma_range: tuple[float, float] = (0.8, 4.0),
    gain: float | None = None,
    false_alarms: float = 0.01,
    max_sources: int | None = None,
    tile: int | None = 96,
    n_jobs: int = 1,
    wcs: Any = None,
    progress: Callable[[int, int], object] | None = None,
) -> SourceCatalog:
    """Find the point sources of an image, with their positions, fluxes and honest errors.

    Minimises chi-square plus a price for each source, over the number of sources and all their positions, fluxes
    and (for `psf=None`) widths, off the grid and jointly for sources that overlap. Sources are added where the
    residual asks for one, split, merged and dropped as long as that lowers the penalised chi-square. The price is
    set so that noise alone would be taken for a source `false_alarms` times per image on average.

    Parameters
    ----------
    image : array of shape (height, width)
        Any real numbers; NaN and infinite pixels are left out, and so are those a masked array masks.
    psf : PSF, optional
        A `GaussianPSF`, a `PixelPSF` or anything with their methods. None means circular Gaussian sources, each with
        a width of its own in `sigma_range`.
    noise_variance : float or array of shape (height, width), optional
        Variance of the noise, for all pixels or each one. None: learned, the same for all pixels.
    background : {"constant", "map"}, number, array, callable or None, default "constant"
        "constant" is fitted jointly with the sources. "map" is a smooth background (levels of boxes by photutils, and a
        spline through them) and a constant fitted on top of it, for frames whose sky changes over some hundred pixels;
        a callable (such as an estimator of photutils) gets the masked image and returns a number or an array. Numbers
        and arrays are subtracted as they are. None: there is none.
    mask : array of bool, optional
        True for pixels to leave out.
    sigma_range : (float, float), default (0.8, 4)
        Smallest and largest width, in pixels, for `psf=None`.
    gain : float, optional
        Electrons (or photons) per unit of the image. When given, the light itself is noisy: the variance of a pixel is
        `noise_variance` (0 if None: no read-out noise) plus model / gain, with the model of the fit.
    false_alarms : float, default 0.01
        Expected number of false sources per image, if the noise is white and the PSF right.
    max_sources : int, optional
        Most sources.
    tile : int or None, default 96
        Frames larger than one and a half times this are searched in tiles of this many pixels, each with a halo; None
        searches the frame as a whole.
    n_jobs : int, default 1
        Processes for the tiles (joblib's meaning).
    wcs : astropy.wcs.WCS, optional
        Adds `ra` and `dec` to the table.
    progress : callable, optional
        Called with (tiles done, tiles in all).

    Returns
    -------
    SourceCatalog
        `table` (empty but typed when nothing is found; `sigma_err` beside the usual columns), `model`, `residual` and
        `significance` (residual in units of the noise; NaN where masked), and in `meta` the `noise_variance`,
        `background`, `threshold` (of chi-square), and whether the search `converged`.

    Examples
    --------
    >>> from fastsbl.imaging import make_starfield
    >>> field = make_starfield(snr_db=20.0, rng=5)
    >>> catalog = locate_sources(field.image)
    >>> len(catalog)
    4
    >>> bool(abs(catalog.residual).max() < abs(field.image).max())
    True
    """
    data, valid = _read_image(image, mask)
    low, high = check_range("sigma_range", sigma_range)
    check_psf(psf)
    false_alarms = check_positive("false_alarms", false_alarms)
    if tile is not None:
        tile = check_count("tile", tile, minimum=16)
    check_jobs(n_jobs)
    most = data.size if max_sources is None else check_count("max_sources", max_sources, minimum=0)
    variance = _read_variance(noise_variance, data.shape)
    if gain is not None:
        gain = check_positive("gain", gain)
    if variance is not None:
        valid &= np.isfinite(variance)
    if not valid.any():
        raise ValueError("image must have at least one pixel that is finite and not masked; got none")
    fixed, with_level = _read_background(background, data, valid)
    data = np.where(valid, data - fixed, 0.0)

    shape = SourceShape.of(psf, (low, high))
    threshold = gain_threshold(shape, float(np.count_nonzero(valid)), false_alarms)
    level = sky_level(data, valid) if with_level else 0.0
    data = np.where(valid, data, level)
    variance_of = None
    if gain is not None:
        variance_of = LightVariance(0.0 if variance is None else variance, gain, fixed)
        weight = np.where(valid, 1.0 / variance_of(data), 0.0)
    elif variance is None:
        weight = valid.astype(np.float64)
    else:
        weight = np.where(valid, 1.0 / variance, 0.0)
    scene = Scene(data, weight, shape)
    scene.set_level(level)
    options: dict[str, Any] = {
        "threshold": threshold,
        "learn_noise": variance is None and gain is None,
        "with_level": with_level,
        "max_sources": most,
        "variance_of": variance_of,
    }
    if np.ptp(data[valid]) == 0.0:
        search = Search(scene, **{**options, "max_sources": 0})
        search.converged = True
    elif tile is None or max(data.shape) <= 1.5 * tile:
        search = Search(scene, **options)
        search.run()
        if progress is not None:
            progress(1, 1)
    else:
        search = search_tiles(scene, options, tile=tile, n_jobs=n_jobs, progress=progress)
    learned = search.variance if options["learn_noise"] else noise_variance
    if np.ptp(data[valid]) == 0.0 and options["learn_noise"]:
        learned = 0.0
    return catalogue_of(search, valid, np.asarray(fixed), learned, false_alarms, wcs)


class LightVariance:
    """Variance of pixels whose noise follows the light: read-out noise + (background + model) / gain.

    Parameters
    ----------
    read : float or ndarray
        Variance that is always there.
    gain : float
        Electrons per unit.
    fixed : float or ndarray
        Background that has been subtracted, and still shines.
    """

    def __init__(self, read: float | FloatArray, gain: float, fixed: float | FloatArray) -> None:
        self.read, self.gain, self.fixed = read, gain, fixed

    def __call__(self, model: FloatArray) -> FloatArray:
        """Variances for a model image; a pixel counts at least half an electron."""
        light = np.maximum(model + self.fixed, 0.5 / self.gain)
        return np.asarray(self.read + light / self.gain)

    def part(self, where: tuple[slice, slice]) -> LightVariance:
        """The same for a part of the frame."""
        read, fixed = (
            value[where] if isinstance(value, np.ndarray) and value.ndim == 2 else value
            for value in (self.read, self.fixed)
        )
        return LightVariance(read, self.gain, fixed)

    def plus(self, light: FloatArray) -> LightVariance:
        """The same with more light that is not part of the model."""
        return LightVariance(self.read, self.gain, self.fixed + light)


def _read_image(image: ArrayLike, mask: ArrayLike | None) -> tuple[FloatArray, BoolArray]:
    """Image as floats and the pixels that count."""
    hidden = np.ma.getmaskarray(image) if isinstance(image, np.ma.MaskedArray) else None
    raw = np.ma.getdata(image) if hidden is not None else np.asarray(image)
    if raw.ndim != 2 or raw.size == 0:
        raise ValueError(f"image must be a two-dimensional array that is not empty; got shape {raw.shape}")
    if raw.dtype.kind not in "buif":
        raise TypeError(f"image must hold real numbers; got dtype {raw.dtype}")
    data = raw.astype(np.float64)
    valid = np.isfinite(data)
    if hidden is not None:
        valid &= ~hidden
    if mask is not None:
        covered = np.asarray(mask)
        if covered.shape != data.shape or covered.dtype.kind not in "bui":
            raise ValueError(
                f"mask must be a boolean array of the image's shape {data.shape}; "
                f"got shape {covered.shape} and dtype {covered.dtype}"
            )
        valid &= ~covered.astype(np.bool_)
    return np.where(valid, data, 0.0), np.asarray(valid)


def _read_variance(noise_variance: float | ArrayLike | None, shape: tuple[int, ...]) -> FloatArray | None:
    if noise_variance is None:
        return None
    variance = check_numbers("noise_variance", noise_variance)
    if variance.shape not in ((), shape):
        raise ValueError(f"noise_variance must be a number or have the image's shape {shape}; got {variance.shape}")
    if not np.all(variance > 0):
        raise ValueError(
            "noise_variance must be above 0 in every pixel (infinite leaves a pixel out); got one that is not"
        )
    return variance


def _read_background(background: Background, data: FloatArray, valid: BoolArray) -> tuple[float | FloatArray, bool]:
    """What to subtract, and whether a constant is to be fitted."""
    if background is None:
        return 0.0, False
    if isinstance(background, str):
        if background == "constant":
            return 0.0, True
        if background == "map":
            return smooth_background(data, valid), True
        raise ValueError(
            f'background must be "constant", "map", a number, an array, a callable or None; got {background!r}'
        )
    value = background(np.ma.MaskedArray(data, ~valid)) if callable(background) else background
    fixed = check_finite("background", value)
    if fixed.shape not in ((), data.shape):
        raise ValueError(
            f"background must be a number or an array of the image's shape {data.shape}; got shape {fixed.shape}"
        )
    return (float(fixed) if fixed.ndim == 0 else fixed), False
