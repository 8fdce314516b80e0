"""Compiled bounds over all features: one loop, no products with Phi."""

import numpy as np
from numba import njit

_SUMS = {"reassoc", "contract", "nsz"}


@njit(cache=True, nogil=True, fastmath=_SUMS)
def bound_features(
    products, n_directions, a, rest, perpendicular, product_error, inner, across, across_norm, widest, lam, errors,
    slack, norms, one_sided, upper, lower, start, stop,
):  # fmt: skip
    """Bound correlations, ``upper_i >= |phi_i' r|`` (no bars if one-sided), and weights, ``lower_i <= u_i``.

    All there is to go by are the products with a few directions Q.
    With c = Q'phi and e the norm of what is left of phi: ``u^2 >= |inner c|^2 + (e - |across c|)^2 / widest``.
    ``errors`` bounds the rounding of c, per unit of norm; ``rest`` is an upper bound on e.
    """
    block = 256
    part = np.empty(block)
    first = np.empty(block)
    second = np.empty(block)
    row = np.empty(block)
    doubt = 4.0 * errors * (2.0 + errors) + 8.0 * slack
    for low in range(start, stop, block):
        high = min(low + block, stop)
        for i in range(high - low):
            part[i] = 0.0
            first[i] = 0.0
            second[i] = 0.0
        for k in range(n_directions):
            for i in range(high - low):
                part[i] += a[k] * products[k, low + i]
            for i in range(high - low):
                row[i] = 0.0
            for j in range(k + 1):
                factor = inner[k, j]
                for i in range(high - low):
                    row[i] += factor * products[j, low + i]
            for i in range(high - low):
                first[i] += row[i] * row[i]
            for i in range(high - low):
                row[i] = 0.0
            for j in range(n_directions):
                factor = across[k, j]
                for i in range(high - low):
                    row[i] += factor * products[j, low + i]
            for i in range(high - low):
                second[i] += row[i] * row[i]
        for i in range(high - low):
            norm = norms[low + i]
            e_high = rest[low + i]
            e_low = np.sqrt(max(e_high * e_high - norm * norm * doubt, 0.0))
            value = part[i] if one_sided else abs(part[i])
            upper[low + i] = value + perpendicular * e_high + product_error * norm
            length = np.sqrt(second[i])
            slip = across_norm * errors * norm
            gap = max(e_low - length - slip, length - slip - e_high)
            gap = max(gap, 0.0)
            seen = max(np.sqrt(first[i]) - errors * norm / np.sqrt(lam), 0.0)
            lower[low + i] = np.sqrt(seen * seen + gap * gap / widest)


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
