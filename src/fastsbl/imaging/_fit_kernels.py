"""Compiled least squares for groups of overlapping sources; every kernel has a numpy twin in the tests.

A source is a row (x, y, flux, sigma) of `par`, with pixel centres at integers from 0. The shape of all sources is
described by two arrays (see `SourceShape`): `shape` = [kind, free, sigma_x, sigma_y, cx, cy, ox, oy, left, right, up,
down, reach] and the spline `coefficients` of a measured PSF (kind 1). Nothing is checked here.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from fastsbl.imaging._kernels import _cubic, _cubic_slope

_SQRT2 = math.sqrt(2.0)
_SQRT2PI = math.sqrt(2.0 * math.pi)


@njit(cache=True, nogil=True)
def source_box(one, shape, n_rows, n_columns):  # pragma: no cover - compiled
    """First and one-past-last row and column that a source reaches, inside the window."""
    x, y = one[0], one[1]
    if shape[0] == 0.0:
        sx, sy = shape[2], shape[3]
        if shape[1] != 0.0:
            sx = one[3]
            sy = one[3]
        left = shape[12] * sx + 1.0
        up = shape[12] * sy + 1.0
        right, down = left, up
    else:
        left, right, up, down = shape[8], shape[9], shape[10], shape[11]
    top = max(0, math.ceil(y - up))
    bottom = min(n_rows, math.floor(y + down) + 1)
    first = max(0, math.ceil(x - left))
    last = min(n_columns, math.floor(x + right) + 1)
    return top, max(top, bottom), first, max(first, last)


@njit(cache=True, nogil=True)
def _factor(centre, sigma, first, last, value, slope, widening):  # pragma: no cover - compiled
    """Integrals of a unit Gaussian over pixels first..last-1, and their derivatives in centre and width."""
    u = (first - 0.5 - centre) / sigma
    low = math.erf(u / _SQRT2)
    density = math.exp(-0.5 * u * u) / (_SQRT2PI * sigma)
    moment = u * density
    for i in range(first, last):
        u = (i + 0.5 - centre) / sigma
        high = math.erf(u / _SQRT2)
        after = math.exp(-0.5 * u * u) / (_SQRT2PI * sigma)
        k = i - first
        value[k] = 0.5 * (high - low)
        slope[k] = density - after
        widening[k] = moment - u * after
        low, density, moment = high, after, u * after


@njit(cache=True, nogil=True)
def fill_stamp(one, shape, coefficients, box, planes):  # pragma: no cover - compiled
    """Value and derivatives in x, y, sigma of a unit-flux source, in planes[0..3] over its box."""
    top, bottom, first, last = box
    height, width = bottom - top, last - first
    if height == 0 or width == 0:
        return
    if shape[0] == 0.0:
        sx, sy = shape[2], shape[3]
        if shape[1] != 0.0:
            sx = one[3]
            sy = one[3]
        across, across_x, across_s = np.empty(width), np.empty(width), np.empty(width)
        down, down_y, down_s = np.empty(height), np.empty(height), np.empty(height)
        _factor(one[0], sx, first, last, across, across_x, across_s)
        _factor(one[1], sy, top, bottom, down, down_y, down_s)
        for i in range(height):
            for j in range(width):
                planes[0, i, j] = down[i] * across[j]
                planes[1, i, j] = down[i] * across_x[j]
                planes[2, i, j] = down_y[i] * across[j]
                planes[3, i, j] = down[i] * across_s[j] + down_s[i] * across[j]
        return
    ox, oy = int(shape[6]), int(shape[7])
    ux = shape[4] + ox * (first - one[0])
    uy = shape[5] + oy * (top - one[1])
    jx, iy = math.floor(ux), math.floor(uy)
    wx, wy, gx, gy = np.empty(4), np.empty(4), np.empty(4), np.empty(4)
    _cubic(ux - jx, wx)
    _cubic(uy - iy, wy)
    _cubic_slope(ux - jx, gx)
    _cubic_slope(uy - iy, gy)
    n_rows, n_columns = coefficients.shape
    for i in range(height):
        row = iy - 1 + oy * i
        for j in range(width):
            column = jx - 1 + ox * j
            total, total_x, total_y = 0.0, 0.0, 0.0
            if row >= 0 and row + 4 <= n_rows and column >= 0 and column + 4 <= n_columns:
                for a in range(4):
                    plain, sloped = 0.0, 0.0
                    for b in range(4):
                        c = coefficients[row + a, column + b]
                        plain += wx[b] * c
                        sloped += gx[b] * c
                    total += wy[a] * plain
                    total_x += wy[a] * sloped
                    total_y += gy[a] * plain
            planes[0, i, j] = total
            planes[1, i, j] = -ox * total_x
            planes[2, i, j] = -oy * total_y
            planes[3, i, j] = 0.0


@njit(cache=True, nogil=True)
def add_sources(image, par, shape, coefficients, sign):  # pragma: no cover - compiled
    """Add sign * flux * stamp of every source to the image."""
    n_rows, n_columns = image.shape
    for k in range(par.shape[0]):
        box = source_box(par[k], shape, n_rows, n_columns)
        top, bottom, first, last = box
        planes = np.empty((4, bottom - top, last - first))
        fill_stamp(par[k], shape, coefficients, box, planes)
        scale = sign * par[k, 2]
        for i in range(bottom - top):
            for j in range(last - first):
                image[top + i, first + j] += scale * planes[0, i, j]


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})
def _dot(a, b, n):  # pragma: no cover - compiled
    total = 0.0
    for j in range(n):
        total += a[j] * b[j]
    return total


@njit(cache=True, nogil=True)
def _evaluate(target, weight, par, level, shape, coefficients, boxes, planes, residual):  # pragma: no cover
    """Stamps of all sources, the residual of the window, and its weighted sum of squares."""
    n_rows, n_columns = target.shape
    for i in range(n_rows):
        for j in range(n_columns):
            residual[i, j] = target[i, j] - level
    for k in range(par.shape[0]):
        box = source_box(par[k], shape, n_rows, n_columns)
        for e in range(4):
            boxes[k, e] = box[e]
        top, bottom, first, last = box
        fill_stamp(par[k], shape, coefficients, box, planes[k])
        flux = par[k, 2]
        for i in range(bottom - top):
            for j in range(last - first):
                residual[top + i, first + j] -= flux * planes[k, 0, i, j]
    total = 0.0
    for i in range(n_rows):
        for j in range(n_columns):
            total += weight[i, j] * residual[i, j] * residual[i, j]
    return total


@njit(cache=True, nogil=True)
def _normal_equations(weight, par, n_par, with_level, boxes, planes, residual, matrix, vector):  # pragma: no cover
    """J'WJ and J'Wr, parameters ordered source by source (x, y, flux, sigma), the level last."""
    n_rows, n_columns = weight.shape
    n = par.shape[0]
    size = n * n_par + (1 if with_level else 0)
    matrix[:size, :size] = 0.0
    vector[:size] = 0.0
    scale = np.empty(4)
    weighted = np.empty((4, n_columns))
    order = (1, 2, 0, 3)  # the plane of each parameter
    for k in range(n):
        top, bottom, first, last = boxes[k, 0], boxes[k, 1], boxes[k, 2], boxes[k, 3]
        flux = par[k, 2]
        scale[0], scale[1], scale[2], scale[3] = flux, flux, 1.0, flux
        for i in range(top, bottom):
            width = last - first
            for a in range(n_par):
                plane = planes[k, order[a], i - top]
                for j in range(width):
                    weighted[a, j] = scale[a] * weight[i, first + j] * plane[j]
            for a in range(n_par):
                p = k * n_par + a
                vector[p] += _dot(weighted[a], residual[i, first:last], width)
                if with_level:
                    total = 0.0
                    for j in range(width):
                        total += weighted[a, j]
                    matrix[p, size - 1] += total
                for b in range(a, n_par):
                    matrix[p, k * n_par + b] += (1.0 if b == 2 else flux) * _dot(
                        weighted[a], planes[k, order[b], i - top], width
                    )
            for m in range(k + 1, n):
                if i < boxes[m, 0] or i >= boxes[m, 1]:
                    continue
                low, high = max(first, boxes[m, 2]), min(last, boxes[m, 3])
                if low >= high:
                    continue
                other = par[m, 2]
                for b in range(n_par):
                    plane = planes[m, order[b], i - boxes[m, 0], low - boxes[m, 2] : high - boxes[m, 2]]
                    factor = 1.0 if b == 2 else other
                    for a in range(n_par):
                        matrix[k * n_par + a, m * n_par + b] += factor * _dot(
                            weighted[a, low - first : high - first], plane, high - low
                        )
    if with_level:
        for i in range(n_rows):
            for j in range(n_columns):
                matrix[size - 1, size - 1] += weight[i, j]
                vector[size - 1] += weight[i, j] * residual[i, j]
    for p in range(size):
        for q in range(p):
            matrix[p, q] = matrix[q, p]


@njit(cache=True, nogil=True)
def factorise(matrix, size):  # pragma: no cover - compiled
    """Cholesky factor in the lower triangle, in place; whether the matrix was positive definite."""
    for p in range(size):
        for q in range(p):
            matrix[p, q] = (matrix[p, q] - _dot(matrix[p], matrix[q], q)) / matrix[q, q]
        pivot = matrix[p, p] - _dot(matrix[p], matrix[p], p)
        if not pivot > 1e-13 * matrix[p, p]:
            return False
        matrix[p, p] = math.sqrt(pivot)
    return True


@njit(cache=True, nogil=True)
def _substitute(factor, size, vector):  # pragma: no cover - compiled
    for p in range(size):
        vector[p] = (vector[p] - _dot(factor[p], vector, p)) / factor[p, p]
    for p in range(size - 1, -1, -1):
        vector[p] /= factor[p, p]
        for q in range(p):
            vector[q] -= factor[p, q] * vector[p]


@njit(cache=True, nogil=True)
def least_squares(
    target, weight, par, lower, upper, level, with_level, n_par, shape, coefficients, max_iter, tol, covariance
):  # pragma: no cover - compiled
    """Bounded Levenberg-Marquardt on all sources of a window and, if asked, a constant.

    `target` is the window without these sources (and without the constant); `par` is moved in place. The matrix that
    J'WJ becomes at the end is inverted into `covariance` when it has a size; parameters that sit on a bound then have
    variance 0. Returns (weighted sum of squares, level, iterations, stopped before max_iter, covariance found).
    """
    n = par.shape[0]
    n_rows, n_columns = target.shape
    size = n * n_par + (1 if with_level else 0)
    tall, wide = 1, 1
    for k in range(n):
        if shape[0] == 0.0:
            reach_x = shape[12] * (upper[k, 3] if shape[1] != 0.0 else shape[2]) + 1.0
            reach_y = shape[12] * (upper[k, 3] if shape[1] != 0.0 else shape[3]) + 1.0
            tall = max(tall, int(2.0 * reach_y) + 2)
            wide = max(wide, int(2.0 * reach_x) + 2)
        else:
            tall = max(tall, int(shape[10] + shape[11]) + 2)
            wide = max(wide, int(shape[8] + shape[9]) + 2)
    tall, wide = min(tall, n_rows), min(wide, n_columns)
    planes = np.empty((n, 4, tall, wide))
    trial_planes = np.empty((n, 4, tall, wide))
    boxes = np.zeros((n, 4), dtype=np.int64)
    trial_boxes = np.zeros((n, 4), dtype=np.int64)
    residual = np.empty((n_rows, n_columns))
    trial_residual = np.empty((n_rows, n_columns))
    matrix = np.empty((size, size))
    factor = np.empty((size, size))
    vector = np.empty(size)
    step = np.empty(size)
    held = np.zeros(size, dtype=np.bool_)
    trial = par.copy()
    cost = _evaluate(target, weight, par, level, shape, coefficients, boxes, planes, residual)
    damping = 1e-3
    done = False
    iterations = 0
    while iterations < max_iter and size > 0:
        iterations += 1
        _normal_equations(weight, par, n_par, with_level, boxes, planes, residual, matrix, vector)
        for k in range(n):
            for a in range(n_par):
                p = k * n_par + a
                held[p] = (
                    (par[k, a] <= lower[k, a] and vector[p] < 0.0)
                    or (par[k, a] >= upper[k, a] and vector[p] > 0.0)
                    or matrix[p, p] <= 0.0
                )
        better = False
        for _ in range(12):
            for p in range(size):
                for q in range(p + 1):
                    factor[p, q] = 0.0 if held[p] or held[q] else matrix[p, q]
                factor[p, p] = 1.0 if held[p] else matrix[p, p] * (1.0 + damping)
                step[p] = 0.0 if held[p] else vector[p]
            if not factorise(factor, size):
                damping = max(10.0 * damping, 1e-6)
                continue
            _substitute(factor, size, step)
            for k in range(n):
                spread = par[k, 3]
                for a in range(n_par):
                    move = step[k * n_par + a]
                    if a < 2:
                        move = min(max(move, -0.7 * spread), 0.7 * spread)
                    elif a == 3:
                        move = min(max(move, -0.35 * spread), 0.5 * spread)
                    trial[k, a] = min(max(par[k, a] + move, lower[k, a]), upper[k, a])
            trial_level = level + (step[size - 1] if with_level else 0.0)
            cost_now = _evaluate(
                target, weight, trial, trial_level, shape, coefficients, trial_boxes, trial_planes, trial_residual
            )
            if cost_now <= cost:
                better = True
                break
            damping = max(5.0 * damping, 1e-4)
            if damping > 1e8:
                break
        if not better:
            done = True
            break
        gain = cost - cost_now
        cost = cost_now
        level = trial_level
        for k in range(n):
            for a in range(4):
                par[k, a] = trial[k, a]
        planes, trial_planes = trial_planes, planes
        boxes, trial_boxes = trial_boxes, boxes
        residual, trial_residual = trial_residual, residual
        damping = max(0.15 * damping, 1e-9)
        if gain <= tol:
            done = True
            break
    found = False
    if covariance.shape[0] == size and size > 0:
        _normal_equations(weight, par, n_par, with_level, boxes, planes, residual, matrix, vector)
        for k in range(n):
            for a in range(n_par):
                p = k * n_par + a
                held[p] = (par[k, a] <= lower[k, a]) or (par[k, a] >= upper[k, a]) or matrix[p, p] <= 0.0
        for p in range(size):
            for q in range(p + 1):
                factor[p, q] = 0.0 if held[p] or held[q] else matrix[p, q]
            if held[p]:
                factor[p, p] = 1.0
        found = factorise(factor, size)
        if found:
            for p in range(size):
                step[:] = 0.0
                step[p] = 1.0
                _substitute(factor, size, step)
                for q in range(size):
                    covariance[p, q] = 0.0 if held[p] or held[q] else step[q]
    return cost, level, iterations, done, found


@njit(cache=True, nogil=True)
def projected_scores(
    residual, weight, par, n_par, candidates, shape, coefficients, score, power, share
):  # pragma: no cover - compiled
    """Score and power of candidate sources of unit flux once the sources of `par` may move to first order.

    score[c] = phi_c' W r and power[c] = phi_c' W phi_c, both after projecting the candidate off the tangents of `par`
    in the metric W; share[c] is what the projection left of the power.
    """
    n, m = par.shape[0], candidates.shape[0]
    n_rows, n_columns = weight.shape
    size = n * n_par
    order = (1, 2, 0, 3)
    planes = np.zeros((size, n_rows, n_columns))
    boxes = np.zeros((n, 4), dtype=np.int64)
    vector = np.zeros(size)
    for k in range(n):
        box = source_box(par[k], shape, n_rows, n_columns)
        top, bottom, first, last = box
        for e in range(4):
            boxes[k, e] = box[e]
        stamp = np.empty((4, bottom - top, last - first))
        fill_stamp(par[k], shape, coefficients, box, stamp)
        for a in range(n_par):
            p = k * n_par + a
            for i in range(bottom - top):
                for j in range(last - first):
                    planes[p, top + i, first + j] = stamp[order[a], i, j]
                    vector[p] += stamp[order[a], i, j] * weight[top + i, first + j] * residual[top + i, first + j]
    matrix = np.zeros((size, size))
    weighted = np.empty(n_columns)
    for k in range(n):
        for i in range(boxes[k, 0], boxes[k, 1]):
            first, last = boxes[k, 2], boxes[k, 3]
            for a in range(n_par):
                p = k * n_par + a
                for j in range(first, last):
                    weighted[j] = planes[p, i, j] * weight[i, j]
                for q in range(p + 1):
                    o = q // n_par
                    if i < boxes[o, 0] or i >= boxes[o, 1]:
                        continue
                    low, high = max(first, boxes[o, 2]), min(last, boxes[o, 3])
                    if low < high:
                        matrix[p, q] += _dot(weighted[low:high], planes[q, i, low:high], high - low)
    for p in range(size):
        matrix[p, p] = matrix[p, p] * (1.0 + 1e-9) + 1e-300
    fine = factorise(matrix, size) if size > 0 else True
    if fine and size > 0:
        _substitute(matrix, size, vector)
    for c in range(m):
        box = source_box(candidates[c], shape, n_rows, n_columns)
        top, bottom, first, last = box
        stamp = np.empty((4, bottom - top, last - first))
        fill_stamp(candidates[c], shape, coefficients, box, stamp)
        whole, found = 0.0, 0.0
        cross = np.zeros(size)
        for i in range(bottom - top):
            for j in range(last - first):
                value = stamp[0, i, j] * weight[top + i, first + j]
                weighted[j] = value
                whole += value * stamp[0, i, j]
                found += value * residual[top + i, first + j]
            for p in range(size):
                cross[p] += _dot(weighted, planes[p, top + i, first:last], last - first)
        left = whole
        if fine:
            for p in range(size):
                found -= cross[p] * vector[p]
            for p in range(size):  # forward substitution: left = whole - |L^-1 cross|^2
                cross[p] = (cross[p] - _dot(matrix[p], cross, p)) / matrix[p, p]
                left -= cross[p] * cross[p]
        score[c], power[c] = found, max(left, 0.0)
        share[c] = left / whole if whole > 0.0 else 0.0
