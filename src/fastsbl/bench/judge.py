"""The judge: objective, duality gap and Loss of anybody's answer, from the definitions, in plain numpy.

Nothing here calls the solvers of this package, so that ours is measured like any other.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from fastsbl._base.types import FloatArray

__all__ = ["columns_of", "correlations", "is_sparse", "loss", "relative_gap", "squared_norms"]

_BLOCK = 2**24  # numbers converted to float64 at a time


def is_sparse(matrix: Any) -> bool:
    """Whether it is a SciPy sparse matrix or array."""
    return bool(sparse.issparse(matrix))


def columns_of(matrix: Any, index: Any) -> FloatArray:
    """These columns as a dense float64 array."""
    part = matrix[:, index]
    return np.asarray(part.toarray() if is_sparse(part) else part, dtype=np.float64)


def correlations(matrix: Any, vector: FloatArray) -> FloatArray:
    """``matrix' vector``, in float64 also where the matrix is in single precision."""
    if is_sparse(matrix) or matrix.dtype == np.float64:
        return np.asarray(matrix.T @ vector, dtype=np.float64)
    step = max(1, _BLOCK // matrix.shape[0])
    parts = [matrix[:, k : k + step].T.astype(np.float64) @ vector for k in range(0, matrix.shape[1], step)]
    return np.concatenate(parts)


def squared_norms(matrix: Any) -> FloatArray:
    """Squared lengths of the columns."""
    if is_sparse(matrix):
        return np.asarray(matrix.multiply(matrix).sum(axis=0), dtype=np.float64).ravel()
    step = max(1, _BLOCK // matrix.shape[0])
    parts = [np.asarray(matrix[:, k : k + step], dtype=np.float64) for k in range(0, matrix.shape[1], step)]
    return np.concatenate([np.einsum("ij,ij->j", part, part) for part in parts])


def relative_gap(matrix: Any, y: FloatArray, lam: float, coef: FloatArray, weights: FloatArray | None = None) -> float:
    """Duality gap of ``0.5 ||y - X theta||^2 + lam sum w |theta|``, over ``0.5 ||y||^2``.

    The dual point is the residual r, scaled to its best feasible multiple t r. Written out, the gap is
    ``0.5 (1 - t)^2 ||r||^2 + sum_i (limit_i |theta_i| - t theta_i x_i'r)`` with ``limit_i = lam w_i``. No term is below
    zero where t r is feasible, so that rounding cannot make a gap that is zero negative, as the difference of the
    two objectives could.

    Examples
    --------
    >>> import numpy as np
    >>> relative_gap(np.eye(2), np.array([3.0, 1.0]), 1.0, np.array([2.0, 0.0]))
    0.0
    """
    used = np.flatnonzero(coef)
    theta = np.asarray(coef[used], dtype=np.float64)
    limits = np.full(coef.size, lam) if weights is None else lam * weights
    residual = y - columns_of(matrix, used) @ theta
    length = float(residual @ residual)
    products = correlations(matrix, residual)
    ratio = float(np.max(np.abs(products) / limits))
    scale = float(residual @ y) / length if length > 0.0 else 0.0
    if ratio * abs(scale) > 1.0:
        scale = float(np.sign(scale)) / ratio
    terms = limits[used] * np.abs(theta) - scale * theta * products[used]
    gap = 0.5 * (1.0 - scale) ** 2 * length + float(np.sum(np.maximum(terms, 0.0)))
    return float(gap / (0.5 * y @ y))


def loss(matrix: Any, y: FloatArray, lam: float, gamma: FloatArray) -> float:
    """``log|S| + y' S^-1 y`` with ``S = lam I + X diag(gamma) X'``, from the features with gamma above zero.

    Examples
    --------
    >>> import numpy as np
    >>> bool(np.isclose(loss(np.eye(2), np.array([2.0, 1.0]), 1.0, np.array([3.0, 0.0])), np.log(4.0) + 2.0))
    True
    """
    used = np.flatnonzero(gamma)
    B = columns_of(matrix, used) * np.sqrt(np.asarray(gamma[used], dtype=np.float64))
    left, values, _ = np.linalg.svd(B, full_matrices=False)
    inside = left.T @ y
    rest = y - left @ inside
    spread = lam + values**2
    log_determinant = float(np.sum(np.log(spread))) + (y.size - values.size) * np.log(lam)
    return float(log_determinant + rest @ rest / lam + np.sum(inside**2 / spread))
