"""Compiled tests: one loop over the features, a handful of flops each, no products with Phi.

Every maximum is written as the minimum of upper bounds over multipliers mu >= 0, so that rounding can
only make a test keep more. ``slack`` is kappa * eps of the products' precision.
"""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def dome_maximum(t1, t, radius, psi, slack):
    """Return the maximum of phi'(eta - c) over a ball cut by one half-space."""
    t_squared = t * t
    q2 = max(t_squared - t1 * t1, 0.0) + slack * t_squared
    if psi <= -1.0:
        return radius * np.sqrt(q2 + t1 * t1)
    mu = t1 + psi * np.sqrt(q2) / np.sqrt(1.0 - psi * psi)
    if not mu > 0.0:
        mu = 0.0
    return radius * (np.sqrt(q2 + (t1 - mu) ** 2) - mu * psi)


@njit(cache=True, nogil=True)
def two_plane_maximum(t1, t2, t, radius, psi1, psi2, tau, slack, least_d):
    """Return the maximum of phi'(eta - c) over a ball cut by two half-spaces."""
    value = min(dome_maximum(t1, t, radius, psi1, slack), dome_maximum(t2, t, radius, psi2, slack))
    d = 1.0 - tau * tau
    k = d - psi1 * psi1 - psi2 * psi2 + 2.0 * tau * psi1 * psi2
    if d > least_d and k > least_d * d:
        a1 = (t1 - tau * t2) / d
        a2 = (t2 - tau * t1) / d
        q2 = max(t * t - a1 * t1 - a2 * t2, 0.0)
        root = np.sqrt(q2 * d / k)
        mu1 = max(0.0, a1 + root * (psi1 - tau * psi2) / d)
        mu2 = max(0.0, a2 + root * (psi2 - tau * psi1) / d)
        inside = t * t - 2.0 * (mu1 * t1 + mu2 * t2) + mu1 * mu1 + mu2 * mu2 + 2.0 * tau * mu1 * mu2
        inside = max(inside, 0.0) + slack * (t + mu1 + mu2) ** 2
        joint = radius * (np.sqrt(inside) - mu1 * psi1 - mu2 * psi2)
        value = min(value, joint)
    return value


@njit(cache=True, nogil=True)
def reject_by_ball(center, norms, limits, radius, margin, one_sided, rejected):
    for i in range(norms.shape[0]):
        if norms[i] == 0.0:
            rejected[i] = True
            continue
        value = center[i] if one_sided else abs(center[i])
        rejected[i] = value + (radius + margin) * norms[i] < limits[i]


@njit(cache=True, nogil=True)
def reject_by_dome(center, normal, norms, limits, radius, psi, slack, margin, one_sided, rejected):
    for i in range(norms.shape[0]):
        t = norms[i]
        if t == 0.0:
            rejected[i] = True
            continue
        bar = limits[i] - margin * t
        keep = not (center[i] + dome_maximum(normal[i], t, radius, psi, slack) < bar)
        if not keep and not one_sided:
            keep = not (-center[i] + dome_maximum(-normal[i], t, radius, psi, slack) < bar)
        rejected[i] = not keep


@njit(cache=True, nogil=True)
def reject_by_two_planes(
    center, first, second, norms, limits, radius, psi1, psi2, tau, slack, least_d, margin, one_sided, rejected
):
    for i in range(norms.shape[0]):
        t = norms[i]
        if t == 0.0:
            rejected[i] = True
            continue
        bar = limits[i] - margin * t
        t1, t2 = first[i], second[i]
        keep = not (center[i] + two_plane_maximum(t1, t2, t, radius, psi1, psi2, tau, slack, least_d) < bar)
        if not keep and not one_sided:
            keep = not (-center[i] + two_plane_maximum(-t1, -t2, t, radius, psi1, psi2, tau, slack, least_d) < bar)
        rejected[i] = not keep


@njit(cache=True, nogil=True)
def largest_ratio(correlations, limits, one_sided):
    """Return max |correlation| / limit over columns with a limit above 0 (those at 0 are unpenalised or empty)."""
    largest = 0.0
    for i in range(limits.shape[0]):
        if limits[i] > 0.0:
            value = correlations[i] if one_sided else abs(correlations[i])
            ratio = value / limits[i]
            if ratio > largest:
                largest = ratio
    return largest


@njit(cache=True, nogil=True)
def deepest_plane(center, first, shift, norms, limits, skip, parallel, one_sided):
    """Return the column whose half-space cuts deepest: argmax (|phi'c - shift t1| - w)/norm, or -1."""
    best, best_value = -1, -np.inf
    for i in range(norms.shape[0]):
        if norms[i] == 0.0 or i == skip:
            continue
        value = center[i]
        if skip >= 0:
            if abs(first[i]) > parallel * norms[i]:
                continue
            value -= shift * first[i]
        if not one_sided:
            value = abs(value)
        depth = (value - limits[i]) / norms[i]
        if depth > best_value:
            best, best_value = i, depth
    return best
