"""Queries as sparse combinations of training samples: the fits behind the classifier."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import sparse

from fastsbl._base.parallel import one_thread_each
from fastsbl._base.types import FloatArray, IndexArray
from fastsbl.dictionary import Dictionary
from fastsbl.estimators._fitting import as_dense
from fastsbl.lasso import LassoSolution, solve_weighted_lasso
from fastsbl.sbl import SBLResult, fit_sbl_batch

__all__ = ["Representation", "batches_of", "represent", "unit_rows"]

_BATCH_BYTES = 2**26


@dataclass(frozen=True)
class Representation:
    """One query as a sparse combination of training samples, without the data it came from.

    Attributes
    ----------
    support : int array of shape (s,)
        The training samples used.
    coef : array of shape (s,)
        Their weights.
    lam : float
        Noise variance of the fit.
    evidence : float
        Log evidence ``log p(y; gamma, lam)``. For a lasso, minus its objective over ``lam``: the log of the joint
        density of query and weights at its highest point, up to a constant.
    """

    support: IndexArray = field(repr=False)
    coef: FloatArray = field(repr=False)
    lam: float
    evidence: float


def unit_rows(X: Any) -> Any:
    """Scale rows to Euclidean norm 1, in a copy of the same kind and precision; zero rows stay zero."""
    if sparse.issparse(X):
        X = X.copy()  # type: ignore[attr-defined]
        X.sum_duplicates()
        counts = np.diff(X.indptr)
        rows = np.repeat(np.arange(X.shape[0]), counts)
        largest = np.zeros(X.shape[0], dtype=X.dtype)
        np.maximum.at(largest, rows, np.abs(X.data))
        X.data /= np.where(largest > 0, largest, 1)[rows]
        squares = np.bincount(rows, X.data.astype(np.float64) ** 2, X.shape[0])
        X.data /= np.sqrt(np.where(squares > 0, squares, 1.0))[rows].astype(X.dtype)
        return X
    largest = np.abs(X).max(axis=1, keepdims=True)  # first, since squares of huge or tiny numbers leave the range
    X = X / np.where(largest > 0, largest, 1)
    squares = np.einsum("ij,ij->i", X, X, dtype=np.float64)[:, None]
    X /= np.sqrt(np.where(squares > 0, squares, 1.0)).astype(X.dtype)
    return X


def batches_of(queries: Any, n_columns: int) -> Iterator[tuple[slice, FloatArray]]:
    """Cut rows into batches of targets (N, M), small enough for M answers of ``n_columns`` numbers each."""
    step = max(32, _BATCH_BYTES // (16 * n_columns))
    for low in range(0, queries.shape[0], step):
        part = slice(low, min(low + step, queries.shape[0]))
        yield part, np.ascontiguousarray(as_dense(queries[part]).T, dtype=np.float64)


def represent(
    dictionary: Dictionary,
    targets: FloatArray,
    lam: FloatArray,
    *,
    method: str = "sbl",
    n_jobs: int = 1,
    advance: Callable[[], object] | None = None,
    **options: Any,
) -> list[Representation]:
    """Fit each column of ``targets`` with its own noise variance.

    Parameters
    ----------
    dictionary : Dictionary of shape (N, n)
        The training samples.
    targets : array of shape (N, M)
        One query per column.
    lam : array of shape (M,)
        Noise variances, above 0.
    method : {"sbl", "lasso"}
        The whole fit, or its first weighted lasso alone.
    n_jobs : int
        Queries at a time.
    advance : callable, optional
        Called when a query is done.
    **options
        Of `fastsbl.fit_sbl`. A lasso uses ``init``, ``positive`` and ``screening``.

    Returns
    -------
    list of Representation
        One per column.
    """
    if method == "lasso":
        return _lassos(dictionary, targets, lam, n_jobs, advance, **options)

    def done(number: int, result: SBLResult) -> None:
        if advance is not None:
            advance()

    fits = fit_sbl_batch(dictionary, targets, lam, n_jobs=n_jobs, callback=done, **options)
    return [Representation(fit.support, fit.coef[fit.support], fit.lam, fit.evidence) for fit in fits]


def _lassos(
    dictionary: Dictionary,
    targets: FloatArray,
    lam: FloatArray,
    n_jobs: int,
    advance: Callable[[], object] | None,
    *,
    init: str = "null",
    positive: bool = False,
    screening: str | None = "holder",
    **_: Any,
) -> list[Representation]:
    """The first weighted lasso of each fit: weights 1, or those of gamma = 0."""
    norms = dictionary.column_norms()

    def solve(k: int) -> Representation:
        weights = np.where(norms > 0, 1.0, 0.0) if init == "unit" else norms / np.sqrt(lam[k])
        target = np.ascontiguousarray(targets[:, k])
        fit: LassoSolution = solve_weighted_lasso(
            dictionary, target, float(lam[k]), weights, positive=positive, screening=screening
        )
        if advance is not None:
            advance()
        evidence = -fit.primal / float(lam[k])
        return Representation(fit.support, fit.coef[fit.support], float(lam[k]), evidence)

    with ThreadPoolExecutor(n_jobs) as pool, one_thread_each():
        return list(pool.map(solve, range(targets.shape[1])))
