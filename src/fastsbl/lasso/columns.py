"""Columns taken out of a dictionary, held in the way that costs least for their storage."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from fastsbl._base.parallel import run_in_chunks
from fastsbl._base.types import Array, FloatArray, IndexArray
from fastsbl.dictionary import DenseDictionary, Dictionary
from fastsbl.dictionary import _kernels as _dictionary_kernels

__all__ = ["HeldColumns", "hold_columns"]

_LONG = 4096  # samples; longer columns in memory are read where they lie instead of being copied
_TILE = 2**17  # numbers of such columns that are worked on at a time
_COPIED = 2**16  # numbers that are copied at a time
_FULL, _FULLEST = 0.2, 8  # share and count of sparse columns above which a row that they share is multiplied densely


class HeldColumns(Protocol):
    """Real columns in hand, in the order in which they came."""

    def add(self, index: IndexArray) -> None:
        """Take in more columns."""

    def gram_block(self, start: int, stop: int) -> FloatArray:
        """Products of the first ``stop`` columns with those from ``start`` to ``stop``."""

    def correlate(self, vector: FloatArray, start: int, stop: int) -> FloatArray:
        """Products of the columns from ``start`` to ``stop`` with a vector."""

    def combine(self, positions: IndexArray, coef: FloatArray) -> FloatArray:
        """Sum of the columns at ``positions``, each times its coefficient."""

    def rows(self, positions: IndexArray) -> FloatArray:
        """The columns at ``positions`` as rows of a dense (k, N) array."""


def hold_columns(dictionary: Dictionary) -> HeldColumns:
    """Hold no columns yet: by their stored values, where they lie, or as copies in float64."""
    if dictionary.is_sparse:
        return _SparseColumns(dictionary)
    if dictionary.shift is not None:
        return _ShiftedColumns(dictionary, *dictionary.shift)
    if isinstance(dictionary, DenseDictionary) and dictionary.in_memory and dictionary.n_samples > _LONG:
        return _LongColumns(dictionary)
    return _CopiedColumns(dictionary)


class _CopiedColumns:
    """Dense columns as rows of one float64 array; room grows by doubling."""

    def __init__(self, dictionary: Dictionary) -> None:
        self._dictionary = dictionary
        self._rows: FloatArray = np.empty((64, dictionary.n_samples))
        self._size = 0

    def add(self, index: IndexArray) -> None:
        size = self._size + index.size
        if size > self._rows.shape[0]:
            rows = np.empty((max(size, 2 * self._rows.shape[0]), self._rows.shape[1]))
            rows[: self._size] = self._rows[: self._size]
            self._rows = rows
        step = max(1, _COPIED // self._dictionary.n_samples)
        for low in range(0, index.size, step):  # some at a time: the dictionary's own copy is of them only
            part = index[low : low + step]
            self._rows[self._size + low : self._size + low + part.size] = self._dictionary.columns(part).T
        self._size = size

    def gram_block(self, start: int, stop: int) -> FloatArray:
        return np.asarray(self._rows[:stop] @ self._rows[start:stop].T)

    def correlate(self, vector: FloatArray, start: int, stop: int) -> FloatArray:
        return np.asarray(self._rows[start:stop] @ vector)

    def combine(self, positions: IndexArray, coef: FloatArray) -> FloatArray:
        return np.asarray(coef @ self._rows[positions])

    def rows(self, positions: IndexArray) -> FloatArray:
        return np.asarray(self._rows[positions])


class _LongColumns:
    """Long dense columns, read where they lie, a tile of samples at a time."""

    def __init__(self, dictionary: DenseDictionary) -> None:
        self._dictionary = dictionary
        self._index: IndexArray = np.zeros(0, dtype=np.intp)

    def _tiles(self, size: int) -> IndexArray:
        step = int(np.clip(_TILE // max(size, 1), 256, 8192))
        return np.append(np.arange(0, self._dictionary.n_samples, step), self._dictionary.n_samples)

    def add(self, index: IndexArray) -> None:
        self._index = np.append(self._index, index)

    def gram_block(self, start: int, stop: int) -> FloatArray:
        edges, index = self._tiles(stop), self._index[:stop]
        parts: dict[int, FloatArray] = {}

        def task(first: int, last: int) -> None:
            total = parts[first] = np.zeros((stop, stop - start))
            for k in range(first, last):
                tile = self._dictionary.tile(index, int(edges[k]), int(edges[k + 1]))
                total += tile @ tile[start:].T

        run_in_chunks(task, edges.size - 1, float(index.size) * self._dictionary.n_samples)
        return np.asarray(sum(parts[first] for first in sorted(parts)))

    def correlate(self, vector: FloatArray, start: int, stop: int) -> FloatArray:
        if self._dictionary.dtype == np.float64:
            return np.asarray(self._dictionary.correlate(vector, self._index[start:stop]))
        out = np.zeros(stop - start)
        edges, index = self._tiles(stop - start), self._index[start:stop]
        for low, high in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
            out += self._dictionary.tile(index, low, high) @ vector[low:high]
        return out

    def combine(self, positions: IndexArray, coef: FloatArray) -> FloatArray:
        out = np.empty(self._dictionary.n_samples)
        edges, index = self._tiles(positions.size), self._index[positions]

        def task(first: int, last: int) -> None:
            for k in range(first, last):
                low, high = int(edges[k]), int(edges[k + 1])
                np.matmul(coef, self._dictionary.tile(index, low, high), out=out[low:high])

        run_in_chunks(task, edges.size - 1, float(index.size) * self._dictionary.n_samples)
        return out

    def rows(self, positions: IndexArray) -> FloatArray:
        return np.ascontiguousarray(self._dictionary.columns(self._index[positions]).T)


class _SparseColumns:
    """Sparse columns by their stored values, one after the other; room grows by doubling."""

    def __init__(self, dictionary: Dictionary) -> None:
        self._dictionary = dictionary
        self._values: FloatArray = np.empty(0)
        self._rows: IndexArray = np.empty(0, dtype=np.int64)
        self._starts: IndexArray = np.zeros(1, dtype=np.int64)

    def add(self, index: IndexArray) -> None:
        values, rows, starts = self._dictionary.sparse_columns(index)
        held = int(self._starts[-1])
        total = held + values.size
        if total > self._values.size:
            room = max(total, 2 * self._values.size)
            self._values = _longer(self._values[:held], room)
            self._rows = _longer(self._rows[:held], room)
        self._values[held:total] = values
        self._rows[held:total] = rows
        self._starts = np.concatenate([self._starts, starts[1:] + held])

    def gram_block(self, start: int, stop: int) -> FloatArray:
        out = np.zeros((stop - start, stop))
        held = self._values, self._rows, self._starts[: stop + 1]
        most = max(int(_FULL * stop), _FULLEST)
        *by_rows, dense = _dictionary_kernels.sparse_by_rows(*held, self._dictionary.n_samples, most)

        def task(low: int, high: int) -> None:
            _dictionary_kernels.sparse_gram(*held, *by_rows, start, out, low, high)

        work = float(by_rows[1].size) ** 2 / self._dictionary.n_samples * (stop - start) / stop
        run_in_chunks(task, stop - start, work)
        corner = out[:, start:]
        corner += np.tril(corner, -1).T
        if dense.size:
            out += dense[start:] @ dense.T
        return out.T

    def correlate(self, vector: FloatArray, start: int, stop: int) -> FloatArray:
        out = np.empty(stop - start)
        columns = np.arange(start, stop)
        _dictionary_kernels.sparse_dots_some(
            self._values, self._rows, self._starts, vector, columns, out, 0, columns.size
        )
        return out

    def combine(self, positions: IndexArray, coef: FloatArray) -> FloatArray:
        out = np.zeros(self._dictionary.n_samples)
        _dictionary_kernels.sparse_combine(self._values, self._rows, self._starts, positions, coef, out)
        return out

    def rows(self, positions: IndexArray) -> FloatArray:
        out = np.zeros((positions.size, self._dictionary.n_samples))
        _dictionary_kernels.sparse_gather(self._values, self._rows, self._starts, positions, out)
        return out


class _ShiftedColumns:
    """Sparse columns less multiples of one dense vector, by their stored values."""

    def __init__(self, dictionary: Dictionary, shifts: FloatArray, direction: FloatArray) -> None:
        self._sparse = _SparseColumns(dictionary)
        self._all_shifts, self._direction = shifts, direction
        self._squared = float(direction @ direction)
        self._shifts: FloatArray = np.zeros(0)
        self._along: FloatArray = np.zeros(0)  # products of the stored columns with the direction

    def add(self, index: IndexArray) -> None:
        self._sparse.add(index)
        self._shifts = np.append(self._shifts, self._all_shifts[index])
        along = self._sparse.correlate(self._direction, self._along.size, self._shifts.size)
        self._along = np.append(self._along, along)

    def gram_block(self, start: int, stop: int) -> FloatArray:
        out = self._sparse.gram_block(start, stop)
        m, a = self._shifts[:stop], self._along[:stop]
        out -= np.multiply.outer(m, a[start:]) + np.multiply.outer(a - self._squared * m, m[start:])
        return out

    def correlate(self, vector: FloatArray, start: int, stop: int) -> FloatArray:
        products = self._sparse.correlate(vector, start, stop)
        return np.asarray(products - self._shifts[start:stop] * (self._direction @ vector))

    def combine(self, positions: IndexArray, coef: FloatArray) -> FloatArray:
        return np.asarray(self._sparse.combine(positions, coef) - (self._shifts[positions] @ coef) * self._direction)

    def rows(self, positions: IndexArray) -> FloatArray:
        out = self._sparse.rows(positions)
        step = max(1, _COPIED // self._direction.size)
        for low in range(0, positions.size, step):
            part = slice(low, low + step)
            out[part] -= self._shifts[positions[part], None] * self._direction
        return out


def _longer(array: Array, room: int) -> Array:
    """Room for ``room`` entries, with ``array`` copied to the front."""
    longer = np.empty(room, dtype=array.dtype)
    longer[: array.size] = array
    return longer
