"""A window of an image as a mixture of many candidate sources: the posterior mean of sparse Bayesian learning."""

from __future__ import annotations

import warnings
from collections.abc import Hashable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from scipy import sparse

from fastsbl._base.types import BoolArray, FloatArray
from fastsbl._base.warnings import ConvergenceWarning
from fastsbl.dictionary import as_dictionary
from fastsbl.imaging.psf import PSF
from fastsbl.imaging.sources import SourceDictionary, grid_source_dictionary, sample_source_dictionary
from fastsbl.sbl import fit_sbl

__all__ = ["MixtureFit", "candidate_sources", "fit_mixture"]

PER_PIXEL = 13  # candidates of unknown width per pixel: 10,000 on 28 x 28, as in the paper
EXCESS = 8.0  # a candidate enters only if it explains this many times the noise variance
_STEP = 0.5  # between candidates of a known PSF
_MAX_ITER = 200
_TOL = 1e-3
_FLAT = 1e-3  # curvatures of the evidence below this share of the largest say nothing


@dataclass(frozen=True, eq=False)
class MixtureFit:
    """The mixture of one window.

    Attributes
    ----------
    image, std : ndarray of shape (height, width)
        Posterior mean and standard deviation of the clean image.
    freedom : float
        Derivative of the mean with respect to the image, summed over the pixels: with it the squared error can be
        estimated without knowing the truth (Stein).
    n_candidates : int
        Candidates in the mixture.
    """

    image: FloatArray
    std: FloatArray
    freedom: float
    n_candidates: int


@lru_cache(maxsize=2)
def candidate_sources(
    shape: tuple[int, int], psf: Any, sigma_range: tuple[float, float]
) -> tuple[SourceDictionary, Any]:
    """Candidates for a window and their `Dictionary`, kept for windows of the same shape and PSF."""
    if psf is None:
        count = PER_PIXEL * shape[0] * shape[1]
        sources = sample_source_dictionary(shape, count, sigma_range=sigma_range, rng=0)
    else:
        sources = grid_source_dictionary(shape, psf=psf, step=_STEP)
    return sources, as_dictionary(_with_level(sources.matrix))


def _with_level(matrix: Any) -> Any:
    """Two more columns: a constant, and the same downwards, since all coefficients are at least 0."""
    pixels = matrix.shape[0]
    level = np.full((pixels, 2), pixels**-0.5) * [1.0, -1.0]
    if isinstance(matrix, np.ndarray):
        return np.asfortranarray(np.hstack([matrix, level]))
    return sparse.csc_array(sparse.hstack([matrix, sparse.csc_array(level)], format="csc"))


def fit_mixture(
    image: FloatArray,
    valid: BoolArray,
    variance: FloatArray | float,
    *,
    psf: PSF | None,
    sigma_range: tuple[float, float],
    level: bool,
) -> MixtureFit:
    """Fit the mixture to a window.

    Which candidates take part, and their prior variances, are learned at `EXCESS` times the noise variance: at the
    noise variance itself dozens of narrow candidates each follow a little noise. The posterior is then the one at
    the noise variance.

    Parameters
    ----------
    image : ndarray of shape (height, width)
        The window; pixels that are not valid may hold any finite number.
    valid : ndarray of bool
        Pixels that count.
    variance : float or ndarray of shape (height, width)
        Of the noise.
    psf : PSF or None
        One known PSF, or Gaussians of unknown width.
    sigma_range : (float, float)
        Smallest and largest unknown width.
    level : bool
        Whether a constant is part of the mixture.

    Returns
    -------
    MixtureFit
        Mean, standard deviation and freedom.
    """
    make: Any = candidate_sources if isinstance(psf, Hashable) else candidate_sources.__wrapped__
    sources, dictionary = make((image.shape[0], image.shape[1]), psf, sigma_range)
    even = np.ndim(variance) == 0
    middle = float(np.median(image[valid])) if level else 0.0  # numbers near zero; the columns take the rest
    target = np.where(valid, image - middle, 0.0).ravel()
    lam = float(variance) if even else 1.0
    whole: Any = None
    if not (even and valid.all() and level):
        root = np.sqrt(np.broadcast_to(variance, image.shape)).ravel()
        scale = valid.ravel() / (1.0 if even else root)
        whole = _with_level(sources.matrix) if level else sources.matrix
        dense = isinstance(whole, np.ndarray)
        dictionary = as_dictionary(
            scale[:, None] * whole if dense else sparse.csc_array(sparse.diags_array(scale) @ whole)
        )
        target *= scale
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # of images that are no sources; their share is small
        fit = fit_sbl(dictionary, target, EXCESS * lam, positive=True, tol=_TOL, max_iter=_MAX_ITER)
    support = fit.support
    if support.size == 0:
        shape = image.shape
        return MixtureFit(np.full(shape, middle), np.zeros(shape), float(level), 0)
    columns = np.asarray(dictionary.columns(support), dtype=np.float64)
    posterior = _posterior(columns, target, fit.gamma[support], lam)
    shown = columns if whole is None else _dense(whole[:, support])
    std = np.sqrt(np.maximum(_forms(shown, posterior.covariance), _forms(shown, posterior.widened)))
    return MixtureFit(
        (shown @ posterior.mean + middle).reshape(image.shape),
        std.reshape(image.shape),
        posterior.freedom,
        int(support.size),
    )


def _dense(columns: Any) -> FloatArray:
    return np.asarray(columns if isinstance(columns, np.ndarray) else columns.toarray(), dtype=np.float64)


def _forms(rows: FloatArray, matrix: FloatArray) -> FloatArray:
    """Quadratic form of each row."""
    return np.asarray(np.einsum("ij,ij->i", rows @ matrix, rows))


@dataclass(frozen=True, eq=False)
class _Posterior:
    """Mean and covariance of the coefficients; the covariance once more with what learning their prior adds."""

    mean: FloatArray
    covariance: FloatArray
    widened: FloatArray
    freedom: float


def _posterior(columns: FloatArray, y: FloatArray, gamma: FloatArray, lam: float) -> _Posterior:
    """Posterior at noise `lam` of prior variances learned at `EXCESS * lam`.

    With B the columns times sqrt(gamma), S = c lam I + B B' and T = lam I + B B', the mean image is
    f = y - lam T^-1 y, and for fixed prior variances df/dy = B (lam I + B'B)^-1 B', which is the posterior covariance
    over lam. The prior variances solve B_i'S^-1 B_i = (B_i'S^-1 y)^2; differentiating these equations gives their
    share of df/dy. The trace of the whole is the freedom, and lam times its symmetric part the widened covariance.
    """
    root = np.sqrt(gamma)
    basis = columns * root
    gram = basis.T @ basis
    inner = basis.T @ y
    identity = np.eye(gamma.size)
    learned = np.linalg.inv(EXCESS * lam * identity + gram)
    now = np.linalg.inv(lam * identity + gram)
    q_learned, q_now = learned @ inner, now @ inner  # B'S^-1 y, B'T^-1 y
    k = gram @ learned
    slope = 2.0 * np.outer(q_learned, q_learned) * k - k * k
    values, vectors = np.linalg.eigh(0.5 * (slope + slope.T))
    safe = values > _FLAT * max(float(values[-1]), 1e-300)
    inverse = (vectors[:, safe] / values[safe]) @ vectors[:, safe].T
    extra = 2.0 * lam * now @ (q_now[:, None] * inverse * q_learned) @ learned
    widened = now + 0.5 * (extra + extra.T)
    return _Posterior(
        root * q_now,
        lam * root[:, None] * now * root,
        lam * root[:, None] * widened * root,
        float(np.sum(gram * widened)),
    )
