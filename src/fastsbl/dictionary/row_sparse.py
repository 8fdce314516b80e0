"""Dictionaries held as one compressed-sparse-row matrix, read as it is stored."""

from typing import Any

import numpy as np

from fastsbl._base.parallel import run_in_chunks
from fastsbl._base.types import Array, FloatArray, IndexArray
from fastsbl.dictionary import _kernels
from fastsbl.dictionary.base import Dictionary

__all__ = ["RowSparseDictionary"]


class RowSparseDictionary(Dictionary):
    """Phi as a real SciPy CSR matrix or array; only stored values are read, and none are copied.

    Whole products cost what they cost by columns. Any number of single columns takes one scan over the
    stored column numbers, so a solver had better ask for many at once: ``cheap_columns`` is False.
    """

    cheap_columns = False
    is_sparse = True

    def __init__(self, matrix: Any, **options: Any) -> None:
        super().__init__(matrix.shape, matrix.dtype, **options)
        self._matrix = matrix
        self._indptr = np.asarray(matrix.indptr, dtype=np.int64)

    @property
    def nnz(self) -> int:
        """Stored values."""
        return int(self._indptr[-1])

    @property
    def column_size(self) -> float:
        """Mean count of stored values in a column."""
        return self.nnz / self.n_features

    def _share(self, index: IndexArray) -> float:
        return 1.0 if index.size else 0.0

    def _correlate(self, R: Array) -> Array:
        if R.ndim == 1 and R.dtype.kind == "f":
            return self._sum_over_rows(np.ascontiguousarray(R, dtype=np.float64), squares=False)[0]
        product = self._matrix.T @ R
        return np.asarray(product, dtype=np.result_type(self.work_dtype, product.dtype))

    def _sum_over_rows(self, vector: FloatArray, *, squares: bool) -> tuple[FloatArray, FloatArray]:
        """``Phi' vector``, and the squared column norms if asked: each thread adds up rows of its own."""
        data, indices, indptr = self._matrix.data, self._matrix.indices, self._indptr
        parts: dict[int, tuple[FloatArray, FloatArray]] = {}

        def task(start: int, stop: int) -> None:
            sums = np.zeros(self.n_features)
            parts[start] = sums, np.zeros(self.n_features) if squares else sums
            if squares:
                _kernels.row_sparse_dots_and_squares(data, indices, indptr, vector, *parts[start], start, stop)
            else:
                _kernels.row_sparse_dots(data, indices, indptr, vector, sums, start, stop)

        run_in_chunks(task, self.n_samples, self.nnz, ends=indptr)
        (first, *others) = (parts[start] for start in sorted(parts))
        for sums, more in others:
            np.add(first[0], sums, out=first[0])
            if squares:
                np.add(first[1], more, out=first[1])
        return first

    def sparse_columns(self, index: IndexArray) -> tuple[FloatArray, Array, Array]:
        """Values (in float64), row numbers and starts of these columns, one after the other."""
        wanted, back = np.unique(self._check_index(index), return_inverse=True)
        self._counter.add(self._share(wanted))
        place = np.full(self.n_features, -1, dtype=np.int32)
        place[wanted] = np.arange(wanted.size)
        indices, indptr = self._matrix.indices, self._indptr
        counts = np.zeros(wanted.size + 1, dtype=np.int64)
        _kernels.row_sparse_counts(indices, place, counts)
        starts = np.cumsum(counts)
        values, rows = np.empty(starts[-1]), np.empty(starts[-1], dtype=np.int64)
        _kernels.row_sparse_take(self._matrix.data, indices, indptr, place, starts[:-1].copy(), values, rows)
        if np.array_equal(wanted[back], wanted):  # as asked already
            return values, rows, starts
        ordered: tuple[FloatArray, Array, Array] = _kernels.sparse_take(values, rows, starts, back.ravel())
        return ordered

    def _columns(self, index: IndexArray) -> Array:
        out = np.zeros((index.size, self.n_samples), dtype=self.work_dtype)
        place = np.full(self.n_features, -1, dtype=np.int32)
        place[index] = np.arange(index.size)
        _kernels.row_sparse_gather(self._matrix.data, self._matrix.indices, self._indptr, place, out)
        if np.unique(index).size < index.size:
            out = out[place[index]]
        return out.T

    def _squared_norms(self) -> FloatArray:
        return self._sum_over_rows(np.zeros(self.n_samples), squares=True)[1]

    def _squared_norms_and_correlations(self, vector: Array) -> tuple[FloatArray, Array] | None:
        if vector.ndim != 1 or vector.dtype.kind == "c":
            return None
        products, squares = self._sum_over_rows(np.ascontiguousarray(vector, dtype=np.float64), squares=True)
        return squares, products
