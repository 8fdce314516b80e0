"""Dictionaries held as one compressed-sparse-column matrix."""

from typing import Any

import numpy as np

from fastsbl._base.parallel import run_in_chunks
from fastsbl._base.types import Array, FloatArray, IndexArray
from fastsbl.dictionary import _kernels
from fastsbl.dictionary.base import Dictionary

__all__ = ["SparseDictionary"]


class SparseDictionary(Dictionary):
    """Phi as a SciPy CSC matrix or array; only stored values are read."""

    def __init__(self, matrix: Any, **options: Any) -> None:
        super().__init__(matrix.shape, matrix.dtype, **options)
        self._matrix = matrix
        self._indptr = matrix.indptr
        self._compiled = self.dtype.kind == "f"
        self.is_sparse = self._compiled

    @property
    def nnz(self) -> int:
        """Stored values."""
        return int(self._indptr[-1])

    @property
    def column_size(self) -> float:
        """Mean count of stored values in a column."""
        return self.nnz / self.n_features

    def _correlate(self, R: Array) -> Array:
        if self._compiled and R.ndim == 1 and R.dtype.kind == "f":
            vector = np.ascontiguousarray(R, dtype=np.float64)
            out = np.empty(self.n_features)
            data, indices, indptr = self._matrix.data, self._matrix.indices, self._indptr
            run_in_chunks(
                lambda start, stop: _kernels.sparse_dots(data, indices, indptr, vector, out, start, stop),
                self.n_features,
                self.nnz,
                ends=indptr,
            )
            return out
        product = self._matrix.T @ (R.conj() if self.is_complex else R)
        if self.is_complex:
            product = product.conj()
        return np.asarray(product, dtype=np.result_type(self.work_dtype, product.dtype))

    def _correlate_some(self, R: Array, index: IndexArray) -> Array:
        if self._compiled and R.ndim == 1 and R.dtype.kind == "f":
            vector = np.ascontiguousarray(R, dtype=np.float64)
            out = np.empty(index.size)
            data, indices, indptr = self._matrix.data, self._matrix.indices, self._indptr
            run_in_chunks(
                lambda start, stop: _kernels.sparse_dots_some(data, indices, indptr, vector, index, out, start, stop),
                index.size,
                self._share(index) * self.nnz,
            )
            return out
        return self._columns(index).conj().T @ R

    def _columns(self, index: IndexArray) -> Array:
        out = np.zeros((index.size, self.n_samples), dtype=self.work_dtype)
        _kernels.sparse_gather(self._matrix.data, self._matrix.indices, self._indptr, index, out)
        return out.T

    def _squared_norms(self) -> FloatArray:
        if self._compiled:
            both = self._squared_norms_and_correlations(np.zeros(self.n_samples))
            assert both is not None
            return both[0]
        squares = np.abs(self._matrix.data.astype(np.complex128)) ** 2
        owner = np.repeat(np.arange(self.n_features), np.diff(self._indptr))
        return np.asarray(np.bincount(owner, squares, minlength=self.n_features), dtype=np.float64)

    def _squared_norms_and_correlations(self, vector: Array) -> tuple[FloatArray, Array] | None:
        if not self._compiled or vector.ndim != 1 or vector.dtype.kind == "c":
            return None
        factor = np.ascontiguousarray(vector, dtype=np.float64)
        out, squares = np.empty(self.n_features), np.empty(self.n_features)
        data, indices, indptr = self._matrix.data, self._matrix.indices, self._indptr
        run_in_chunks(
            lambda start, stop: _kernels.sparse_dots_and_squares(
                data, indices, indptr, factor, out, squares, start, stop
            ),
            self.n_features,
            self.nnz,
            ends=indptr,
        )
        return squares, out

    def _share(self, index: IndexArray) -> float:
        stored = float((self._indptr[index + 1] - self._indptr[index]).sum())
        return stored / self.nnz if self.nnz else 0.0

    def stored_values(self) -> tuple[Array, Array, Array]:
        """Values, row numbers and column starts, as stored."""
        return self._matrix.data, self._matrix.indices, self._indptr

    def sparse_columns(self, index: IndexArray) -> tuple[FloatArray, Array, Array]:
        """Stored values (float64), row numbers and starts of these columns, one after the other."""
        if not self._compiled:
            return super().sparse_columns(index)
        index = self._check_index(index)
        self._counter.add(self._share(index))
        taken: tuple[FloatArray, Array, Array] = _kernels.sparse_take(
            self._matrix.data, self._matrix.indices, self._indptr, index
        )
        return taken
