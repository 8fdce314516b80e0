"""Compiled solvers and bounds for the weighted lasso: free functions on arrays, no checks."""

import numpy as np
from numba import njit

from fastsbl.lasso._active_set_kernels import count_nonzero, solve_active_set

_SUMS = {"reassoc", "contract", "nsz"}  # sums may be reordered; infinities keep their meaning
_MANY = 40  # nonzero entries above which factors are updated rather than computed anew
_EPOCHS_IF_MANY = 3


@njit(cache=True, nogil=True, fastmath=_SUMS)
def _soft(z, limit, positive):
    if z > limit:
        return z - limit
    if not positive and z < -limit:
        return z + limit
    return 0.0


@njit(cache=True, nogil=True, fastmath=_SUMS)
def _gradient(gram, target, theta, g, size):
    """G = target - gram theta, from the nonzero coefficients."""
    for i in range(size):
        g[i] = target[i]
    for j in range(size):
        value = theta[j]
        if value != 0.0:
            for i in range(size):
                g[i] -= value * gram[j, i]


@njit(cache=True, nogil=True, fastmath=_SUMS)
def _cholesky(a, size):
    """Factor a in place (lower triangle); returns size, or the first row that depends on those before it."""
    for i in range(size):
        diagonal = a[i, i]
        for j in range(i):
            total = a[i, j]
            for k in range(j):
                total -= a[i, k] * a[j, k]
            a[i, j] = total / a[j, j]
        total = diagonal
        for k in range(i):
            total -= a[i, k] * a[i, k]
        if not total > 1e-12 * diagonal:
            return i
        a[i, i] = np.sqrt(total)
    return size


@njit(cache=True, nogil=True, fastmath=_SUMS)
def _solve_lower(a, b, size):
    """Solve L x = b in place."""
    for i in range(size):
        total = b[i]
        for k in range(i):
            total -= a[i, k] * b[k]
        b[i] = total / a[i, i]


@njit(cache=True, nogil=True, fastmath=_SUMS)
def _solve_upper(a, b, size):
    """Solve L' x = b in place."""
    for i in range(size - 1, -1, -1):
        value = b[i] / a[i, i]
        b[i] = value
        for k in range(i):
            b[k] -= value * a[i, k]


@njit(cache=True, nogil=True, fastmath=_SUMS)
def _worst_violation(gram, limits, theta, g, size, positive):
    """Largest violation of the optimality conditions, per unit of column norm."""
    worst = 0.0
    for j in range(size):
        d = gram[j, j]
        if limits[j] == np.inf or d <= 0.0:
            continue
        if theta[j] > 0.0:
            miss = abs(g[j] - limits[j])
        elif theta[j] < 0.0:
            miss = abs(g[j] + limits[j])
        elif positive:
            miss = g[j] - limits[j]
        else:
            miss = abs(g[j]) - limits[j]
        if miss > 0.0:
            worst = max(worst, miss / np.sqrt(d))
    return worst


@njit(cache=True, nogil=True, fastmath=_SUMS)
def _walk(theta, active, step, s, limits, positive, last):
    """Move the nonzero entries along ``step``, at most by ``last``, up to the first that reaches zero."""
    share, wall = last, -1
    for sign in (1.0, -1.0):
        for p in range(s):
            value = theta[active[p]]
            if (positive or limits[active[p]] > 0.0) and value * step[p] * sign < 0.0:
                reach = -value / (step[p] * sign)
                if reach <= share:
                    share, wall = reach, p
        if share < np.inf:
            share *= sign
            break
    if share == np.inf:  # an unpenalised copy of other unpenalised columns: give it up
        wall = s - 1
        share = -theta[active[wall]] / step[wall]
    for p in range(s):
        theta[active[p]] += share * step[p]
    if wall >= 0:
        theta[active[wall]] = 0.0
    return wall


@njit(cache=True, nogil=True, fastmath=_SUMS)
def _drop_noise(gram, active, step, s):
    """Set to zero what is only rounding in a dependence: an entry of 1e-16 would let theta go 1e16 far to a wall."""
    widest = 0.0
    for p in range(s):
        widest = max(widest, abs(step[p]) * np.sqrt(gram[active[p], active[p]]))
    for p in range(s):
        if abs(step[p]) * np.sqrt(gram[active[p], active[p]]) <= 1e-10 * widest:
            step[p] = 0.0


@njit(cache=True, nogil=True, fastmath=_SUMS)
def _newton(gram, target, limits, theta, g, size, most_cuts, positive):
    """Minimise exactly within the orthant of theta, stopping at its walls; whether the minimum was reached.

    Where the nonzero columns are dependent, theta moves along the dependence, which leaves the fit as it is,
    in the direction that lowers the penalty, until an entry is zero.
    """
    active = np.empty(size, dtype=np.int64)
    for _ in range(most_cuts):
        s = np.int64(0)
        for j in range(size):
            if theta[j] != 0.0:
                active[s] = j
                s += 1
        if s == 0:
            return True
        a = np.empty((s, s))
        step = np.empty(s)
        for p in range(s):
            i = active[p]
            for q in range(p + 1):
                a[p, q] = gram[i, active[q]]
            step[p] = g[i] - (limits[i] if theta[i] > 0.0 else -limits[i])
        independent = _cholesky(a, s)
        if independent == s:
            _solve_lower(a, step, s)
            _solve_upper(a, step, s)
            wall = _walk(theta, active, step, s, limits, positive, 1.0)
        else:
            for q in range(independent):
                step[q] = -a[independent, q]  # already L^-1 times the Gram column
            _solve_upper(a, step, independent)
            step[independent] = 1.0
            _drop_noise(gram, active, step, independent + 1)
            slope = 0.0
            for p in range(independent + 1):
                i = active[p]
                slope += step[p] * (limits[i] if theta[i] > 0.0 else -limits[i])
            if slope > 0.0:
                for p in range(independent + 1):
                    step[p] = -step[p]
            wall = _walk(theta, active, step, independent + 1, limits, positive, np.inf)
        _gradient(gram, target, theta, g, size)
        if wall < 0:
            return True
    return False


@njit(cache=True, nogil=True, fastmath=_SUMS)
def _rounding(gram, theta, scale, size):
    """Error that rounding alone may leave in a correlation, per unit of column norm."""
    total = scale
    for j in range(size):
        if theta[j] != 0.0:
            total += abs(theta[j]) * np.sqrt(gram[j, j])
    return 8.9e-16 * total


@njit(cache=True, nogil=True, fastmath=_SUMS)
def _epoch(gram, limits, theta, g, size, positive):
    """One cyclic sweep; returns the largest move and whether any sign changed."""
    biggest = 0.0
    changed = False
    for j in range(size):
        d = gram[j, j]
        if limits[j] == np.inf or d <= 0.0:
            continue
        old = theta[j]
        if old == 0.0:  # the common case, without a division
            if positive:
                if g[j] <= limits[j]:
                    continue
            elif abs(g[j]) <= limits[j]:
                continue
        new = _soft(g[j] + d * old, limits[j], positive) / d
        if new != old:
            delta = new - old
            theta[j] = new
            for i in range(size):
                g[i] -= delta * gram[j, i]
            biggest = max(biggest, abs(delta) * np.sqrt(d))
            if (new > 0.0) != (old > 0.0) or (new < 0.0) != (old < 0.0):
                changed = True
    return biggest, changed


@njit(cache=True, nogil=True, fastmath=_SUMS)
def _let_in(gram, limits, theta, g, size, positive):
    """Move the zero entry that violates its limit most; its violation per unit of norm, 0 if there is none."""
    best, worst = -1, 0.0
    for j in range(size):
        d = gram[j, j]
        if theta[j] != 0.0 or limits[j] == np.inf or d <= 0.0:
            continue
        miss = ((g[j] if positive else abs(g[j])) - limits[j]) / np.sqrt(d)
        if miss > worst:
            best, worst = j, miss
    if best >= 0:
        delta = _soft(g[best], limits[best], positive) / gram[best, best]
        theta[best] = delta
        for i in range(size):
            g[i] -= delta * gram[best, i]
    return worst


@njit(cache=True, nogil=True, fastmath=_SUMS)
def solve_gram(gram, target, limits, theta, g, size, scale, tol, max_epochs, positive):
    """Minimise 0.5 theta'G theta - target'theta + sum limits |theta| over the first ``size`` entries.

    Cyclic coordinate descent finds most signs, Newton steps on the nonzero entries the values. If the signs
    have not settled after some epochs (nearly dependent columns), entries are let in one at a time, each
    followed by the exact minimum within its orthant: this ends after finitely many steps. Entries with an
    infinite limit stay zero. On return ``g = target - G theta``. Returns the steps used, negative if the
    accuracy ``tol * scale`` (or what rounding allows) was not reached.
    """
    _gradient(gram, target, theta, g, size)
    for epoch in range(1, min(16, max_epochs) + 1):
        biggest, changed = _epoch(gram, limits, theta, g, size, positive)
        if (not changed or epoch >= _EPOCHS_IF_MANY) and count_nonzero(theta, size) > _MANY:
            break
        if biggest <= tol * scale or not changed or epoch % 4 == 0:
            _newton(gram, target, limits, theta, g, size, np.int64(12), positive)
            allowed = max(tol * scale, _rounding(gram, theta, scale, size))
            if _worst_violation(gram, limits, theta, g, size, positive) <= allowed:
                return epoch
    allowed = max(tol * scale, _rounding(gram, theta, scale, size))
    steps = solve_active_set(gram, target, limits, theta, g, size, allowed, max_epochs, positive)
    if steps > 0:
        allowed = max(tol * scale, _rounding(gram, theta, scale, size))
        if _worst_violation(gram, limits, theta, g, size, positive) <= allowed:
            return min(16 + steps, max_epochs)
    _gradient(gram, target, theta, g, size)
    best = np.inf
    stalled = 0
    for step in range(17, max_epochs + 1):
        reached = _newton(gram, target, limits, theta, g, size, 2 * size + 20, positive)
        allowed = max(tol * scale, _rounding(gram, theta, scale, size))
        worst = _worst_violation(gram, limits, theta, g, size, positive)
        if worst <= allowed:
            return step
        stalled = 0 if worst < 0.9 * best else stalled + 1
        best = min(best, worst)
        entered = _let_in(gram, limits, theta, g, size, positive)
        if stalled > 25 or (entered <= allowed and (stalled > 5 or not reached)):
            return -step  # rounding goes in circles: what is left shows in the duality gap
    return -max_epochs


@njit(cache=True, nogil=True)
def solve_part(gram, target, limits, theta, g, size, scale, tol, max_epochs, positive):
    """`solve_gram` on the entries with a finite limit alone where most are idle; ``g`` is filled for all."""
    part = np.empty(size, dtype=np.int64)
    count = np.int64(0)
    for j in range(size):
        if limits[j] < np.inf:
            part[count] = j
            count += 1
    few_gram, few_target, few_limits, few, few_g = gram, target, limits, theta, g
    whole = 2 * count > size
    if whole:
        count = np.int64(size)
    else:
        few_gram, few_target, few_limits = np.empty((count, count)), np.empty(count), np.empty(count)
        few, few_g = np.empty(count), np.empty(count)
        for p in range(count):
            j = part[p]
            few_target[p], few_limits[p], few[p] = target[j], limits[j], theta[j]
            for q in range(count):
                few_gram[p, q] = gram[j, part[q]]
    epochs = solve_gram(few_gram, few_target, few_limits, few, few_g, count, scale, tol, max_epochs, positive)
    if whole:
        return epochs
    for j in range(size):
        theta[j] = 0.0
    for p in range(count):
        theta[part[p]] = few[p]
    _gradient(gram, target, theta, g, size)
    return epochs


@njit(cache=True, nogil=True, fastmath=_SUMS)
def learn_direction(products, a, known, size, error, norms, slack, fresh, rest_squared, rest):
    """Products with a new direction, from those with a vector of which ``a`` lies in the directions known.

    ``size`` is the length of what is new in it. What the directions leave of each column shrinks accordingly.
    """
    for low in range(0, norms.shape[0], 512):
        high = min(low + 512, norms.shape[0])
        for i in range(low, high):
            fresh[i] = products[i]
        for k in range(a.shape[0]):
            factor = a[k]
            for i in range(low, high):
                fresh[i] -= factor * known[k, i]
        for i in range(low, high):
            fresh[i] /= size
            certain = max(abs(fresh[i]) - error * norms[i], 0.0)
            rest_squared[i] -= certain * certain
            rest[i] = np.sqrt(max(rest_squared[i], 0.0) + 4.0 * slack * norms[i] * norms[i])


@njit(cache=True, nogil=True, fastmath=_SUMS)
def exceeding_bounds(
    products, coefficients, n_directions, rest, perpendicular, norms, error, limits, skip, found, one_sided
):
    """Collect the features whose correlation with r cannot be shown to stay below its limit.

    r = sum_k coefficients_k q_k + a remainder of length ``perpendicular`` orthogonal to all q_k;
    ``products[k] = Phi'q_k`` and ``rest_i`` is the norm of what is left of phi_i. Fills ``found`` and returns how many.
    """
    count = 0
    n = norms.shape[0]
    part = np.empty(512)
    for low in range(0, n, 512):
        high = min(low + 512, n)
        for i in range(low, high):
            part[i - low] = 0.0
        for k in range(n_directions):
            a = coefficients[k]
            for i in range(low, high):
                part[i - low] += a * products[k, i]
        for i in range(low, high):
            value = part[i - low] if one_sided else abs(part[i - low])
            bound = value + perpendicular * rest[i] + error * norms[i]
            if skip[i] < 0 and norms[i] > 0.0 and not bound < limits[i]:  # NaN counts as doubtful
                found[count] = i
                count += 1
    return count


@njit(cache=True, nogil=True, fastmath=_SUMS)
def nearest_limits(products, limits, norms, skip, scale, most, one_sided):
    """Collect the ``most`` features whose scaled product comes nearest to its limit, per unit of norm, nearest first.

    Returns them, and how many products exceed their limit unscaled. Only limits above 0 and below infinity count.
    """
    keys = np.empty(most)
    chosen = np.empty(most, dtype=np.intp)
    size = np.int64(0)
    exceeding = np.int64(0)
    for i in range(norms.shape[0]):
        limit = limits[i]
        if skip[i] >= 0 or not norms[i] > 0.0 or not limit > 0.0 or limit == np.inf:
            continue
        value = products[i] if one_sided else abs(products[i])
        if value > limit:
            exceeding += 1
        key = (value * scale - limit) / norms[i]
        if size == most and key <= keys[most - 1]:
            continue
        if size < most:
            size += 1
        p = size - 1
        while p > 0 and keys[p - 1] < key:
            keys[p] = keys[p - 1]
            chosen[p] = chosen[p - 1]
            p -= 1
        keys[p] = key
        chosen[p] = i
    return chosen[:size], exceeding


@njit(cache=True, nogil=True, fastmath=_SUMS)
def reaching_limits(products, norms, error, limits, skip, found, one_sided):
    """Collect the features whose product may reach its limit; ``error`` is per unit of norm. Returns how many."""
    count = 0
    for i in range(norms.shape[0]):
        value = products[i] if one_sided else abs(products[i])
        if not value + error * norms[i] < limits[i] and skip[i] < 0 and norms[i] > 0.0:
            found[count] = i
            count += 1
    return count


@njit(cache=True, nogil=True, fastmath=_SUMS)
def cyclic_dense(rows, index, limits, theta, residual, squares, epochs, tol, positive):
    """Plain cyclic coordinate descent on the columns ``rows[index]``; returns the epochs done.

    ``limits``, ``theta`` and ``squares`` belong to ``index``. Stops early once nothing moves by more than ``tol``.
    """
    n_samples = residual.shape[0]
    for epoch in range(epochs):
        biggest = 0.0
        for j in range(index.shape[0]):
            d = squares[j]
            if limits[j] == np.inf or d <= 0.0:
                continue
            row = rows[index[j]]
            old = theta[j]
            dot = 0.0
            for i in range(n_samples):
                dot += row[i] * residual[i]
            new = _soft(dot + d * old, limits[j], positive) / d
            if new != old:
                delta = new - old
                theta[j] = new
                for i in range(n_samples):
                    residual[i] -= delta * row[i]
                biggest = max(biggest, abs(delta) * np.sqrt(d))
        if biggest <= tol:
            return epoch + 1
    return epochs


@njit(cache=True, nogil=True, fastmath=_SUMS)
def cyclic_sparse(data, indices, indptr, index, limits, theta, residual, squares, epochs, tol, positive):
    """Plain cyclic coordinate descent on the CSC columns ``index``, as `cyclic_dense`."""
    for epoch in range(epochs):
        biggest = 0.0
        for j in range(index.shape[0]):
            d = squares[j]
            if limits[j] == np.inf or d <= 0.0:
                continue
            start, stop = indptr[index[j]], indptr[index[j] + 1]
            old = theta[j]
            dot = 0.0
            for k in range(start, stop):
                dot += data[k] * residual[indices[k]]
            new = _soft(dot + d * old, limits[j], positive) / d
            if new != old:
                delta = new - old
                theta[j] = new
                for k in range(start, stop):
                    residual[indices[k]] -= delta * data[k]
                biggest = max(biggest, abs(delta) * np.sqrt(d))
        if biggest <= tol:
            return epoch + 1
    return epochs


@njit(cache=True, nogil=True, fastmath=_SUMS)
def block_gram_epochs(gram, limits, starts, steepest, theta, g, epochs, tol):
    """Block coordinate descent on groups of rows of theta (size, L), real or complex, through the Gram matrix.

    Minimises 0.5 tr(theta^H G theta) - Re tr(target^H theta) + sum_k limits_k ||theta_k||, where group k holds the
    rows from starts[k] on and ``steepest`` is the largest eigenvalue of its block of G: exact steps for single
    rows, majorised ones for larger groups. ``g = target - G theta`` comes in and goes out. Returns the epochs
    done; stops once no group moves by more than ``tol`` (times its norm).
    """
    size, n_targets = theta.shape
    z = np.empty_like(theta)
    for epoch in range(epochs):
        biggest = 0.0
        for k in range(starts.shape[0] - 1):
            d = steepest[k]
            limit = limits[k]
            if limit == np.inf or d <= 0.0:
                continue
            squared = 0.0
            for j in range(starts[k], starts[k + 1]):
                for c in range(n_targets):
                    z[j, c] = g[j, c] + d * theta[j, c]
                    squared += z[j, c].real * z[j, c].real + z[j, c].imag * z[j, c].imag
            length = np.sqrt(squared)
            shrink = 0.0
            if length > limit:
                shrink = (1.0 - limit / length) / d
            moved = 0.0
            for j in range(starts[k], starts[k + 1]):
                for c in range(n_targets):
                    z[j, c] = shrink * z[j, c] - theta[j, c]
                    moved += z[j, c].real * z[j, c].real + z[j, c].imag * z[j, c].imag
            if moved > 0.0:
                for j in range(starts[k], starts[k + 1]):
                    for c in range(n_targets):
                        theta[j, c] += z[j, c]
                        if shrink == 0.0:
                            theta[j, c] = 0.0
                    for i in range(size):
                        a = gram[i, j]
                        for c in range(n_targets):
                            g[i, c] -= a * z[j, c]
                biggest = max(biggest, np.sqrt(moved * d))
        if biggest <= tol:
            return epoch + 1
    return epochs
