"""Simulated star fields with known truth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fastsbl._base.types import FloatArray
from fastsbl.imaging._checks import check_count, check_positive, check_range, check_shape, optional_import
from fastsbl.imaging.psf import PSF, GaussianPSF
from fastsbl.imaging.render import render_sources

__all__ = ["StarField", "make_starfield"]


@dataclass(frozen=True, eq=False, repr=False)
class StarField:
    """A simulated image and everything that went into it.

    Attributes
    ----------
    image : ndarray of shape (height, width)
        What a detector would record.
    clean : ndarray of shape (height, width)
        The same without noise: sources and background.
    x, y : ndarray of shape (n,)
        True positions; pixel centres at integers from 0, x = column.
    sigma : ndarray of shape (n,)
        True widths, NaN where a PSF was given.
    flux, weight : ndarray of shape (n,)
        True fluxes, and the peak-normalised weights they come from (NaN when drawn as fluxes).
    noise_variance : float or ndarray of shape (height, width)
        Variance of the noise in each pixel, one number unless the noise is Poisson.
    background : float
        The constant under the sources.

    Examples
    --------
    >>> field = make_starfield(n_sources=3, snr_db=10.0, rng=0)
    >>> field.image.shape, field.xy.shape
    ((28, 28), (3, 2))
    """

    image: FloatArray
    clean: FloatArray
    x: FloatArray
    y: FloatArray
    sigma: FloatArray
    flux: FloatArray
    weight: FloatArray
    noise_variance: float | FloatArray
    background: float

    def __repr__(self) -> str:
        """Show the size, not the pixels."""
        height, width = self.image.shape
        return f"StarField({self.x.size} sources in {height} x {width} pixels)"

    @property
    def xy(self) -> FloatArray:
        """True positions as an array of shape (n, 2)."""
        return np.column_stack([self.x, self.y])

    @property
    def table(self) -> Any:
        """The truth as an astropy QTable with columns `id x y sigma flux weight`.

        Needs astropy (``pip install "fastsbl[apps]"``); the arrays of this object do not.
        """
        table = optional_import("astropy.table", "A table of sources").QTable()
        table["id"] = np.arange(1, self.x.size + 1)
        for name in ("x", "y", "sigma", "flux", "weight"):
            table[name] = getattr(self, name).copy()
        table.meta["coordinates"] = "pixel centres at integers from 0, x = column"
        return table


def make_starfield(
    shape: Sequence[int] = (28, 28),
    n_sources: int = 4,
    *,
    sigma_range: tuple[float, float] = (1.0, 3.0),
    weight_range: tuple[float, float] = (0.5, 1.0),
    flux_range: tuple[float, float] | None = None,
    position_margin: float = 2.0,
    psf: PSF | None = None,
    background: float = 0.0,
    poisson: bool = False,
    snr_db: float | None = None,
    noise_variance: float | None = None,
    rng: np.random.Generator | int | None = None,
) -> StarField:
    """Simulate point sources; the defaults are the setting of the paper's experiments.

    Positions are uniform on [margin, size - 1 - margin] (2 to 25 on 28 pixels, counted from 0), widths on
    `sigma_range`. A source of weight w has the value w in its pixel when it sits on a pixel centre.

    Parameters
    ----------
    shape : (height, width), default (28, 28)
        Size of the image.
    n_sources : int, default 4
        Number of sources; 0 gives an empty field.
    sigma_range : (float, float), default (1, 3)
        Smallest and largest width of the Gaussian sources; not used with `psf`.
    weight_range : (float, float), default (0.5, 1)
        Smallest and largest weight.
    flux_range : (float, float), optional
        Draw the fluxes themselves uniformly from here, instead of weights.
    position_margin : float, default 2
        Distance of the sources from the outermost pixel centres; down to -0.5, the frame's edge.
    psf : PSF, optional
        One PSF for all sources, instead of Gaussians of different widths.
    background : float, default 0
        A constant added everywhere.
    poisson : bool, default False
        Replace the clean image by Poisson counts; `noise_variance` or `snr_db` then adds Gaussian read-out
        noise on top.
    snr_db : float, optional
        Noise level as 10 log10(mean f^2 / variance), with f the sources alone.
    noise_variance : float, optional
        Noise level as the variance itself. Without either there is no Gaussian noise.
    rng : Generator or int, optional
        Source of randomness, or its seed.

    Returns
    -------
    StarField
        Image, clean image, truth and noise variance.

    Examples
    --------
    >>> field = make_starfield(snr_db=20.0, rng=3)
    >>> f = field.clean
    >>> round(float(10 * np.log10((f**2).mean() / field.noise_variance)), 6)
    20.0
    """
    height, width = check_shape("shape", shape)
    n_sources = check_count("n_sources", n_sources, minimum=0)
    low, high = check_range("sigma_range", sigma_range)
    if snr_db is not None and noise_variance is not None:
        raise ValueError("give at most one of snr_db and noise_variance; got both")
    margin = float(position_margin)
    if not -0.5 <= margin <= (min(height, width) - 1) / 2:
        raise ValueError(
            f"position_margin must lie between -0.5 and half the smaller side, "
            f"{(min(height, width) - 1) / 2}; got {position_margin!r}"
        )
    generator = np.random.default_rng(rng)
    x = generator.uniform(margin, width - 1 - margin, n_sources)
    y = generator.uniform(margin, height - 1 - margin, n_sources)
    sigma = np.full(n_sources, np.nan) if psf is not None else generator.uniform(low, high, n_sources)
    gaussian = GaussianPSF(1.0)
    if flux_range is not None:
        flux = generator.uniform(*check_range("flux_range", flux_range), n_sources)
        weight = np.full(n_sources, np.nan)
    else:
        weight = generator.uniform(*check_range("weight_range", weight_range), n_sources)
        centre = np.zeros(n_sources)
        if psf is None:
            peak = gaussian.stamp(centre, centre, (1, 1), sigma=sigma)[:, 0, 0]
        else:
            peak = psf.stamp(centre, centre, (1, 1))[:, 0, 0]
        flux = weight / peak
    sources = render_sources(
        (height, width),
        x,
        y,
        flux,
        psf=gaussian if psf is None else psf,
        sigma=sigma if psf is None else None,
    )
    clean = sources + float(background)

    variance = _noise_level(sources, snr_db, noise_variance)
    image = clean.copy()
    total: float | FloatArray = variance
    if poisson:
        if clean.min() < 0:
            raise ValueError(f"poisson needs a clean image without negative pixels; got {clean.min():g}")
        image = generator.poisson(clean).astype(np.float64)
        total = clean + variance
    if variance > 0:
        image = image + generator.normal(0.0, np.sqrt(variance), clean.shape)
    return StarField(image, clean, x, y, sigma, flux, weight, total, float(background))


def _noise_level(sources: FloatArray, snr_db: float | None, noise_variance: float | None) -> float:
    """Variance of the Gaussian noise."""
    if noise_variance is not None:
        return check_positive("noise_variance", noise_variance, allow_zero=True)
    if snr_db is None:
        return 0.0
    power = float(np.mean(sources**2))
    if not np.isfinite(snr_db):
        raise ValueError(f"snr_db must be a finite number; got {snr_db!r}")
    if power == 0.0:
        raise ValueError("snr_db needs at least one source; with n_sources=0 give noise_variance")
    return float(power / 10.0 ** (snr_db / 10.0))
