"""Compiled products with the columns of a dictionary: free functions on arrays, no checks.

Dense dictionaries come as their transpose ``rows`` (n, N), whose rows are the columns of Phi.
float32 data are multiplied in float32 over short runs and summed in float64.
"""

import numpy as np
from numba import njit

_RUN = 1024
_SUMS = {"reassoc", "contract", "nsz"}  # sums may be reordered; NaN and infinity keep their meaning


@njit(cache=True, nogil=True, fastmath=_SUMS)
def _short_dot(row, vector):
    part = row.dtype.type(0)
    for j in range(vector.shape[0]):
        part += row[j] * vector[j]
    return np.float64(part)


@njit(cache=True, nogil=True, fastmath=_SUMS)
def _dot(row, vector):
    total = 0.0
    for low in range(0, vector.shape[0], _RUN):
        total += _short_dot(row[low : low + _RUN], vector[low : low + _RUN])
    return total


@njit(cache=True, nogil=True, fastmath=_SUMS)
def _four_dots(first, second, third, fourth, vector):
    """Four long rows at once: their sums do not wait for each other, and the vector is read once."""
    zero = first.dtype.type(0)
    total0 = total1 = total2 = total3 = 0.0
    for low in range(0, vector.shape[0], _RUN):
        high = min(low + _RUN, vector.shape[0])
        a, b, c, d, v = first[low:high], second[low:high], third[low:high], fourth[low:high], vector[low:high]
        part0 = part1 = part2 = part3 = zero
        for j in range(high - low):
            factor = v[j]
            part0 += a[j] * factor
            part1 += b[j] * factor
            part2 += c[j] * factor
            part3 += d[j] * factor
        total0 += part0
        total1 += part1
        total2 += part2
        total3 += part3
    return total0, total1, total2, total3


@njit(cache=True, nogil=True, fastmath=_SUMS)
def _short_rows(rows, vector, out, start, stop):
    for i in range(start, stop):
        out[i] = _short_dot(rows[i], vector)


@njit(cache=True, nogil=True, fastmath=_SUMS)
def _long_rows(rows, vector, out, start, stop):
    last = start + (stop - start) // 4 * 4
    for i in range(start, last, 4):
        dots = _four_dots(rows[i], rows[i + 1], rows[i + 2], rows[i + 3], vector)
        out[i], out[i + 1], out[i + 2], out[i + 3] = dots
    for i in range(last, stop):
        out[i] = _dot(rows[i], vector)


@njit(cache=True, nogil=True)
def dense_dots(rows, vector, out, start, stop):
    if vector.shape[0] <= _RUN:  # in loops of their own, which compile to better code than one with a branch
        _short_rows(rows, vector, out, start, stop)
    else:
        _long_rows(rows, vector, out, start, stop)


@njit(cache=True, nogil=True, fastmath=_SUMS)
def _dot_and_square(row, vector):
    part = row.dtype.type(0)
    part_square = row.dtype.type(0)
    for j in range(vector.shape[0]):
        part += row[j] * vector[j]
        part_square += row[j] * row[j]
    return np.float64(part), np.float64(part_square)


@njit(cache=True, nogil=True, fastmath=_SUMS)
def _two_dots_and_squares(first, second, vector):
    """Two long rows at once, as `_four_dots`."""
    zero = first.dtype.type(0)
    total0 = total1 = square0 = square1 = 0.0
    for low in range(0, vector.shape[0], _RUN):
        high = min(low + _RUN, vector.shape[0])
        a, b, v = first[low:high], second[low:high], vector[low:high]
        part0 = part1 = length0 = length1 = zero
        for j in range(high - low):
            part0 += a[j] * v[j]
            part1 += b[j] * v[j]
            length0 += a[j] * a[j]
            length1 += b[j] * b[j]
        total0 += part0
        total1 += part1
        square0 += length0
        square1 += length1
    return total0, total1, square0, square1


@njit(cache=True, nogil=True, fastmath=_SUMS)
def _short_rows_and_squares(rows, vector, out, squares, start, stop):
    for i in range(start, stop):
        out[i], squares[i] = _dot_and_square(rows[i], vector)


@njit(cache=True, nogil=True, fastmath=_SUMS)
def _long_rows_and_squares(rows, vector, out, squares, start, stop):
    last = start + (stop - start) // 2 * 2
    for i in range(start, last, 2):
        out[i], out[i + 1], squares[i], squares[i + 1] = _two_dots_and_squares(rows[i], rows[i + 1], vector)
    if last < stop:
        out[last], _, squares[last], _ = _two_dots_and_squares(rows[last], rows[last], vector)


@njit(cache=True, nogil=True)
def dense_dots_and_squares(rows, vector, out, squares, start, stop):
    if vector.shape[0] <= _RUN:
        _short_rows_and_squares(rows, vector, out, squares, start, stop)
    else:
        _long_rows_and_squares(rows, vector, out, squares, start, stop)


@njit(cache=True, nogil=True, fastmath=_SUMS)
def dense_dots_some(rows, vector, index, out, start, stop):
    if vector.shape[0] <= _RUN:
        for k in range(start, stop):
            out[k] = _short_dot(rows[index[k]], vector)
        return
    last = start + (stop - start) // 4 * 4
    for k in range(start, last, 4):
        dots = _four_dots(rows[index[k]], rows[index[k + 1]], rows[index[k + 2]], rows[index[k + 3]], vector)
        out[k], out[k + 1], out[k + 2], out[k + 3] = dots
    for k in range(last, stop):
        out[k] = _dot(rows[index[k]], vector)


@njit(cache=True, nogil=True, fastmath=_SUMS)
def _four_by_four(a, b, c, d, u, v, w, x):
    """Sixteen short products at once: every number that is read takes part in four."""
    zero = a.dtype.type(0)
    au = av = aw = ax = bu = bv = bw = bx = zero
    cu = cv = cw = cx = du = dv = dw = dx = zero
    for j in range(a.shape[0]):
        first, second, third, fourth = u[j], v[j], w[j], x[j]
        au += a[j] * first
        av += a[j] * second
        aw += a[j] * third
        ax += a[j] * fourth
        bu += b[j] * first
        bv += b[j] * second
        bw += b[j] * third
        bx += b[j] * fourth
        cu += c[j] * first
        cv += c[j] * second
        cw += c[j] * third
        cx += c[j] * fourth
        du += d[j] * first
        dv += d[j] * second
        dw += d[j] * third
        dx += d[j] * fourth
    return au, av, aw, ax, bu, bv, bw, bx, cu, cv, cw, cx, du, dv, dw, dx


@njit(cache=True, nogil=True)
def _four_rows(a, b, c, d, vectors, out, i):
    """out[k, i + p] = row p of four times vectors[k]."""
    n_samples = a.shape[0]
    for k in range(0, vectors.shape[0], 4):
        out[k : k + 4, i : i + 4] = 0.0
        for low in range(0, n_samples, _RUN):
            high = min(low + _RUN, n_samples)
            dots = _four_by_four(
                a[low:high], b[low:high], c[low:high], d[low:high],
                vectors[k, low:high], vectors[k + 1, low:high], vectors[k + 2, low:high], vectors[k + 3, low:high],
            )  # fmt: skip
            for p in range(4):
                for q in range(4):
                    out[k + q, i + p] += dots[4 * p + q]


@njit(cache=True, nogil=True)
def dense_dots_many(rows, vectors, out, start, stop):
    """out[k, i] = rows[i]' vectors[k], for a number of vectors that four divides."""
    last = start + (stop - start) // 4 * 4
    for i in range(start, last, 4):
        _four_rows(rows[i], rows[i + 1], rows[i + 2], rows[i + 3], vectors, out, i)
    for i in range(last, stop):
        for k in range(vectors.shape[0]):
            out[k, i] = _dot(rows[i], vectors[k])


@njit(cache=True, nogil=True)
def dense_dots_many_some(rows, vectors, index, out, start, stop):
    last = start + (stop - start) // 4 * 4
    for i in range(start, last, 4):
        _four_rows(rows[index[i]], rows[index[i + 1]], rows[index[i + 2]], rows[index[i + 3]], vectors, out, i)
    for i in range(last, stop):
        for k in range(vectors.shape[0]):
            out[k, i] = _dot(rows[index[i]], vectors[k])


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


@njit(cache=True, nogil=True, inline="always")
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


@njit(cache=True, nogil=True)
def sparse_dots_and_squares(data, indices, indptr, vector, out, squares, start, stop):
    one = np.uint64(1)
    for i in range(start, stop):
        k = np.uint64(indptr[i])
        end = np.uint64(indptr[i + 1])
        first = second = length = other = 0.0
        while k + one < end:
            a = np.float64(data[k])
            b = np.float64(data[k + one])
            first += a * vector[np.uint64(indices[k])]
            second += b * vector[np.uint64(indices[k + one])]
            length += a * a
            other += b * b
            k += np.uint64(2)
        if k < end:
            a = np.float64(data[k])
            first += a * vector[np.uint64(indices[k])]
            length += a * a
        out[i] = first + second
        squares[i] = length + other


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
def sparse_by_rows(data, indices, indptr, n_samples, most):
    """The stored values of columns row by row: where each row starts, column numbers (ascending), values.

    Rows that hold more than ``most`` values are left out of these; they come as a dense matrix, a column for each.
    """
    counts = np.zeros(n_samples, dtype=np.int64)
    for k in range(indptr[-1]):
        counts[np.uint64(indices[k])] += 1
    starts = np.zeros(n_samples + 1, dtype=np.int64)
    place = np.empty(n_samples, dtype=np.int64)  # where the next value of a row goes, or -1 - its dense column
    full = 0
    for j in range(n_samples):
        starts[j + 1] = starts[j]
        if counts[j] > most:
            full += 1
            place[j] = -full
        else:
            place[j] = starts[j]
            starts[j + 1] += counts[j]
    columns = np.empty(starts[-1], dtype=np.uint32)
    values = np.empty(starts[-1])
    dense = np.zeros((indptr.shape[0] - 1, full))
    for i in range(indptr.shape[0] - 1):
        for k in range(indptr[i], indptr[i + 1]):
            j = np.uint64(indices[k])
            p = place[j]
            if p < 0:
                dense[i, np.uint64(-1 - p)] += data[k]
            else:
                place[j] = p + 1
                columns[np.uint64(p)] = i
                values[np.uint64(p)] = data[k]
    return starts, columns, values, dense


@njit(cache=True, nogil=True)
def sparse_gram(data, indices, indptr, starts, columns, values, first, out, start, stop):
    """out[b, a] += phi_a' phi_(first + b) for a <= first + b, b from start to stop, over the rows given by rows."""
    ends = starts[:-1].copy()  # of what each row holds up to the column at hand
    for k in range(indptr[first + start]):
        ends[np.uint64(indices[k])] += 1
    for b in range(start, stop):
        row = out[b]
        for k in range(indptr[first + b], indptr[first + b + 1]):
            j = np.uint64(indices[k])
            low, high = np.uint64(starts[j]), np.uint64(starts[j + np.uint64(1)])
            if low == high:  # empty, or one of the full rows
                continue
            factor = data[k]
            ends[j] += 1
            for p in range(low, np.uint64(ends[j])):
                row[np.uint64(columns[p])] += factor * values[p]


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
