"""Compiled bounds over all features: one loop, no products with Phi."""

import numpy as np
from numba import njit

_SUMS = {"reassoc", "contract", "nsz"}


@njit(cache=True, nogil=True)
def _carry(old_upper, old_lower, norms, factor, drift, scale, room, widening, upper, lower, start, stop, found):
    """Carry bounds to a residual that has moved by ``drift`` and a model under which weights shrink by ``factor``.

    Collects the features that these bounds would not clear with some room to spare, and returns how many there are.
    """
    count = 0
    for i in range(start, stop):
        high = old_upper[i] + drift * norms[i]
        low = old_lower[i] / factor
        upper[i] = high
        lower[i] = low
        if norms[i] > 0.0 and not (high + room * norms[i]) * widening < scale * low:
            found[count] = i
            count += 1
    return count


@njit(cache=True, nogil=True, fastmath=_SUMS)
def _add_squares(rows, c, count, row, out):
    """out_i += |rows c_i|^2 for a block of features."""
    for k in range(rows.shape[0]):
        for i in range(count):
            row[i] = 0.0
        for j in range(rows.shape[1]):
            factor = rows[k, j]
            if factor != 0.0:
                for i in range(count):
                    row[i] += factor * c[j, i]
        for i in range(count):
            out[i] += row[i] * row[i]


@njit(cache=True, nogil=True, fastmath=_SUMS)
def _bound_correlations(
    index, products, n_directions, a, rest, perpendicular, product_error, norms, one_sided, upper
):  # fmt: skip
    """``upper_i >= |phi_i' r|`` (no bars if one-sided) for the features ``index``, where that is lower.

    r has the coordinates ``a`` in the directions whose products are known, and a rest of length ``perpendicular``.
    """
    block = 512
    part = np.empty(block)
    for low in range(0, index.shape[0], block):
        count = min(block, index.shape[0] - low)
        for i in range(count):
            part[i] = 0.0
        for k in range(n_directions):
            factor = a[k]
            if factor != 0.0:
                for i in range(count):
                    part[i] += factor * products[k, index[low + i]]
        for i in range(count):
            place = index[low + i]
            value = part[i] if one_sided else abs(part[i])
            high = value + perpendicular * rest[place] + product_error * norms[place]
            if not upper[place] < high:
                upper[place] = high


@njit(cache=True, nogil=True)
def _still_open(index, upper, lower, norms, scale, room, widening, found):
    """Features of ``index`` that the bounds do not clear with room to spare; returns how many."""
    count = 0
    for place in index:
        if not (upper[place] + room * norms[place]) * widening < scale * lower[place]:
            found[count] = place
            count += 1
    return count


@njit(cache=True, nogil=True, fastmath=_SUMS)
def _bound_weights(
    index, products, n_directions, rest, first, low_rank, across, slip, widest, lam, errors, slack, system,
    norms, lower,
):  # fmt: skip
    """``lower_i <= u_i`` for the features ``index``, where that is higher than what is there.

    All there is to go by are the products with a few directions Q. With c = Q'phi and e the norm of what is left of
    phi: ``u^2 >= c'S_QQ^-1 c + (e - |across c|)^2 / widest``. The first term is ``|first c|^2``, or, if ``low_rank``,
    ``(|c|^2 - |first c|^2) / lam``. ``errors`` bounds the rounding of c and ``slip`` that of ``|across c|``, per unit
    of norm, ``system`` that of ``first``, relative; ``rest`` is an upper bound on e.
    """
    block = 128
    c = np.empty((n_directions, block))
    inside = np.empty(block)
    shrunk = np.empty(block)
    beside = np.empty(block)
    row = np.empty(block)
    doubt = 4.0 * errors * (2.0 + errors) + 8.0 * slack
    sure = max(1.0 - system, 0.0)
    for low in range(0, index.shape[0], block):
        count = min(block, index.shape[0] - low)
        for i in range(count):
            inside[i] = 0.0
            shrunk[i] = 0.0
            beside[i] = 0.0
        for k in range(n_directions):
            for i in range(count):
                c[k, i] = products[k, index[low + i]]
            for i in range(count):
                inside[i] += c[k, i] * c[k, i]
        _add_squares(first, c, count, row, shrunk)
        _add_squares(across, c, count, row, beside)
        for i in range(count):
            place = index[low + i]
            norm = norms[place]
            e_high = rest[place]
            e_low = np.sqrt(max(e_high * e_high - norm * norm * doubt, 0.0))
            length = np.sqrt(beside[i])
            gap = max(e_low - length - slip * norm, length - slip * norm - e_high)
            gap = max(gap, 0.0)
            square = shrunk[i] * sure
            if low_rank:
                square = max(inside[i] * sure - shrunk[i], 0.0) / lam
            seen = max(np.sqrt(square) - errors * norm / np.sqrt(lam), 0.0)
            least = np.sqrt(seen * seen + gap * gap / widest)
            if not lower[place] > least:
                lower[place] = least


@njit(cache=True, nogil=True)
def bound_features(
    old_upper, old_lower, factor, drift, lam, room, widening, norms, one_sided, products, n_directions, rest,
    a, perpendicular, product_error, weigh, first, low_rank, across, slip, widest, errors, slack, system,
    upper, lower, found, start, stop,
):  # fmt: skip
    """Bounds on ``|phi_i' r|`` and ``u_i`` of the features from ``start`` to ``stop``.

    Earlier bounds are carried on; what they do not clear with room to spare is bounded by the products in memory.
    """
    count = _carry(
        old_upper, old_lower, norms, factor, drift, lam, room, widening, upper, lower, start, stop, found[start:stop]
    )
    if count == 0:
        return
    index = found[start : start + count]
    _bound_correlations(
        index, products, n_directions, a, rest, perpendicular, product_error, norms, one_sided, upper
    )  # fmt: skip
    if not weigh:
        return
    count = _still_open(index, upper, lower, norms, lam, 0.0, widening, index)
    if count:
        _bound_weights(
            index[:count], products, n_directions, rest, first, low_rank, across, slip, widest, lam,
            errors, slack, system, norms, lower,
        )  # fmt: skip


@njit(cache=True, nogil=True)
def over_limit(upper, lower, norms, scale, drift, widening, skip, found):
    """Collect features (skip < 0) with ``(upper + norm drift) widening >= scale lower``; returns how many."""
    count = 0
    for i in range(upper.shape[0]):
        # written so that NaN counts as doubtful
        if skip[i] < 0 and norms[i] > 0.0 and not (upper[i] + norms[i] * drift) * widening < scale * lower[i]:
            found[count] = i
            count += 1
    return count


@njit(cache=True, nogil=True)
def _first_affordable(upper, lower, norms, scale, drifts, widenings, most, skip):
    """The first of several drifts and widenings with which `over_limit` would find at most ``most`` features; or -1."""
    for k in range(drifts.shape[0]):
        count = 0
        for i in range(upper.shape[0]):
            over = not (upper[i] + norms[i] * drifts[k]) * widenings[k] < scale * lower[i]
            if over and skip[i] < 0 and norms[i] > 0.0:
                count += 1
                if count > most[k]:
                    break
        if count <= most[k]:
            return k
    return -1


@njit(cache=True, nogil=True)
def best_room(upper, lower, norms, scale, drifts, widenings, most, skip, found):
    """The first affordable drift and widening (-1 if none is), and how many features stand in ``found`` for it."""
    best = _first_affordable(upper, lower, norms, scale, drifts, widenings, most, skip)
    if best < 0:
        return best, 0
    return best, over_limit(upper, lower, norms, scale, drifts[best], widenings[best], skip, found)


@njit(cache=True, nogil=True)
def residual_products(gram, index, theta, target_products, out):
    """``Phi' (y - Phi_A theta) = Phi' y - Phi' Phi_A theta``, a stretch of features at a time."""
    n = out.size
    for low in range(0, n, 2048):
        high = min(low + 2048, n)
        for i in range(low, high):
            out[i] = target_products[i]
        whole = index.size - index.size % 4
        for k in range(0, whole, 4):  # four rows at a time: `out` is read and written once for them
            first, second, third, fourth = gram[index[k]], gram[index[k + 1]], gram[index[k + 2]], gram[index[k + 3]]
            a, b, c, d = theta[k], theta[k + 1], theta[k + 2], theta[k + 3]
            for i in range(low, high):
                out[i] -= (a * first[i] + b * second[i]) + (c * third[i] + d * fourth[i])
        for k in range(whole, index.size):
            row = gram[index[k]]
            factor = theta[k]
            for i in range(low, high):
                out[i] -= factor * row[i]
