"""Dictionaries known only through their products: SciPy's LinearOperator and its relatives."""

from typing import Any

import numpy as np

from fastsbl._base.types import Array, FloatArray, IndexArray
from fastsbl.dictionary.base import Dictionary

__all__ = ["OperatorDictionary"]


class OperatorDictionary(Dictionary):
    """Phi as a `scipy.sparse.linalg.LinearOperator` (or anything with its methods).

    Columns are obtained in batches, as products with unit vectors; their norms need each column
    once, so give ``norms`` to `as_dictionary` when they are known.
    """

    cheap_columns = False

    def __init__(self, operator: Any, **options: Any) -> None:
        dtype = np.dtype(operator.dtype if operator.dtype is not None else np.float64)
        super().__init__(operator.shape, np.result_type(dtype, np.float32), **options)
        self._operator = operator

    def _correlate(self, R: Array) -> Array:
        try:
            product = self._operator.rmatvec(R) if R.ndim == 1 else self._operator.rmatmat(R)
        except NotImplementedError as error:
            raise TypeError("dictionary must be an operator with its adjoint: define rmatvec") from error
        return np.asarray(product, dtype=np.result_type(self.work_dtype, product.dtype))

    def apply(self, coef: Array) -> Array:
        """``Phi coef``, as one product."""
        coef = np.asarray(coef)
        if coef.ndim not in (1, 2) or coef.shape[0] != self.n_features:
            raise ValueError(f"coef must have {self.n_features} rows, one per column, got shape {coef.shape}")
        if coef.any():
            self._counter.add(1.0)
        product = self._operator.matvec(coef) if coef.ndim == 1 else self._operator.matmat(coef)
        return np.asarray(product, dtype=np.result_type(self.work_dtype, product.dtype))

    def _columns(self, index: IndexArray) -> Array:
        out = np.empty((self.n_samples, index.size), dtype=self.work_dtype, order="F")
        step = max(1, min(256, 2**22 // self.n_features))
        for low in range(0, index.size, step):
            part = index[low : low + step]
            unit = np.zeros((self.n_features, part.size), dtype=self.dtype)
            unit[part, np.arange(part.size)] = 1.0
            out[:, low : low + step] = self._operator.matmat(unit)
        return out

    def _squared_norms(self) -> FloatArray:
        out = np.empty(self.n_features)
        step = max(1, min(256, 2**22 // self.n_features))
        for low in range(0, self.n_features, step):
            part = self._columns(np.arange(low, min(low + step, self.n_features)))
            out[low : low + step] = np.einsum("ij,ij->j", part.conj(), part).real
        return out
