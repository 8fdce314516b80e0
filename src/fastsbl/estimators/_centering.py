"""Centred, weighted rows without a centred copy: the data as a dictionary whose columns have mean zero."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import sparse

from fastsbl._base.types import Array, BoolArray, FloatArray, IndexArray
from fastsbl.dictionary import DenseDictionary, Dictionary, as_dictionary

__all__ = ["CenteredDictionary", "Design", "column_moments"]

_TILE = 1024
_SMALL = 2**17  # numbers in dense data that are copied, since calls then cost more than reading
_CONSTANT = 10 * np.finfo(np.float64).eps  # a spread below this share of the mean is rounding
_LARGE_SHIFT = 100.0  # mean over spread from which products of sparse columns are made after centring, not before
_LARGE_OFFSET = {4: 1e2, 8: 1e5}  # mean over spread from which a dense column is centred in a copy, by item size


class CenteredDictionary(Dictionary):
    """``diag(roots) (X - 1 means')`` seen through the dictionary of X, which is neither copied nor made dense.

    Parameters
    ----------
    base : Dictionary of shape (N, n)
        X.
    means : array of shape (n,) or None
        What is taken from each column.
    roots : array of shape (N,) or None
        Factor of each row: the square roots of sample weights.
    norms : array of shape (n,)
        Norms of the centred and weighted columns. Columns of norm zero are constant and read as zero.
    """

    def __init__(self, base: Dictionary, means: FloatArray | None, roots: FloatArray | None, norms: FloatArray) -> None:
        super().__init__(base.shape, base.dtype)
        self.cheap_columns = base.cheap_columns
        self._base = base
        self._means = means
        self._roots = roots
        self._squares = norms**2
        self._constant: BoolArray = norms == 0.0
        self._any_constant = bool(self._constant.any())
        self._amplified = 1.0
        if means is not None:
            length = np.sqrt(base.n_samples if roots is None else float(roots @ roots))
            offsets = np.abs(means) * length / np.where(self._constant, np.inf, norms)
            self._amplified += float(offsets.max(initial=0.0))
        self.is_sparse = base.is_sparse and means is None
        if base.is_sparse and means is not None and self._amplified < _LARGE_SHIFT:
            self.shift = means, np.ones(base.n_samples) if roots is None else roots

    @property
    def eps(self) -> float:
        """Rounding unit of the products, which cancel where a mean is large beside its column's spread."""
        return self._base.eps * self._amplified

    @property
    def column_size(self) -> float:
        """Mean count of stored values in a column."""
        return self._base.column_size

    def _correlate(self, R: Array) -> Array:
        R = self._weighted(R)
        return self._centred(self._base.correlate(R), R, slice(None))

    def _correlate_some(self, R: Array, index: IndexArray) -> Array:
        R = self._weighted(R)
        return self._centred(self._base.correlate(R, index), R, index)

    def sparse_columns(self, index: IndexArray) -> tuple[FloatArray, Array, Array]:
        """Stored values, weighted, row numbers and starts of these columns, before they are centred."""
        values, rows, starts = self._base.sparse_columns(index)
        return values if self._roots is None else values * self._roots[rows], rows, starts

    def _columns(self, index: IndexArray) -> Array:
        rows = np.require(self._base.columns(index).T, requirements="W")
        if self._means is not None:
            rows -= self._means[index, None]
        if self._roots is not None:
            rows *= self._roots
        if self._any_constant:
            rows[self._constant[index]] = 0.0
        return rows.T

    def _squared_norms(self) -> FloatArray:
        return self._squares

    def _squared_norms_and_correlations(self, vector: Array) -> tuple[FloatArray, Array]:
        return self._squares, self._correlate(vector)

    def _weighted(self, R: Array) -> Array:
        if self._roots is None:
            return R
        return np.asarray((self._roots * R.T).T)

    def _centred(self, products: Array, R: Array, index: Any) -> Array:
        if self._means is not None:
            sums = R.sum(axis=0)
            if products.ndim == 1:
                products -= self._means[index] * sums
            else:
                for k in range(sums.size):
                    products[:, k] -= self._means[index] * sums[k]
        if self._any_constant:
            products[self._constant[index]] = 0.0
        return products


class Design:
    """X and y as the fits see them: rows scaled by the roots of their weights, columns and target centred.

    Parameters
    ----------
    base : Dictionary of shape (N, n)
        X, as `as_dictionary` makes it.
    X : array, CSR or CSC matrix of shape (N, n)
        The same numbers, as validated.
    y : array of shape (N,) or (N, L)
        Target, float64.
    sample_weight : array of shape (N,) or None
        Frequency weights: how often each row counts. Zero takes a row out.
    fit_intercept : bool
        Whether an intercept, under a flat prior, is part of the model.

    Attributes
    ----------
    dictionary : Dictionary
        Centred and weighted X.
    target : array of shape (N,) or (N, L)
        Centred and weighted y; exactly zero where y is constant.
    means : array of shape (n,)
        Weighted means of the columns (zeros without an intercept).
    target_mean : float or array of shape (L,)
        Weighted mean of y (zero without an intercept).
    n_rows : float
        How many rows the data stand for: the sum of the weights.
    n_effective : float
        What is left of ``n_rows`` for features and noise: one less with an intercept.
    magnitude : float
        The largest |y|.
    """

    def __init__(
        self, base: Dictionary, X: Any, y: FloatArray, sample_weight: FloatArray | None, *, fit_intercept: bool
    ) -> None:
        n_samples, n_features = X.shape
        self.n_rows = float(n_samples) if sample_weight is None else float(sample_weight.sum())
        self.n_effective = self.n_rows - 1.0 if fit_intercept else self.n_rows
        if self.n_effective <= 0:
            raise ValueError(
                f"sample_weight must sum to more than {1 if fit_intercept else 0}, since each weight says how often "
                f"its row counts, got a sum of {self.n_rows:.6g}"
            )
        self.magnitude = float(np.abs(y).max())
        roots = None if sample_weight is None else np.sqrt(sample_weight)
        self.means = np.zeros(n_features)
        self.target_mean: Any = 0.0 if y.ndim == 1 else np.zeros(y.shape[1])
        if fit_intercept or roots is not None:
            means, norms = column_moments(X, sample_weight, centre=fit_intercept)
            self.dictionary = _centred(base, X, means if fit_intercept else None, roots, norms)
            self.means = means
        else:
            self.dictionary = base
        target = y
        if fit_intercept:
            self.target_mean = np.average(y, axis=0, weights=sample_weight)
            used = slice(None) if sample_weight is None else sample_weight > 0
            target = y - self.target_mean
            rounding = 4 * np.finfo(np.float64).eps * np.abs(y[used]).max(axis=0)
            target = np.where(np.abs(target[used]).max(axis=0) <= rounding, 0.0, target)
        self.target: Array = target if roots is None else (roots * target.T).T


def _centred(
    base: Dictionary, X: Any, means: FloatArray | None, roots: FloatArray | None, norms: FloatArray
) -> Dictionary:
    """Centre implicitly, or in a copy where products with the data as they are would lose their digits."""
    implicit = CenteredDictionary(base, means, roots, norms)
    if not isinstance(base, DenseDictionary):
        return implicit
    small = X.size <= _SMALL
    if not small and (means is None or implicit.eps <= _LARGE_OFFSET[X.dtype.itemsize] * base.eps):
        return implicit
    copy = np.empty(X.shape, dtype=X.dtype, order="F")
    step = max(1, _TILE**2 // X.shape[0])
    for low in range(0, X.shape[1], step):
        part = slice(low, low + step)
        copy[:, part] = X[:, part] if means is None else X[:, part] - means[part]
        if small and roots is not None:
            copy[:, part] *= roots[:, None].astype(X.dtype)
    if small:
        copy[:, norms == 0.0] = 0.0
        return as_dictionary(copy)
    return CenteredDictionary(as_dictionary(copy), None, roots, norms)


def column_moments(X: Any, sample_weight: FloatArray | None, *, centre: bool) -> tuple[FloatArray, FloatArray]:
    """Weighted means (zeros unless ``centre``) and norms of the centred, weighted columns, in float64.

    The norms are sums of squares of differences, so nothing cancels; a column that is constant up to rounding
    has norm 0. Sparse X is read through its stored values alone.
    """
    weights = np.ones(X.shape[0]) if sample_weight is None else sample_weight
    total = float(weights.sum())
    moments = _sparse_moments if sparse.issparse(X) else _dense_moments
    means, squares = moments(X, weights, total, centre)
    if centre:
        squares[squares <= (_CONSTANT * np.abs(means)) ** 2 * total] = 0.0
    return means, np.sqrt(squares)


def _dense_moments(X: Array, weights: FloatArray, total: float, centre: bool) -> tuple[FloatArray, FloatArray]:
    n_samples, n_features = X.shape
    means, squares = np.zeros(n_features), np.zeros(n_features)
    for left in range(0, n_features, _TILE):
        right = min(left + _TILE, n_features)
        if centre:
            # means of differences from the first row: exact for constant columns, and no overflow of large offsets
            first = X[0, left:right].astype(np.float64)
            for top in range(0, n_samples, _TILE):
                tile = X[top : top + _TILE, left:right].astype(np.float64)
                means[left:right] += weights[top : top + _TILE] @ (tile - first)
            means[left:right] = first + means[left:right] / total
        for top in range(0, n_samples, _TILE):
            tile = X[top : top + _TILE, left:right].astype(np.float64)
            tile -= means[left:right]
            squares[left:right] += weights[top : top + _TILE] @ tile**2
    return means, squares


def _sparse_moments(X: Any, weights: FloatArray, total: float, centre: bool) -> tuple[FloatArray, FloatArray]:
    """Sums over the stored values, some at a time; what is not stored counts through the weight it has."""
    n_features = X.shape[1]
    means, squares = np.zeros(n_features), np.zeros(n_features)
    stored = np.zeros(n_features)
    if centre:
        for columns, shares, data in _stored_values(X, weights):
            means += np.bincount(columns, shares * data, n_features)
            stored += np.bincount(columns, shares, n_features)
        means /= total
        squares = means**2 * np.maximum(total - stored, 0.0)
    for columns, shares, data in _stored_values(X, weights):
        squares += np.bincount(columns, shares * (data - means[columns]) ** 2, n_features)
    return means, squares


def _stored_values(X: Any, weights: FloatArray) -> Iterator[tuple[IndexArray, FloatArray, FloatArray]]:
    """Column, weight of the row and value of the stored values of a CSR or CSC matrix, some at a time."""
    step = max(_TILE**2 // 32, X.shape[1])
    for low in range(0, X.nnz, step):
        high = min(low + step, X.nnz)
        first, last = np.searchsorted(X.indptr, [low, high - 1], side="right") - 1
        lines = np.arange(first, last + 1)
        counts = np.diff(np.clip(X.indptr[first : last + 2], low, high))
        major, minor = np.repeat(lines, counts), X.indices[low:high]
        rows, columns = (major, minor) if X.format == "csr" else (minor, major)
        yield columns, weights[rows], X.data[low:high].astype(np.float64)
