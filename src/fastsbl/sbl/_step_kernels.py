"""Compiled parts of one outer iteration: weights, the lasso on the columns in hand, and looks at a few features.

A model comes as its columns times the roots of their variances (``scaled``, a column in each row, B') and a matrix
``back`` with ``back' back = (lam I + B'B)^-1``. Each part releases the interpreter once, for as long as it can: two
fits side by side gain nothing from releasing it for a few microseconds.
"""

import numpy as np
from numba import njit

from fastsbl.dictionary._kernels import dense_dots_many_some
from fastsbl.lasso._active_set_kernels import copy_into
from fastsbl.sbl._guarded_kernels import _gap, _inner_product

_RELATIVE = 1e-9  # every comparison of bounds leaves this much room for rounding
_SURE = 1e-12
_REGULAR = 1e5  # the model's variance in noise variances up to which a difference keeps enough digits
_AT_ONCE = 2**17  # numbers that are worked on at a time


@njit(cache=True, nogil=True)
def _add_to(total, part):
    for i in range(total.shape[0]):
        for j in range(total.shape[1]):
            total[i, j] += part[i, j]


@njit(cache=True, nogil=True)
def _less(left, right):
    """The difference of two matrices."""
    out = np.empty(left.shape)
    for i in range(left.shape[0]):
        for j in range(left.shape[1]):
            out[i, j] = left[i, j] - right[i, j]
    return out


@njit(cache=True, nogil=True)
def _triangle(square, lam):
    """The inverse of the Cholesky factor of ``lam I + square``; overwrites ``square``."""
    for i in range(square.shape[0]):
        square[i, i] += lam
    return np.ascontiguousarray(np.linalg.inv(np.linalg.cholesky(square)))


@njit(cache=True, nogil=True)
def _root(square):
    """R with R'R = ``square``, of a symmetric matrix; what rounding made negative counts as zero."""
    values, vectors = np.linalg.eigh(square)
    out = np.empty(square.shape)
    for i in range(square.shape[0]):
        size = np.sqrt(max(values[i], 0.0))
        for j in range(square.shape[0]):
            out[i, j] = size * vectors[j, i]
    return out


@njit(cache=True, nogil=True)
def _sum_of_squares(matrix):
    total = 0.0
    for i in range(matrix.shape[0]):
        for j in range(matrix.shape[1]):
            total += matrix[i, j] ** 2
    return total


@njit(cache=True, nogil=True)
def _split(rows, products, scaled, back, lam):
    """What the model leaves of each row, over sqrt(lam), and the coefficients; ``products`` are with ``scaled``."""
    x = np.dot(np.dot(products, back.T), back)
    left = np.dot(x, scaled)
    unit = 1.0 / np.sqrt(lam)
    for i in range(left.shape[0]):
        for j in range(left.shape[1]):
            left[i, j] = unit * (rows[i, j] - left[i, j])
    return left, x


@njit(cache=True, nogil=True)
def _weights(rows, products, scaled, back, lam):
    """``u`` of each row, in the ridge-residual form."""
    left, x = _split(rows, products, scaled, back, lam)
    out = np.empty(rows.shape[0])
    for i in range(out.shape[0]):
        out[i] = np.sqrt(_inner_product(left[i], left[i]) + _inner_product(x[i], x[i]))
    return out


@njit(cache=True, nogil=True)
def weights_of(rows, scaled, back, lam):
    return _weights(rows, np.dot(rows, scaled.T), scaled, back, lam)


@njit(cache=True, nogil=True)
def growth(gram, active, gamma, rows, kept, kept_gamma, kept_scaled, kept_back, lam):
    """``u_new >= u_kept / factor`` if the variances ``kept_gamma`` (at ``kept``) become ``gamma`` (at ``active``)."""
    before = np.zeros(gram.shape[0])
    for p in range(kept.shape[0]):
        before[kept[p]] = kept_gamma[p]
    count = 0
    grown = np.empty(active.shape[0], dtype=np.int64)
    for p in range(active.shape[0]):
        if gamma[p] > before[active[p]]:
            grown[count] = p
            count += 1
    if count == 0:
        return 1.0
    products = np.empty((count, kept.shape[0]))
    for k in range(count):
        for p in range(kept.shape[0]):
            products[k, p] = np.sqrt(kept_gamma[p]) * gram[kept[p], active[grown[k]]]
    square = np.zeros((count, count))
    step = max(_AT_ONCE // count, 1)
    for low in range(0, rows.shape[1], step):  # some samples at a time: tall data would take as much room again
        high = min(low + step, rows.shape[1])
        some = np.empty((count, high - low))
        for k in range(count):
            for j in range(low, high):
                some[k, j - low] = rows[grown[k], j]
        part = np.empty((kept.shape[0], high - low))
        for p in range(kept.shape[0]):
            for j in range(low, high):
                part[p, j - low] = kept_scaled[p, j]
        left, x = _split(some, products, part, kept_back, lam)
        _add_to(square, np.dot(left, left.T))
        if low == 0:
            _add_to(square, np.dot(x, x.T))
    total = 0.0
    for k in range(count):
        for j in range(count):
            first = gamma[grown[k]] - before[active[grown[k]]]
            total += square[k, j] ** 2 * first * (gamma[grown[j]] - before[active[grown[j]]])
    return np.sqrt(1.0 + np.sqrt(total)) * (1.0 + _RELATIVE)


@njit(cache=True, nogil=True)
def set_out(
    gram, limits, size, active, gamma, rows, scaled, back, lam, kept, kept_gamma, kept_scaled, kept_back
):  # fmt: skip
    """Give the columns of a model their weights, and all others none; the growth of the model since the one kept."""
    s = active.shape[0]
    products = np.empty((s, s))
    for p in range(s):
        for q in range(s):
            products[p, q] = np.sqrt(gamma[q]) * gram[active[p], active[q]]
    own = _weights(rows, products, scaled, back, lam)
    for j in range(size):
        limits[j] = np.inf
    for p in range(s):
        limits[active[p]] = lam * own[p]
    return growth(gram, active, gamma, rows, kept, kept_gamma, kept_scaled, kept_back, lam)


@njit(cache=True, nogil=True)
def sum_up(theta, limits, g, size, residual, y, one_sided):
    """Penalty and duality gap of a solution; features outside are below their limit."""
    penalty, ratio = 0.0, 0.0
    for j in range(size):
        if theta[j] != 0.0:
            penalty += abs(theta[j]) * limits[j]
        if 0.0 < limits[j] < np.inf:
            ratio = max(ratio, (g[j] if one_sided else abs(g[j])) / limits[j])
    return penalty, _gap(residual, y, penalty, ratio, one_sided)


@njit(cache=True, nogil=True)
def idle_over_limit(limits, index, g, size, lower, scale, one_sided, found):
    """Collect the columns in hand without a limit whose correlation may exceed theirs; returns how many."""
    count = 0
    for j in range(size):
        value = g[j] if one_sided else abs(g[j])
        if limits[j] == np.inf and value > scale * lower[index[j]] * (1.0 - _RELATIVE):
            found[count] = j
            count += 1
    return count


@njit(cache=True, nogil=True)
def coordinates(residual, basis, errors, slack):
    """A residual in an orthonormal basis: coordinates, length of the rest, and rounding of products with it."""
    a = np.dot(basis, residual)
    rest = np.dot(a, basis)
    for j in range(rest.shape[0]):
        rest[j] = residual[j] - rest[j]
    perpendicular = np.sqrt(_inner_product(rest, rest))
    error = slack * (np.sqrt(_inner_product(a, a)) + perpendicular)
    for k in range(a.shape[0]):
        error += abs(a[k]) * errors[k]
    return a, perpendicular, error


@njit(cache=True, nogil=True)
def weigh_directions(basis, scaled, inner, trace, lam, eps, errors):
    """What `bound_features` needs to bound weights from products with a basis (k directions), for a model of s columns.

    With M = Q'B and what Q leaves of B: ``first`` and ``low_rank`` for ``c'S_QQ^-1 c``, ``across``, the largest
    eigenvalue of what is left (``widest``), the rounding of what is solved with S_QQ, and that of ``|across c|`` per
    unit of norm; ``errors`` is that of c. Raises LinAlgError where rounding leaves S_QQ singular.
    """
    k, s, n_samples = basis.shape[0], scaled.shape[0], scaled.shape[1]
    system = 1e-15 * (k + s + 8) * (1.0 + trace / lam)  # the bracket bounds the condition of S
    widest, slip = lam, 0.0
    within, across = np.zeros((0, k)), np.zeros((0, k))
    inside = np.dot(basis, scaled.T)
    if s:
        missed = 0.0
        if trace < _REGULAR * lam:  # B'B less what lies inside, which is quick; the difference is off by this at most
            missed = eps * (4.0 * n_samples + 8.0 * k + 64.0) * trace
            gram = _less(inner, np.dot(inside.T, inside))
        else:
            outside = _less(scaled, np.dot(inside.T, basis))
            gram = np.dot(outside, outside.T)
        back = _triangle(np.dot(inside.T, inside), lam)
        beyond = np.dot(np.dot(back, gram), back.T)
        left = 0.0
        for p in range(s):
            left += gram[p, p]
            for q in range(p):
                beyond[p, q] = 0.5 * (beyond[p, q] + beyond[q, p])
                beyond[q, p] = beyond[p, q]
        widest += lam * max(np.linalg.eigvalsh(beyond)[-1], 0.0)
        widest = widest * (1.0 + system) + 1e-12 * max(left, 0.0) + 1e-15 * trace + missed
        within = np.dot(back, inside.T)
        long = np.dot(back.T, within)  # z has the length of B_outside times this times c
        if s < k:
            across = np.dot(_root(gram), long)
        else:
            across = _root(np.dot(np.dot(long.T, gram), long))
        slip = np.sqrt(_sum_of_squares(across)) * (errors + system) + 2.0 * np.sqrt(missed * _sum_of_squares(long))
    if 2 * s < k:
        return within, True, across, widest, system, slip  # c'S_QQ^-1 c = (|c|^2 - |first c|^2) / lam
    first = _triangle(np.dot(inside, inside.T), lam)
    return first, False, across, widest, system, slip  # c'S_QQ^-1 c = |first c|^2


@njit(cache=True, nogil=True)
def judge(
    rows, places, index, residual, upper, lower, norms, error, scaled, back, lam, one_sided, violators, limits
):  # fmt: skip
    """Look at features (columns ``rows[places]``) one by one: sharpen their bounds, and collect those that violate.

    Returns how many needed their exact weight, and how many violate.
    """
    n_samples = residual.shape[0]
    length = np.sqrt(_inner_product(residual, residual))
    over = np.empty(index.shape[0], dtype=np.int64)
    values = np.empty(index.shape[0])
    count = 0
    for k in range(index.shape[0]):
        i = index[k]
        value = _inner_product(rows[places[k]], residual)
        if not one_sided:
            value = abs(value)
        upper[i] = value + error * length * norms[i]
        if not upper[i] < lam * lower[i] * (1.0 - _RELATIVE):
            over[count], values[count] = k, value
            count += 1
    if count == 0:
        return 0, 0
    some = np.empty((count, n_samples))
    for p in range(count):
        copy_into(some[p], rows[places[over[p]]], n_samples)
    exact = weights_of(some, scaled, back, lam)
    found = 0
    for p in range(count):
        i = index[over[p]]
        lower[i] = exact[p]
        if values[p] > lam * exact[p] * (1.0 + _SURE):
            violators[found], limits[found] = i, lam * exact[p]
            found += 1
    return count, found


@njit(cache=True, nogil=True)
def look_closely(
    rows, places, index, residual, upper, lower, norms, error, scaled, back, trace, lam, drift, widening, one_sided,
    found,
):  # fmt: skip
    """Bound features (columns ``rows[places]``) by their products alone, and collect those that the room endangers.

    ``lam u^2 = ||phi||^2 - ||L^-1 B' phi||^2``, where that difference is more than rounding. Returns how many, as
    places in ``index``.
    """
    s, m = scaled.shape[0], index.shape[0]
    vectors = np.zeros(((s + 4) // 4 * 4, residual.shape[0]))
    copy_into(vectors[0], residual, residual.shape[0])
    for p in range(s):
        copy_into(vectors[p + 1], scaled[p], residual.shape[0])
    products = np.empty((vectors.shape[0], m))
    dense_dots_many_some(rows, vectors, places, products, np.int64(0), m)
    within = np.dot(back, products[1 : s + 1])
    explained = np.zeros(m)
    for p in range(s):
        for k in range(m):
            explained[k] += within[p, k] ** 2
    length = np.sqrt(_inner_product(residual, residual))
    slip = 4.0 * error * np.sqrt(1.0 + trace / lam)
    count = 0
    for k in range(m):
        i = index[k]
        norm = norms[i]
        value = products[0, k]
        if not one_sided:
            value = abs(value)
        upper[i] = value + error * length * norm
        seen = np.sqrt(explained[k]) + slip * norm
        least = np.sqrt(max((norm * (1.0 - error)) ** 2 - seen * seen, 0.0) / lam)
        lower[i] = max(lower[i], least)
        if not (upper[i] + norm * drift) * widening < lam * lower[i] * (1.0 - _RELATIVE):
            found[count] = k
            count += 1
    return count
