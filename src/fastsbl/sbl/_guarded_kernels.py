"""Compiled outer iterations under a guard: only its members can matter, and all of them are in memory.

Members are numbered from 0; ``rows`` holds their columns, ``gram[slot[i]]`` the products of member i with all,
once they are known. The reference is the model of the last look at all
features: ``kept`` are its members, ``kept_gamma`` their variances, ``kept_factor`` the Cholesky factor of
``lam I + B'B``.
"""

import numpy as np
from numba import njit

from fastsbl.lasso._active_set_kernels import copy_into, count_nonzero
from fastsbl.lasso._kernels import _cholesky, _solve_lower, _solve_upper, solve_gram

_SUMS = {"reassoc", "contract", "nsz"}

# why the loop ended
SETTLED = 0
"""The change is below the tolerance, nothing is left in the model, or the steps asked for are done."""
LEFT = 1
"""The residual or the model has left the room of the guard: all features must be looked at."""
HARD = 2
"""A factorisation met rounding, members kept joining, or there is no more room: the careful path must take over."""

_RELATIVE = 1e-9
_NOTHING = 1e-13
_MOST_ROUNDS = 50


@njit(cache=True, nogil=True, fastmath=_SUMS)
def _inner_product(a, b):
    total = 0.0
    for j in range(a.shape[0]):
        total += a[j] * b[j]
    return total


@njit(cache=True, nogil=True, fastmath=_SUMS)
def _subtract(target, factor, row):
    for j in range(row.shape[0]):
        target[j] -= factor * row[j]


@njit(cache=True, nogil=True)
def _know_gram(rows, gram, slot, used, j):
    """Fill the Gram row of member j, at ``gram[slot[j]]``; whether there was room for it."""
    if slot[j] < 0:
        if used[0] == gram.shape[0]:
            return False
        for i in range(rows.shape[0]):
            gram[used[0], i] = _inner_product(rows[j], rows[i])
        slot[j] = used[0]
        used[0] += 1
    return True


@njit(cache=True, nogil=True)
def factor_model(gram, slot, members, root, lam, factor):
    """Factor ``lam I + B'B`` of the members given; whether rounding left it positive definite."""
    s = members.shape[0]
    for p in range(s):
        for q in range(p + 1):
            factor[p, q] = root[p] * root[q] * gram[slot[members[p]], members[q]]
        factor[p, p] += lam
    return _cholesky(factor, s) == s


@njit(cache=True, nogil=True)
def split_row(rows, gram, slot, members, root, factor, i, left, x):
    """What the model leaves of member i (``phi_i - B x``), and the coefficients x of its ridge regression."""
    s = members.shape[0]
    for p in range(s):
        x[p] = root[p] * gram[slot[members[p]], i]
    _solve_lower(factor, x, s)
    _solve_upper(factor, x, s)
    copy_into(left, rows[i], left.shape[0])
    for p in range(s):
        _subtract(left, x[p] * root[p], rows[members[p]])


@njit(cache=True, nogil=True)
def _weight(rows, gram, slot, members, root, factor, lam, i, left, x):
    """``u_i`` in the ridge-residual form."""
    split_row(rows, gram, slot, members, root, factor, i, left, x)
    s = members.shape[0]
    return np.sqrt(_inner_product(left, left) / lam + _inner_product(x[:s], x[:s]))


@njit(cache=True, nogil=True)
def _growth(
    rows, gram, slot, kept, kept_root, kept_factor, lam, members, gamma, earlier, spread, have_spread, left, x
):  # fmt: skip
    """``u_new >= u_kept / factor``: see `Look.move_to`."""
    s, n_samples = members.shape[0], rows.shape[1]
    total = 0.0
    for p in range(s):
        i = members[p]
        if not gamma[p] > earlier[i]:
            continue
        at = slot[i]
        if not have_spread[at]:
            split_row(rows, gram, slot, kept, kept_root, kept_factor, i, left, x)
            for j in range(n_samples):
                spread[at, j] = left[j] / np.sqrt(lam)
            for k in range(kept.shape[0]):
                spread[at, n_samples + k] = x[k]
            have_spread[at] = True
        for q in range(p + 1):
            j = members[q]
            if gamma[q] > earlier[j]:
                square = _inner_product(spread[at], spread[slot[j]]) ** 2
                square *= (gamma[p] - earlier[i]) * (gamma[q] - earlier[j])
                total += square if p == q else 2.0 * square
    return np.sqrt(1.0 + np.sqrt(total)) * (1.0 + _RELATIVE) if total > 0.0 else 1.0


@njit(cache=True, nogil=True)
def _gap(residual, y, penalty, ratio, one_sided):
    """Duality gap at the best feasible multiple, at most 1, of the residual."""
    squared = _inner_product(residual, residual)
    along = _inner_product(residual, y)
    t = 1.0
    if squared > 0.0:
        most = np.inf if ratio == 0.0 else 1.0 / ratio
        t = min(max(along / squared, 0.0 if one_sided else -most), most, 1.0)
    return max(0.5 * squared + penalty - t * along + 0.5 * t * t * squared, 0.0)


@njit(cache=True, nogil=True)
def follow(
    rows, norms, targets, lower, gram, slot, used, spread, have_spread, y, lam, kept, kept_gamma, kept_factor,
    kept_residual, drift, widening, theta, weights, before, residual, positive, tol, n_effective, most_steps, records,
):  # fmt: skip
    """Run outer iterations from ``theta`` and ``weights`` (of its nonzero entries) for as long as the guard holds.

    ``theta``, ``weights``, ``residual`` and ``before`` (contributions to the model one iteration earlier) are left as
    the last finished iteration had them; row k of ``records`` receives loss, change, support, gap and members looked
    at singly of iteration k + 1. Returns the iterations finished and why there are no more.
    """
    m, n_samples = rows.shape
    scale = np.sqrt(_inner_product(y, y))
    earlier = np.zeros(m)
    kept_root = np.sqrt(kept_gamma)
    for k in range(kept.shape[0]):
        earlier[kept[k]] = kept_gamma[k]
        if not _know_gram(rows, gram, slot, used, kept[k]):
            return 0, HARD
    left, x = np.empty(n_samples), np.empty(m)
    limits = np.empty(m)
    fresh_residual = np.empty(n_samples)
    g = np.empty(m)
    inside = np.zeros(m, dtype=np.bool_)
    current = np.zeros(m)
    fresh_weights = np.empty(m)
    steps = 0
    while True:
        # the model of the solution at hand, and what it is worth
        members = np.empty(count_nonzero(theta, m), dtype=np.int64)
        s = np.int64(0)
        for i in range(m):
            if theta[i] != 0.0:
                members[s] = i
                s += 1
        gamma = np.empty(s)
        largest, finest, moved, fit = 0.0, 0.0, 0.0, _inner_product(residual, residual) / lam
        for i in range(m):
            current[i] = 0.0
        for p in range(s):
            i = members[p]
            if not _know_gram(rows, gram, slot, used, i):
                return steps, HARD
            gamma[p] = abs(theta[i]) / weights[i]
            current[i] = gamma[p] * norms[i] ** 2
            largest = max(largest, current[i])
            finest = max(finest, norms[i] / weights[i])
            fit += theta[i] ** 2 / gamma[p]
        root = np.sqrt(gamma)
        factor = np.empty((s, s))
        if not factor_model(gram, slot, members, root, lam, factor):
            return steps, HARD
        if steps > 0:
            value = n_effective * np.log(lam) + fit
            for p in range(s):
                value += 2.0 * np.log(factor[p, p]) - np.log(lam)
            for i in range(m):
                moved = max(moved, abs(current[i] - before[i]))
            change = moved / largest if s > 0 else (0.0 if before.max() == 0.0 else np.inf)
            records[steps - 1, 0] = value
            records[steps - 1, 1] = change
            records[steps - 1, 2] = s
            if change <= max(tol, 1e-15 * scale * finest / largest if s > 0 else 0.0) or steps >= most_steps:
                return steps, SETTLED
        if s == 0 or largest <= _NOTHING * lam:
            return steps, SETTLED
        # the next weights, and how far the others may have sunk
        widest = _growth(
            rows, gram, slot, kept, kept_root, kept_factor, lam, members, gamma, earlier, spread, have_spread, left, x
        )
        if not widest <= widening:
            return steps, LEFT
        for i in range(m):
            inside[i] = False
        for p in range(s):
            i = members[p]
            inside[i] = True
            fresh_weights[i] = _weight(rows, gram, slot, members, root, factor, lam, i, left, x)
            limits[i] = lam * fresh_weights[i]
        # the lasso on the members, from the coefficients at hand; members outside join if they violate
        taking_part, values = members, np.empty(s)
        for p in range(s):
            values[p] = theta[members[p]]
        singles = 0
        rounds = 0
        while True:
            k = taking_part.shape[0]
            small = np.empty((k, k))
            small_target, small_limits, small_g = np.empty(k), np.empty(k), np.empty(k)
            for p in range(k):
                i = taking_part[p]
                small_target[p], small_limits[p] = targets[i], limits[i]
                for q in range(k):
                    small[p, q] = gram[slot[i], taking_part[q]]
            solve_gram(small, small_target, small_limits, values, small_g, k, scale, 1e-14,
                       np.int64(100_000), positive)  # fmt: skip
            copy_into(fresh_residual, y, n_samples)
            copy_into(g, targets, m)
            size = scale
            for p in range(k):
                if values[p] != 0.0:
                    i = taking_part[p]
                    _subtract(fresh_residual, values[p], rows[i])
                    _subtract(g, values[p], gram[slot[i]])
                    size += abs(values[p]) * norms[i]
            far = 0.0
            for j in range(n_samples):
                far += (fresh_residual[j] - kept_residual[j]) ** 2
            if not np.sqrt(far) <= drift:
                return steps, LEFT
            joined = 0
            for i in range(m):
                if inside[i]:
                    continue
                bound = lam * lower[i] / widest * (1.0 - _RELATIVE)
                high = (g[i] if positive else abs(g[i])) + 1e-12 * size * norms[i]
                if high < bound or norms[i] == 0.0:
                    continue
                exact = _inner_product(rows[i], fresh_residual)
                if not positive:
                    exact = abs(exact)
                if exact < bound:
                    continue
                singles += 1
                weight = _weight(rows, gram, slot, members, root, factor, lam, i, left, x)
                if exact > lam * weight * (1.0 + 1e-12):
                    inside[i] = True
                    fresh_weights[i] = weight
                    limits[i] = lam * weight
                    if not _know_gram(rows, gram, slot, used, i):
                        return steps, HARD
                    joined += 1
            if joined == 0:
                break
            rounds += 1
            if rounds > _MOST_ROUNDS:
                return steps, HARD
            more = np.empty(k + joined, dtype=taking_part.dtype)
            more_values = np.zeros(k + joined)
            copy_into(more, taking_part, k)
            copy_into(more_values, values, k)
            known = np.zeros(m, dtype=np.bool_)
            for p in range(k):
                known[taking_part[p]] = True
            for i in range(m):
                if inside[i] and not known[i]:
                    more[k] = i
                    k += 1
            taking_part, values = more, more_values
        # done: this is the solution at hand now
        copy_into(before, current, m)
        for i in range(m):
            theta[i] = 0.0
        penalty, ratio = 0.0, 0.0
        for p in range(taking_part.shape[0]):
            i = taking_part[p]
            theta[i] = values[p]
            weights[i] = fresh_weights[i]
            penalty += abs(values[p]) * limits[i]
            if limits[i] > 0.0:
                ratio = max(ratio, (small_g[p] if positive else abs(small_g[p])) / limits[i])
        copy_into(residual, fresh_residual, n_samples)
        records[steps, 3] = _gap(residual, y, penalty, ratio, positive)
        records[steps, 4] = singles
        steps += 1
