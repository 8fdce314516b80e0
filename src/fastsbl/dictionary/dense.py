"""Dictionaries held as one dense array, in memory or memory-mapped, never copied."""

import mmap
from collections.abc import Callable
from typing import Any

import numpy as np

from fastsbl._base.parallel import run_in_chunks
from fastsbl._base.types import Array, FloatArray, IndexArray
from fastsbl.dictionary import _kernels
from fastsbl.dictionary.base import Dictionary

__all__ = ["DenseDictionary"]

_FEW_VECTORS = 64  # up to here the kernel is faster than a matrix product, which copies Phi first


class DenseDictionary(Dictionary):
    """Phi as a two-dimensional array of float32, float64, complex64 or complex128.

    Column-major ("F") storage is the fastest, since single columns are then contiguous; row-major
    ("C") storage is used as it is. Neither is copied.
    """

    def __init__(self, array: Array, **options: Any) -> None:
        super().__init__(array.shape, array.dtype, **options)
        self._array = array
        self._column_major = array.flags.f_contiguous
        self._compiled = self.dtype.kind == "f"
        self.in_memory = not _is_mapped(array)

    def _as_product_dtype(self, R: Array) -> Array:
        if R.dtype.kind == "c" and not self.is_complex:
            return R.astype(np.complex64 if self.dtype == np.float32 else np.complex128, copy=False)
        return R.astype(self.dtype, copy=False)

    def _has_kernel(self, R: Array) -> bool:
        few = R.ndim == 1 or R.shape[1] <= _FEW_VECTORS
        return self._column_major and self._compiled and R.dtype.kind == "f" and few

    def transposed_rows(self) -> Array:
        """The columns as the rows of an (n, N) array; a view where the storage is column-major."""
        return self._array.T

    def _correlate(self, R: Array) -> Array:
        R = self._as_product_dtype(R)
        if self._has_kernel(R):
            rows = self._array.T
            if R.ndim == 2:
                return _many(_kernels.dense_dots_many, rows, R, self.n_features)
            vector = np.ascontiguousarray(R)
            out = np.empty(self.n_features)
            run_in_chunks(
                lambda start, stop: _kernels.dense_dots(rows, vector, out, start, stop),
                self.n_features,
                self._array.size,
            )
            return out
        array, right = self._array, R.conj() if self.is_complex else R
        product = np.empty((self.n_features, *R.shape[1:]), dtype=np.result_type(self.dtype, R.dtype))

        def multiply(start: int, stop: int) -> None:
            np.matmul(array[:, start:stop].T, right, out=product[start:stop])

        run_in_chunks(multiply, self.n_features, array.size)
        if self.is_complex:
            product = product.conj()
        return product.astype(np.result_type(self.work_dtype, product.dtype), copy=False)

    def _correlate_some(self, R: Array, index: IndexArray) -> Array:
        R = self._as_product_dtype(R)
        if self._has_kernel(R):
            rows = self._array.T
            if R.ndim == 2:
                return _many(_kernels.dense_dots_many_some, rows, R, index.size, index)
            vector = np.ascontiguousarray(R)
            out = np.empty(index.size)
            run_in_chunks(
                lambda start, stop: _kernels.dense_dots_some(rows, vector, index, out, start, stop),
                index.size,
                index.size * self.n_samples,
            )
            return out
        product = self._array[:, index].T @ (R.conj() if self.is_complex else R)
        if self.is_complex:
            product = product.conj()
        return product.astype(np.result_type(self.work_dtype, product.dtype), copy=False)

    def _columns(self, index: IndexArray) -> Array:
        if self._column_major:
            return self._array.T[index].astype(self.work_dtype, copy=False).T
        return np.asfortranarray(self._array[:, index], dtype=self.work_dtype)

    def columns_as_rows(self, index: IndexArray) -> tuple[Array, IndexArray]:
        """The columns ``index`` as rows of an array in double precision, and at which of its rows they are."""
        if not self._column_major or self.dtype != np.float64:
            return super().columns_as_rows(index)
        self._counter.add(self._share(index))
        return self._array.T, index

    def tile(self, index: IndexArray, start: int, stop: int) -> Array:
        """Samples ``start`` to ``stop`` of some columns, in float64 or complex128, a column in each row."""
        self._counter.add(index.size * (stop - start) / self._array.size)
        return self._array.T[index, start:stop].astype(self.work_dtype, copy=False)

    def _squared_norms(self) -> FloatArray:
        if self._compiled:
            both = self._squared_norms_and_correlations(np.zeros(self.n_samples))
            if both is not None:
                return both[0]
        out = np.empty(self.n_features)
        step = max(1, 2**20 // self.n_samples)
        for low in range(0, self.n_features, step):
            part = np.asarray(self._array[:, low : low + step], dtype=self.work_dtype)
            out[low : low + step] = np.einsum("ij,ij->j", part.conj(), part).real
        return out

    def _squared_norms_and_correlations(self, vector: Array) -> tuple[FloatArray, Array] | None:
        if not self._compiled or vector.ndim != 1 or vector.dtype.kind == "c":
            return None
        factor = np.ascontiguousarray(self._as_product_dtype(vector))
        out, squares = np.empty(self.n_features), np.empty(self.n_features)
        if self._column_major:
            rows = self._array.T

            def task(start: int, stop: int) -> None:
                _kernels.dense_dots_and_squares(rows, factor, out, squares, start, stop)
        else:
            matrix = self._array

            def task(start: int, stop: int) -> None:
                _kernels.row_major_dots_and_squares(matrix, factor, out, squares, start, stop)

        run_in_chunks(task, self.n_features, self._array.size)
        return squares, out


def _many(kernel: Callable[..., object], rows: Array, R: Array, size: int, *index: IndexArray) -> Array:
    """Products with several vectors, as (size, L); each vector's own are contiguous."""
    vectors = np.zeros((-(-R.shape[1] // 4) * 4, R.shape[0]), dtype=R.dtype)
    vectors[: R.shape[1]] = R.T
    out = np.empty((vectors.shape[0], size))
    run_in_chunks(lambda start, stop: kernel(rows, vectors, *index, out, start, stop), size, float(size) * vectors.size)
    return out[: R.shape[1]].T


def _is_mapped(array: Array) -> bool:
    """Whether the numbers lie in a file."""
    base: Any = array
    while isinstance(base, np.ndarray):
        if isinstance(base, np.memmap):
            return True
        base = base.base
    return isinstance(base, mmap.mmap)
