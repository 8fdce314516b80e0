"""Compiled products with the columns of a dictionary: free functions on arrays, no checks.

Dense dictionaries come as their transpose ``rows`` (n, N), whose rows are the columns of Phi.
float32 data are multiplied in float32 over short runs and summed in float64.
"""

import numpy as np
from numba import njit

_RUN = 256
_SUMS = {"reassoc", "contract", "nsz"}  # sums may be reordered; NaN and infinity keep their meaning


@njit(cache=True, nogil=True, fastmath=_SUMS)
def _dot(row, vector):
    total = 0.0
    for low in range(0, vector.shape[0], _RUN):
        a, b = row[low : low + _RUN], vector[low : low + _RUN]
        part = row.dtype.type(0)
        for j in range(b.shape[0]):
            part += a[j] * b[j]
        total += part
    return total


@njit(cache=True, nogil=True, fastmath=_SUMS)
def dense_dots(rows, vector, out, start, stop):
    for i in range(start, stop):
        out[i] = _dot(rows[i], vector)


@njit(cache=True, nogil=True, fastmath=_SUMS)
def dense_dots_and_squares(rows, vector, out, squares, start, stop):
    for i in range(start, stop):
        total = 0.0
        square = 0.0
        for low in range(0, vector.shape[0], _RUN):
            a, b = rows[i, low : low + _RUN], vector[low : low + _RUN]
            part = rows.dtype.type(0)
            part_square = rows.dtype.type(0)
            for j in range(b.shape[0]):
                part += a[j] * b[j]
                part_square += a[j] * a[j]
            total += part
            square += part_square
        out[i] = total
        squares[i] = square


@njit(cache=True, nogil=True, fastmath=_SUMS)
def dense_dots_some(rows, vector, index, out, start, stop):
    for k in range(start, stop):
        out[k] = _dot(rows[index[k]], vector)


@njit(cache=True, nogil=True, fastmath=_SUMS)
def dense_dots_many(rows, vectors, out, start, stop):
    for i in range(start, stop):
        row = rows[i]
        for c in range(vectors.shape[0]):
            out[i, c] = _dot(row, vectors[c])


@njit(cache=True, nogil=True, fastmath=_SUMS)
def row_major_dots_and_squares(matrix, vector, out, squares, start, stop):
    for low in range(start, stop, 1024):
        high = min(low + 1024, stop)
        out[low:high] = 0.0
        squares[low:high] = 0.0
        for j in range(matrix.shape[0]):
            factor = vector[j]
            for i in range(low, high):
                value = matrix[j, i]
                out[i] += value * factor
                squares[i] += value * value


@njit(cache=True, nogil=True)
def _sparse_dot(data, indices, start, stop, vector):
    """Sum over one column. Unsigned places spare the test for negative ones, which costs more than the product."""
    first = second = third = fourth = 0.0
    k = np.uint64(start)
    end = np.uint64(stop)
    one = np.uint64(1)
    while k + np.uint64(3) < end:
        first += data[k] * vector[np.uint64(indices[k])]
        second += data[k + one] * vector[np.uint64(indices[k + one])]
        third += data[k + np.uint64(2)] * vector[np.uint64(indices[k + np.uint64(2)])]
        fourth += data[k + np.uint64(3)] * vector[np.uint64(indices[k + np.uint64(3)])]
        k += np.uint64(4)
    while k < end:
        first += data[k] * vector[np.uint64(indices[k])]
        k += one
    return (first + second) + (third + fourth)


@njit(cache=True, nogil=True)
def sparse_dots(data, indices, indptr, vector, out, start, stop):
    for i in range(start, stop):
        out[i] = _sparse_dot(data, indices, indptr[i], indptr[i + 1], vector)


@njit(cache=True, nogil=True, fastmath=_SUMS)
def sparse_dots_and_squares(data, indices, indptr, vector, out, squares, start, stop):
    for i in range(start, stop):
        square = 0.0
        for value in data[indptr[i] : indptr[i + 1]]:
            square += value * value
        squares[i] = square
        out[i] = _sparse_dot(data, indices, indptr[i], indptr[i + 1], vector)


@njit(cache=True, nogil=True)
def sparse_dots_some(data, indices, indptr, vector, index, out, start, stop):
    for p in range(start, stop):
        i = index[p]
        out[p] = _sparse_dot(data, indices, indptr[i], indptr[i + 1], vector)


@njit(cache=True, nogil=True)
def sparse_gather(data, indices, indptr, index, out):
    for p in range(index.shape[0]):
        i = index[p]
        for k in range(indptr[i], indptr[i + 1]):
            out[p, indices[k]] += data[k]


@njit(cache=True, nogil=True)
def sparse_gram(data, indices, indptr, first, second, work, out):
    """out[a, b] = phi_first[a]' phi_second[b]; ``work`` is a vector of N zeros, left zero."""
    for b in range(second.shape[0]):
        j = second[b]
        for k in range(indptr[j], indptr[j + 1]):
            work[indices[k]] += data[k]
        for a in range(first.shape[0]):
            i = first[a]
            out[a, b] = _sparse_dot(data, indices, indptr[i], indptr[i + 1], work)
        for k in range(indptr[j], indptr[j + 1]):
            work[indices[k]] = 0.0


@njit(cache=True, nogil=True, fastmath=_SUMS)
def sparse_combine(data, indices, indptr, index, coef, out):
    for p in range(index.shape[0]):
        i = index[p]
        factor = coef[p]
        for k in range(indptr[i], indptr[i + 1]):
            out[indices[k]] += data[k] * factor


@njit(cache=True, nogil=True)
def sparse_take(data, indices, indptr, index):
    """Copy the columns ``index``: values in float64, row numbers, starts."""
    starts = np.zeros(index.shape[0] + 1, dtype=np.int64)
    for p in range(index.shape[0]):
        starts[p + 1] = starts[p] + indptr[index[p] + 1] - indptr[index[p]]
    values = np.empty(starts[-1])
    rows = np.empty(starts[-1], dtype=np.int64)
    for p in range(index.shape[0]):
        low = indptr[index[p]]
        for k in range(starts[p + 1] - starts[p]):
            values[starts[p] + k] = data[low + k]
            rows[starts[p] + k] = indices[low + k]
    return values, rows, starts


@njit(cache=True, nogil=True)
def row_sparse_dots(data, indices, indptr, vector, out, start, stop):
    """Out += the rows start to stop, each times its entry of ``vector``."""
    for j in range(start, stop):
        factor = vector[j]
        if factor != 0.0:
            for k in range(indptr[j], indptr[j + 1]):
                out[np.uint64(indices[k])] += data[k] * factor


@njit(cache=True, nogil=True)
def row_sparse_dots_and_squares(data, indices, indptr, vector, out, squares, start, stop):
    for j in range(start, stop):
        factor = vector[j]
        for k in range(indptr[j], indptr[j + 1]):
            i = np.uint64(indices[k])
            value = np.float64(data[k])
            out[i] += value * factor
            squares[i] += value * value


@njit(cache=True, nogil=True)
def row_sparse_counts(indices, place, counts):
    """counts[p + 1] = stored values of the column whose place is p."""
    for k in range(indices.shape[0]):
        p = place[np.uint64(indices[k])]
        if p >= 0:
            counts[p + 1] += 1


@njit(cache=True, nogil=True)
def row_sparse_take(data, indices, indptr, place, free, values, rows):
    """Sort the values of the wanted columns into ``values``; ``free[p]`` is where column p goes on."""
    for j in range(indptr.shape[0] - 1):
        for k in range(indptr[j], indptr[j + 1]):
            p = place[np.uint64(indices[k])]
            if p >= 0:
                values[free[p]] = data[k]
                rows[free[p]] = j
                free[p] += 1


@njit(cache=True, nogil=True)
def row_sparse_gather(data, indices, indptr, place, out):
    for j in range(indptr.shape[0] - 1):
        for k in range(indptr[j], indptr[j + 1]):
            p = place[np.uint64(indices[k])]
            if p >= 0:
                out[p, j] += data[k]
