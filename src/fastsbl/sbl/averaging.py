"""Averages over supports: which features belong to the model is not known for sure either."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from fastsbl._base.types import Array, FloatArray, IndexArray
from fastsbl.dictionary import Dictionary, as_dictionary
from fastsbl.lasso.columns import hold_columns
from fastsbl.sbl import _draw_kernels

if TYPE_CHECKING:
    from fastsbl.sbl.result import SBLResult

__all__ = ["CLOSE", "SupportAverage", "average_supports"]

_CANDIDATES = 100  # features that may join, beside those of supports that competed
CLOSE = 10.0  # a score this far above the best: odds of exp(5)
_SKIPPED = 100
_CHUNK = 2**17  # numbers in the columns that are taken out at a time, or 16 columns
_LARGEST_SHARE = 0.75  # of the samples


@dataclass(frozen=True)
class SupportAverage:
    """Draws of supports with their coefficients, and what they are on average.

    Attributes
    ----------
    index : int array of shape (c,)
        Features that could be in a support; all others are zero.
    probability : array of shape (c,)
        How probable each is to count, after seeing y.
    draws : array of shape (m, c) or (m, c, L)
        Coefficients of these features; exactly zero where a feature is out.
    lam : float
        Mean noise variance.
    n_features : int
        All features.
    """

    index: IndexArray
    probability: FloatArray = field(repr=False)
    draws: FloatArray = field(repr=False)
    lam: float
    n_features: int

    @property
    def coef(self) -> FloatArray:
        """Mean coefficients of shape (n,) or (n, L): what predicts best. Few of those that could count are zero."""
        out = np.zeros((self.n_features, *self.draws.shape[2:]))
        out[self.index] = self.draws.mean(axis=0)
        return out

    def spread_about(self, coef: Array) -> FloatArray:
        """Mean squares and products, (c, c) or (L, c, c), of how far draws are from given coefficients."""
        away = self.draws - np.asarray(coef)[self.index]
        if away.ndim == 2:
            return np.asarray(away.T @ away / away.shape[0])
        return np.asarray(np.einsum("mik,mjk->kij", away, away, optimize=True) / away.shape[0])

    def predict(self, X: Any) -> tuple[FloatArray, FloatArray]:
        """Predictive mean and variance (noise included) for new rows of the dictionary."""
        rows = as_dictionary(X)
        if rows.n_features != self.n_features:
            raise ValueError(f"X must have {self.n_features} columns, got {rows.n_features}")
        answers = np.tensordot(rows.columns(self.index), self.draws, (1, 1))  # (rows, m, ...)
        return answers.mean(axis=1), self.lam + answers.var(axis=1)


def average_supports(
    result: SBLResult,
    phi: Dictionary,
    y: Array,
    near: list[IndexArray],
    *,
    positive: bool,
    learn: bool,
    n_draws: int,
    rng: Any,
) -> SupportAverage:
    """Draw supports near a fit; ``near`` are others that came close. See `SBLResult.average`."""
    single = y.ndim == 1
    norms = phi.column_norms()
    products = phi.correlate(result.residual)
    sizes = np.abs(products) if single else np.linalg.norm(products, axis=1)
    sizes = np.divide(sizes, norms, out=np.zeros(norms.size), where=norms > 0)
    index = np.unique(np.concatenate([result.support, *near, np.argsort(-sizes, kind="stable")[:_CANDIDATES]]))
    index = index[norms[index] > 0]
    if index.size == 0:
        empty = np.zeros((n_draws, 0, *y.shape[1:]))
        return SupportAverage(index, np.zeros(0), empty, result.lam, norms.size)
    scale = np.sqrt(result.lam)
    lengths = norms[index]
    theta = np.ascontiguousarray(result.coef[index].T * lengths / scale).T.reshape(index.size, -1).copy()
    left = np.ascontiguousarray((products[index].T / lengths / scale).T.reshape(index.size, -1))
    size, n_samples = result.support.size, result.n_effective
    expected = (float(np.sum(theta**2)) / theta.shape[1] + n_samples) / (size + 1)
    most = int(max(size, min(2 * size + 10, _LARGEST_SHARE * n_samples)))
    draws = np.empty((n_draws, *theta.shape))
    noises, shares = np.empty(n_draws), np.zeros(index.size)
    squared = float(np.vdot(result.residual, result.residual).real) / result.lam
    _draw_kernels.draw_supports(
        _inner_products(phi, index, lengths), left, theta, squared, n_samples, float(np.count_nonzero(norms)), learn,
        expected, most, positive, np.random.default_rng(rng), _SKIPPED, draws, noises, shares,
    )  # fmt: skip
    draws *= scale / lengths[:, None]
    return SupportAverage(
        index, shares, draws[:, :, 0] if single else draws, float(noises.mean()) * result.lam, norms.size
    )


def _inner_products(phi: Dictionary, index: IndexArray, lengths: FloatArray) -> FloatArray:
    """Products of columns scaled to norm 1, (c, c), with few of the columns in hand at a time."""
    if phi.is_sparse or phi.shift is not None:
        held = hold_columns(phi)
        held.add(index)
        out = held.gram_block(0, index.size)
    else:
        out = np.empty((index.size, index.size))
        step = max(16, _CHUNK // phi.n_samples)
        for low in range(0, index.size, step):
            part = slice(low, low + step)
            out[:, part] = phi.correlate(phi.columns(index[part]), index)
    out /= lengths
    out /= lengths[:, None]
    return 0.5 * (out + out.T)
