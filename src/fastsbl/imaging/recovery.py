"""Injection and recovery: put known sources into an image, and see which come back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fastsbl._base.brief import Brief
from fastsbl._base.types import BoolArray, FloatArray, IntArray
from fastsbl.imaging._checks import check_count, check_positive, check_range
from fastsbl.imaging.localize import _read_image, locate_sources
from fastsbl.imaging.matching import match_sources, near_pairs
from fastsbl.imaging.psf import PSF, GaussianPSF
from fastsbl.imaging.render import render_sources

__all__ = ["InjectionRecovery", "RecoveryCurve", "injection_recovery"]


@dataclass(frozen=True, eq=False, repr=False)
class RecoveryCurve(Brief):
    """How many injected sources came back, in bins of a property.

    Attributes
    ----------
    edges : ndarray of shape (b + 1,)
        Edges of the bins; the last bin includes its upper edge.
    n : ndarray of shape (b,)
        Injected sources.
    completeness : ndarray of shape (b,)
        Share that came back; NaN in empty bins.
    low, high : ndarray of shape (b,)
        Wilson's 95 % interval of the share.
    """

    edges: FloatArray
    n: IntArray
    completeness: FloatArray
    low: FloatArray
    high: FloatArray


@dataclass(frozen=True, eq=False, repr=False)
class InjectionRecovery(Brief):
    """Injected sources, and what was found in their places.

    Attributes
    ----------
    x, y, flux : ndarray of shape (n,)
        What was put in.
    separation : ndarray of shape (n,)
        Distance to the nearest other source of the image, found before or injected with it.
    recovered : ndarray of bool, shape (n,)
        Whether a new source is found within the tolerance.
    x_fit, y_fit, flux_fit, x_err, y_err, flux_err : ndarray of shape (n,)
        What was found there; NaN where nothing was.
    n_false : int
        New sources that are not injected ones, in all rounds.
    n_rounds : int
        Images searched.
    tolerance : float
        Largest distance that counts as found.

    Examples
    --------
    >>> from fastsbl.imaging import GaussianPSF, make_starfield
    >>> field = make_starfield((40, 40), 3, psf=GaussianPSF(1.3), flux_range=(50, 60), noise_variance=1.0, rng=1)
    >>> test = injection_recovery(field.image, GaussianPSF(1.3), flux_range=(5.0, 60.0), n_sources=12, rng=2)
    >>> test.curve("flux", [5.0, 20.0, 60.0]).n.sum()
    np.int64(12)
    """

    x: FloatArray
    y: FloatArray
    flux: FloatArray
    separation: FloatArray
    recovered: BoolArray
    x_fit: FloatArray
    y_fit: FloatArray
    flux_fit: FloatArray
    x_err: FloatArray
    y_err: FloatArray
    flux_err: FloatArray
    n_false: int
    n_rounds: int
    tolerance: float

    @property
    def completeness(self) -> float:
        """Share of the injected sources that came back."""
        return float(self.recovered.mean())

    @property
    def purity(self) -> float:
        """Share of the new sources that were injected; NaN when there is no new source."""
        found = int(self.recovered.sum()) + self.n_false
        return float(self.recovered.sum() / found) if found else float("nan")

    def curve(self, quantity: str, edges: ArrayLike) -> RecoveryCurve:
        """Completeness against flux or separation.

        Parameters
        ----------
        quantity : {"flux", "separation"}
            What the bins are of.
        edges : array of shape (b + 1,)
            Increasing edges; infinity is allowed at the ends.

        Returns
        -------
        RecoveryCurve
            Shares with their intervals.
        """
        if quantity not in ("flux", "separation"):
            raise ValueError(f'quantity must be "flux" or "separation"; got {quantity!r}')
        bins = np.asarray(edges, dtype=np.float64)
        if bins.ndim != 1 or bins.size < 2 or not np.all(np.diff(bins) > 0):
            raise ValueError("edges must be at least two increasing numbers")
        values = self.flux if quantity == "flux" else self.separation
        where = np.searchsorted(bins, values, side="right") - 1
        where[values == bins[-1]] = bins.size - 2
        inside = (where >= 0) & (where < bins.size - 1)
        n = np.bincount(where[inside], minlength=bins.size - 1)
        hits = np.bincount(where[inside & self.recovered], minlength=bins.size - 1)
        share = np.divide(hits, n, out=np.full(n.shape, np.nan), where=n > 0)
        low, high = _wilson(share, n)
        return RecoveryCurve(bins, n, share, low, high)


def injection_recovery(
    image: ArrayLike,
    psf: PSF | None = None,
    noise_variance: float | ArrayLike | None = None,
    *,
    flux_range: tuple[float, float],
    n_sources: int = 100,
    per_round: int | None = None,
    sigma_range: tuple[float, float] = (1.0, 3.0),
    tolerance: float | None = None,
    gain: float | None = None,
    locate: Callable[[FloatArray], Any] | None = None,
    rng: np.random.Generator | int | None = None,
    progress: Callable[[int, int], object] | None = None,
    **options: Any,
) -> InjectionRecovery:
    """Inject sources of known place and flux into an image, search again, and count which come back.

    The image is searched once as it is. Then a few sources at a time are added at random places, so that the crowding
    stays what it is, and the image is searched again. Found and known sources, old ones and injected ones together,
    are matched one to one: an injected source that lands on an old one and is not told from it is lost.

    Parameters
    ----------
    image : array of shape (height, width)
        The image.
    psf, noise_variance
        As in `locate_sources`.
    flux_range : (float, float)
        Smallest and largest flux; drawn evenly in the logarithm.
    n_sources : int, default 100
        Sources to inject in all.
    per_round : int, optional
        Sources injected at a time; by default one per 400 pixels, and at least one.
    sigma_range : (float, float), default (1, 3)
        Widths of injected sources when `psf` is None; drawn evenly.
    tolerance : float, optional
        Largest distance that counts as found; by default the PSF's radius of half the flux, 1.5 without a PSF.
    gain : float, optional
        Electrons per unit of the image: injected light then brings its own Poisson noise, and the search knows.
    locate : callable, optional
        Another finder: gets an image, returns a `SourceCatalog` or an array of shape (n, 2) or (n, 3) with x, y and
        flux. By default `locate_sources` with the arguments given here.
    rng : Generator or int, optional
        Source of randomness, or its seed.
    progress : callable, optional
        Called with (rounds done, rounds in all).
    **options
        Passed on to `locate_sources`.

    Returns
    -------
    InjectionRecovery
        One row per injected source; `curve` gives completeness against flux or separation.

    Examples
    --------
    >>> from fastsbl.imaging import GaussianPSF, make_starfield
    >>> psf = GaussianPSF(1.2)
    >>> field = make_starfield((32, 32), 2, psf=psf, flux_range=(80, 90), noise_variance=1.0, rng=4)
    >>> injection_recovery(field.image, psf, 1.0, flux_range=(60.0, 90.0), n_sources=4, rng=0).completeness
    1.0
    """
    data, valid = _read_image(image, options.get("mask"))
    low, high = check_range("flux_range", flux_range)
    narrow, wide = check_range("sigma_range", sigma_range)
    total = check_count("n_sources", n_sources)
    each = max(1, data.size // 400) if per_round is None else check_count("per_round", per_round)
    if tolerance is None:
        tolerance = 1.5 if psf is None else psf.radius(0.5)
    tolerance = check_positive("tolerance", tolerance)
    if gain is not None:
        gain = check_positive("gain", gain)
        options["gain"] = gain
    if locate is not None and options.keys() - {"gain", "mask"}:
        raise ValueError(
            f"options of locate_sources cannot be given with a finder of your own; got {', '.join(sorted(options))}"
        )
    generator = np.random.default_rng(rng)

    def search(frame: FloatArray) -> FloatArray:
        found = locate(frame) if locate is not None else locate_sources(frame, psf, noise_variance, **options)
        return _as_rows(found)

    plain = np.where(valid, data, np.nan)
    before = search(plain)
    rows, truths, distances, n_false = [], [], [], 0
    rounds = -(-total // each)
    for number in range(rounds):
        count = min(each, total - number * each)
        truth = np.column_stack(
            [
                generator.uniform(-0.5, data.shape[1] - 0.5, count),
                generator.uniform(-0.5, data.shape[0] - 0.5, count),
                np.exp(generator.uniform(np.log(low), np.log(high), count)),
            ]
        )
        sigma = generator.uniform(narrow, wide, count) if psf is None else None
        light = render_sources(data.shape, *truth.T, psf=GaussianPSF(1.0) if psf is None else psf, sigma=sigma)
        if gain is not None:
            light = generator.poisson(np.maximum(light, 0.0) * gain) / gain
        after = search(plain + light)
        known = np.vstack([before[:, :2], truth[:, :2]])
        match = match_sources(after[:, :2], known, tolerance)
        which = match.pairs[:, 1] - before.shape[0]
        found = np.full((count, 6), np.nan)
        found[which[which >= 0]] = after[match.pairs[which >= 0, 0]]
        n_false += max(0, after.shape[0] - match.n_matched)
        rows.append(found)
        truths.append(truth)
        distances.append(_to_others(known, before.shape[0], max(data.shape)))
        if progress is not None:
            progress(number + 1, rounds)
    truth, found = np.vstack(truths), np.vstack(rows)
    names = ("x_fit", "y_fit", "flux_fit", "x_err", "y_err", "flux_err")
    return InjectionRecovery(
        x=truth[:, 0],
        y=truth[:, 1],
        flux=truth[:, 2],
        separation=np.concatenate(distances),
        recovered=~np.isnan(found[:, 0]),
        n_false=n_false,
        n_rounds=rounds,
        tolerance=tolerance,
        **dict(zip(names, found.T, strict=True)),
    )


def _as_rows(found: Any) -> FloatArray:
    """Positions, fluxes and errors as rows (x, y, flux, x_err, y_err, flux_err)."""
    if hasattr(found, "table"):
        names = ("x_fit", "y_fit", "flux_fit", "x_err", "y_err", "flux_err")
        return np.column_stack([np.asarray(found.table[name], dtype=np.float64) for name in names])
    array = np.asarray(found, dtype=np.float64)
    if array.size == 0:
        return np.empty((0, 6))
    if array.ndim != 2 or array.shape[1] not in (2, 3):
        raise ValueError(
            f"locate must return a SourceCatalog or an array of shape (n, 2) or (n, 3); got shape {array.shape}"
        )
    return np.hstack([array, np.full((array.shape[0], 6 - array.shape[1]), np.nan)])


def _to_others(points: FloatArray, first: int, reach: float) -> FloatArray:
    """Distance of the points from `first` on to the nearest other one."""
    i, j, distance = near_pairs(points[first:], points, 2.0 * reach)
    other = j != i + first
    out = np.full(points.shape[0] - first, np.inf)
    np.minimum.at(out, i[other], distance[other])
    return out


def _wilson(share: FloatArray, n: IntArray) -> tuple[FloatArray, FloatArray]:
    z2 = 1.959964**2
    count = np.where(n > 0, n, np.nan)
    centre = (share + z2 / (2 * count)) / (1 + z2 / count)
    half = np.sqrt(z2 * (share * (1 - share) / count + z2 / (4 * count**2))) / (1 + z2 / count)
    return np.maximum(centre - half, 0.0), np.minimum(centre + half, 1.0)
