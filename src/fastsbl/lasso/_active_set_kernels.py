"""A compiled active-set solver for the lasso on a Gram matrix, for supports of more than a few dozen.

Entries join in blocks, leave one at a time where the path to the minimum within their orthant meets zero, and
the Cholesky factor of the active block is updated, not recomputed. The objective falls with every step.

Here and in the other kernels of a fit there are loops where numpy has slices: assigning to a slice, and expressions
of several arrays, bring checks of shapes that take seconds to compile.
"""

import numpy as np
from numba import njit

_SUMS = {"reassoc", "contract", "nsz"}
_BLOCK = 24  # most entries that join at once
_PATIENCE = 50  # steps without a smaller violation
_NEAR = 0.5  # those whose violation is at least this share of the worst


@njit(cache=True, nogil=True)
def copy_into(target, source, count):
    for i in range(count):
        target[i] = source[i]


@njit(cache=True, nogil=True)
def count_nonzero(values, size):
    count = np.int64(0)
    for i in range(size):
        if values[i] != 0.0:
            count += 1
    return count


@njit(cache=True, nogil=True, fastmath=_SUMS)
def _append(factor, active, s, gram, j):
    """Add row j to the factor of the active block; whether the column is independent of the others."""
    row = factor[s]
    for p in range(s):
        total = gram[j, active[p]]
        for k in range(p):
            total -= row[k] * factor[p, k]
        row[p] = total / factor[p, p]
    total = gram[j, j]
    for k in range(s):
        total -= row[k] * row[k]
    if not total > 1e-12 * gram[j, j]:
        return False
    row[s] = np.sqrt(total)
    active[s] = j
    return True


@njit(cache=True, nogil=True)
def _delete(factor, active, s, p):
    """Take row p out of the factor of s rows, by rotations."""
    cosines = np.empty(s)
    sines = np.empty(s)
    for i in range(p, s - 1):
        active[i] = active[i + 1]
        row = factor[i]
        below = factor[i + 1]
        for k in range(p):
            row[k] = below[k]
        carried = below[p]
        for k in range(p, i):
            following = below[k + 1]
            row[k] = cosines[k] * carried + sines[k] * following
            carried = cosines[k] * following - sines[k] * carried
        following = below[i + 1]
        length = np.hypot(carried, following)
        cosines[i] = carried / length
        sines[i] = following / length
        row[i] = length


@njit(cache=True, nogil=True, fastmath=_SUMS)
def _solve(factor, b, s):
    """Solve L L' x = b in place."""
    for i in range(s):
        total = b[i]
        for k in range(i):
            total -= factor[i, k] * b[k]
        b[i] = total / factor[i, i]
    for i in range(s - 1, -1, -1):
        value = b[i] / factor[i, i]
        b[i] = value
        for k in range(i):
            b[k] -= value * factor[i, k]


@njit(cache=True, nogil=True, fastmath=_SUMS)
def _update(gram, factor, g, j, size):
    for i in range(size):
        g[i] -= factor * gram[j, i]


@njit(cache=True, nogil=True)
def _make_room(gram, limits, theta, g, factor, active, signs, s, j, size, positive):
    """Let entry j grow along its dependence on the active ones, which leaves the fit as it is, until one is zero.

    ``factor[s]`` is what `_append` left there. The entry at zero leaves; returns whether one did. With the violation
    of j the penalty falls.
    """
    step = np.empty(s)
    sign = 1.0 if g[j] > 0.0 else -1.0
    for p in range(s):
        step[p] = -sign * factor[s, p]
    for i in range(s - 1, -1, -1):
        value = step[i] / factor[i, i]
        step[i] = value
        for k in range(i):
            step[k] -= value * factor[i, k]
    widest = np.sqrt(gram[j, j])
    for p in range(s):
        widest = max(widest, abs(step[p]) * np.sqrt(gram[active[p], active[p]]))
    share, wall = np.inf, np.int64(-1)
    for p in range(s):
        i = active[p]
        if abs(step[p]) * np.sqrt(gram[i, i]) <= 1e-10 * widest:  # rounding alone
            step[p] = 0.0
        elif step[p] * signs[i] < 0.0 and (positive or limits[i] > 0.0) and -theta[i] / step[p] < share:
            share, wall = -theta[i] / step[p], p
    if wall < 0 or share <= 0.0:
        return False
    for p in range(s):
        if step[p] != 0.0:
            i = active[p]
            delta = -theta[i] if p == wall else share * step[p]
            theta[i] += delta
            _update(gram, delta, g, i, size)
    theta[j] += share * sign
    _update(gram, share * sign, g, j, size)
    signs[active[wall]] = 0.0
    _delete(factor, active, s, wall)
    return True


@njit(cache=True, nogil=True)
def solve_active_set(gram, target, limits, theta, g, size, allowed, most_steps, positive):
    """Minimise 0.5 theta'G theta - target'theta + sum limits |theta| from ``theta``, with ``g = target - G theta``.

    Returns the steps taken, negative if the optimality conditions could not be met to within ``allowed`` per unit of
    column norm, as where active columns are nearly dependent.
    """
    room = min(size, count_nonzero(theta, size) + 128)
    factor = np.empty((room, room))
    active = np.empty(room, dtype=np.int64)
    signs = np.zeros(size)
    s = np.int64(0)  # typed: a literal would compile what it is given to a second time
    for j in range(size):
        if theta[j] != 0.0:
            if _append(factor, active, s, gram, j):
                signs[j] = 1.0 if theta[j] > 0.0 else -1.0
                s += 1
            else:  # it depends on those before: begin without it
                _update(gram, -theta[j], g, j, size)
                theta[j] = 0.0
    step = np.empty(room)
    right = np.empty(room)
    before = np.empty(size)
    best, stalled = np.inf, np.int64(0)
    for count in range(1, most_steps + 1):
        copy_into(before, theta, size)
        # to the minimum within the orthant, dropping entries at its walls
        for p in range(s):
            step[p] = g[active[p]] - limits[active[p]] * signs[active[p]]
        copy_into(right, step, s)
        while s > 0:
            copy_into(step, right, s)
            _solve(factor, step, s)
            share, wall = 1.0, np.int64(-1)
            for p in range(s):
                j = active[p]
                if step[p] * signs[j] < 0.0 and (positive or limits[j] > 0.0):
                    reach = -theta[j] / step[p]
                    if reach < share or (wall < 0 and reach <= share):
                        share, wall = reach, p
            for p in range(s):
                theta[active[p]] += share * step[p]
            if wall < 0:
                break
            theta[active[wall]] = 0.0
            signs[active[wall]] = 0.0
            _delete(factor, active, s, wall)
            for p in range(wall, s - 1):
                right[p] = right[p + 1]
            s -= 1
            for p in range(s):
                right[p] *= 1.0 - share
        moved = False
        for j in range(size):
            if theta[j] != before[j]:
                _update(gram, theta[j] - before[j], g, j, size)
                moved = True
        # what violates its limit
        worst = 0.0
        for j in range(size):
            if signs[j] == 0.0 and limits[j] < np.inf and gram[j, j] > 0.0:
                miss = ((g[j] if positive else abs(g[j])) - limits[j]) / np.sqrt(gram[j, j])
                worst = max(worst, miss)
        stalled = np.int64(0) if worst < 0.9 * best else stalled + 1
        best = min(best, worst)
        if stalled > _PATIENCE:  # near copies go in circles
            return -count
        if worst <= allowed:
            copy_into(g, target, size)
            for j in range(size):
                if theta[j] != 0.0:
                    _update(gram, theta[j], g, j, size)
            for p in range(s):
                j = active[p]
                worst = max(worst, abs(g[j] - limits[j] * signs[j]) / np.sqrt(gram[j, j]))
            if worst <= allowed:
                return count
            if not moved:
                return -count
            continue
        if not moved and count > 1:
            return -count  # rounding: what joined had to leave at once
        if s + _BLOCK > room:
            room = min(size, 2 * room)
            larger = np.empty((room, room))
            for p in range(s):
                copy_into(larger[p], factor[p], s)
            factor = larger
            more = np.empty(room, dtype=np.int64)
            copy_into(more, active, s)
            active = more
            step, right = np.empty(room), np.empty(room)
        joined = 0
        for j in range(size):
            if signs[j] != 0.0 or limits[j] == np.inf or gram[j, j] <= 0.0 or s >= room or joined >= _BLOCK:
                continue
            miss = ((g[j] if positive else abs(g[j])) - limits[j]) / np.sqrt(gram[j, j])
            if miss < _NEAR * worst or miss <= allowed:
                continue
            sign = 1.0 if g[j] > 0.0 else -1.0
            joins = _append(factor, active, s, gram, j)
            if not joins and _make_room(gram, limits, theta, g, factor, active, signs, s, j, size, positive):
                s -= 1
                joins = _append(factor, active, s, gram, j)
                if not joins:
                    return -count
            if joins:
                signs[j] = sign
                s += 1
                joined += 1
        if joined == 0:
            return -count
    return -most_steps
