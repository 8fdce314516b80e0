"""Compiled draws of supports: one feature after the other, from inner products alone."""

import math

import numpy as np
from numba import njit

_SMALLEST = 1e-300
_ALIKE = 0.5  # columns that correlate by more may change places


@njit(cache=True, nogil=True)
def _positive_normal(mean, spread, generator):
    """Draw from a normal distribution cut off below zero."""
    low = -mean / spread
    if low < 0.5:
        while True:
            value = generator.standard_normal()
            if value > low:
                return mean + spread * value
    rate = 0.5 * (low + math.sqrt(low * low + 4.0))  # an exponential distribution lies above the tail
    while True:
        value = low + generator.standard_exponential() / rate
        if generator.random() < math.exp(-0.5 * (value - rate) ** 2):
            return max(mean + spread * value, _SMALLEST)


@njit(cache=True, nogil=True)
def _neighbours(gram):
    """Features whose columns correlate by more than a half with each: those of j stand from starts[j] on."""
    c = gram.shape[0]
    starts = np.zeros(c + 1, dtype=np.int64)
    for j in range(c):
        starts[j + 1] = starts[j]
        for i in range(c):
            if i != j and abs(gram[i, j]) > _ALIKE:
                starts[j + 1] += 1
    near = np.empty(starts[c], dtype=np.int64)
    place = 0
    for j in range(c):
        for i in range(c):
            if i != j and abs(gram[i, j]) > _ALIKE:
                near[place] = i
                place += 1
    return starts, near


@njit(cache=True, nogil=True)
def _log_positive(mean, spread):
    """Log of twice the probability that a normal variable is positive."""
    return math.log(max(math.erfc(-mean / (spread * math.sqrt(2.0))), _SMALLEST))


@njit(cache=True, nogil=True)
def _change(gram, products, theta, j, k, fresh):
    """Set a coefficient, and keep the products with the residual; what the residual's square falls by."""
    change = fresh - theta[j, k]
    less = change * (2.0 * products[j, k] - change)
    theta[j, k] = fresh
    for i in range(gram.shape[0]):
        products[i, k] -= gram[i, j] * change
    return less


@njit(cache=True, nogil=True)
def draw_supports(
    gram, products, theta, squared, n_samples, n_features, learn, expected, most, positive, generator, skipped, draws,
    noises, shares,
):  # fmt: skip
    """Draw supports and coefficients, with the noise, the power of a coefficient and the share of features that count.

    Columns have norm 1, and the noise variance to start from is 1. ``products`` (c, L) are those of the columns with
    the residual of theta (c, L), ``squared`` is that residual's square; all three are changed. ``n_features`` counts
    all features, of which c may enter, ``most`` at a time. ``expected`` is the power of a coefficient, as one
    coefficient beforehand; so is the noise of 1 as one sample, or known unless ``learn``. Fills draws (m, c, L) with
    theta and noises (m,), after ``skipped`` rounds, and shares (c,): mean probability to be in, given the others.
    """
    c, n_targets = theta.shape
    inside = np.zeros(c, dtype=np.bool_)
    size, total, lam = 0, 0.0, 1.0
    for j in range(c):
        for k in range(n_targets):
            inside[j] |= theta[j, k] != 0.0
            total += theta[j, k] ** 2
        size += int(inside[j])
    mean = np.empty(n_targets)
    starts, near = _neighbours(gram)
    for step in range(skipped + draws.shape[0]):
        if learn:
            lam = 0.5 * (max(squared, 0.0) + 1.0) / generator.standard_gamma(0.5 * (n_samples * n_targets + 1.0))
        power = (expected + 0.5 * total) / generator.standard_gamma(1.0 + 0.5 * size * n_targets)
        share = generator.beta(1.0 + size, 1.0 + n_features - size)
        variance = power * lam / (power + lam)
        spread = math.sqrt(variance)
        odds = math.log(max(share, _SMALLEST)) - math.log(max(1.0 - share, _SMALLEST))
        odds += 0.5 * n_targets * math.log(variance / power)
        for j in range(c):  # one that is in and one that is out change places, which two steps would not dare to
            if starts[j] == starts[j + 1]:
                continue
            other = near[starts[j] + int(generator.random() * (starts[j + 1] - starts[j]))]
            if inside[j] == inside[other]:
                continue
            leaves, joins = (j, other) if inside[j] else (other, j)
            value = 0.0
            for k in range(n_targets):
                own = variance / lam * (products[leaves, k] + theta[leaves, k])
                mean[k] = variance / lam * (products[joins, k] + gram[joins, leaves] * theta[leaves, k])
                value += 0.5 * (mean[k] * mean[k] - own * own) / variance
                if positive:
                    value += _log_positive(mean[k], spread) - _log_positive(own, spread)
            if generator.random() * (1.0 + math.exp(min(-value, 700.0))) >= 1.0:
                continue
            for k in range(n_targets):
                fresh = mean[k] + spread * generator.standard_normal()
                if positive:
                    fresh = _positive_normal(mean[k], spread, generator)
                total += fresh * fresh - theta[leaves, k] * theta[leaves, k]
                squared -= _change(gram, products, theta, leaves, k, 0.0)
                squared -= _change(gram, products, theta, joins, k, fresh)
            inside[leaves], inside[joins] = False, True
        for j in range(c):
            value = odds
            for k in range(n_targets):
                mean[k] = variance / lam * (products[j, k] + theta[j, k])
                value += 0.5 * mean[k] * mean[k] / variance
                if positive:
                    value += _log_positive(mean[k], spread)
            probability = 1.0 / (1.0 + math.exp(-value)) if value > -700.0 else 0.0
            if size >= most and not inside[j]:
                probability = 0.0
            enters = generator.random() < probability
            if step >= skipped:
                shares[j] += probability / draws.shape[0]
            if not enters and not inside[j]:
                continue
            for k in range(n_targets):
                fresh = 0.0
                if enters and positive:
                    fresh = _positive_normal(mean[k], spread, generator)
                elif enters:
                    fresh = mean[k] + spread * generator.standard_normal()
                total += fresh * fresh - theta[j, k] * theta[j, k]
                squared -= _change(gram, products, theta, j, k, fresh)
            size += int(enters) - int(inside[j])
            inside[j] = enters
        if step >= skipped:
            draws[step - skipped] = theta
            noises[step - skipped] = lam
