"""The compiled kernels beside readable numpy twins."""

from itertools import pairwise

import numpy as np
import pytest
from scipy import sparse

from fastsbl.dictionary import _kernels as products
from fastsbl.lasso import _kernels as lasso
from fastsbl.lasso._active_set_kernels import solve_active_set

REALS = [np.float32, np.float64]


def close(got, expected, dtype=np.float64, scale=1.0):
    tol = 1e-5 if dtype == np.float32 else 1e-12
    np.testing.assert_allclose(got, expected, rtol=0, atol=tol * scale * (1 + np.abs(expected).max(initial=0)))


# -- products with the columns ---------------------------------------------------------------------


@pytest.mark.parametrize("N", [1, 200, 1023, 1024, 1025, 3000])
@pytest.mark.parametrize("dtype", REALS)
def test_dense_products(dtype, N):
    """Runs of 1024 are where single precision stops summing: lengths on both sides of it."""
    rng = np.random.default_rng(N)
    rows = rng.standard_normal((20, N)).astype(dtype)
    vectors = rng.standard_normal((3, N)).astype(dtype)
    exact, exact_vectors = rows.astype(float), vectors.astype(float)
    dots, squares = exact @ exact_vectors[0], (exact**2).sum(axis=1)

    out = np.full(20, -7.0)
    products.dense_dots(rows, vectors[0], out, 4, 15)
    close(out[4:15], dots[4:15], dtype, N**0.5)
    np.testing.assert_array_equal(out[[0, 1, 2, 3, 15, 16, 17, 18, 19]], -7.0)

    out, out_squares = np.empty(20), np.empty(20)
    products.dense_dots_and_squares(rows, vectors[0], out, out_squares, 0, 20)
    close(out, dots, dtype, N**0.5)
    close(out_squares, squares, dtype)

    index = np.array([19, 3, 3, 0, 5])
    out = np.empty(5)
    products.dense_dots_some(rows, vectors[0], index, out, 0, 5)
    close(out, dots[index], dtype, N**0.5)

    several = np.vstack([vectors, vectors])[:4]
    out = np.full((4, 20), -7.0)
    products.dense_dots_many(rows, several, out, 3, 18)
    close(out[:3, 3:18], exact_vectors @ exact[3:18].T, dtype, N**0.5)
    np.testing.assert_array_equal(out[:, [0, 1, 2, 18, 19]], -7.0)
    out = np.empty((4, 5))
    products.dense_dots_many_some(rows, several, index, out, 0, 5)
    close(out[:3], exact_vectors @ exact[index].T, dtype, N**0.5)

    out, out_squares = np.empty(20), np.empty(20)
    products.row_major_dots_and_squares(np.ascontiguousarray(rows.T), vectors[0], out, out_squares, 0, 20)
    close(out, dots, dtype, N**0.5)
    close(out_squares, squares, dtype)


def test_row_major_products_over_several_blocks():
    rng = np.random.default_rng(0)
    matrix, vector = rng.standard_normal((5, 2500)), rng.standard_normal(5)
    out, squares = np.full(2500, -7.0), np.full(2500, -7.0)
    products.row_major_dots_and_squares(matrix, vector, out, squares, 10, 2400)
    close(out[10:2400], (vector @ matrix)[10:2400])
    close(squares[10:2400], (matrix**2).sum(axis=0)[10:2400])
    np.testing.assert_array_equal(out[:10], -7.0)
    np.testing.assert_array_equal(out[2400:], -7.0)


@pytest.mark.parametrize("dtype", REALS)
def test_sparse_products_by_rows(dtype):
    rng = np.random.default_rng(2)
    X = rng.standard_normal((30, 20)) * (rng.random((30, 20)) < 0.3)
    X[:, 7] = X[4] = 0.0
    matrix = sparse.csr_array(X.astype(dtype))
    X = matrix.toarray().astype(float)
    data, indices, indptr = matrix.data, matrix.indices, matrix.indptr.astype(np.int64)
    y = rng.standard_normal(30)
    y[11] = 0.0

    out = np.ones(20)
    products.row_sparse_dots(data, indices, indptr, y, out, 3, 25)
    close(out, 1.0 + X[3:25].T @ y[3:25], dtype)

    out, squares = np.zeros(20), np.ones(20)
    products.row_sparse_dots_and_squares(data, indices, indptr, y, out, squares, 3, 25)
    close(out, X[3:25].T @ y[3:25], dtype)
    close(squares, 1.0 + (X[3:25] ** 2).sum(axis=0), dtype)

    index = np.array([2, 7, 19])
    place = np.full(20, -1, dtype=np.int32)
    place[index] = np.arange(3)
    counts = np.zeros(4, dtype=np.int64)
    products.row_sparse_counts(indices, place, counts)
    np.testing.assert_array_equal(counts[1:], np.count_nonzero(X[:, index], axis=0))
    starts = np.cumsum(counts)
    values, rows = np.empty(starts[-1]), np.empty(starts[-1], dtype=np.int64)
    products.row_sparse_take(data, indices, indptr, place, starts[:-1].copy(), values, rows)
    close(sparse.csc_array((values, rows, starts), shape=(30, 3)).toarray(), X[:, index], dtype)

    out = np.zeros((3, 30))
    products.row_sparse_gather(data, indices, indptr, place, out)
    close(out, X[:, index].T, dtype)


@pytest.mark.parametrize("dtype", REALS)
def test_sparse_products(dtype):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((30, 20)) * (rng.random((30, 20)) < 0.3)
    X[:, 7] = 0.0
    matrix = sparse.csc_array(X.astype(dtype))
    X = matrix.toarray().astype(float)
    parts = matrix.data, matrix.indices, matrix.indptr.astype(np.int64)
    y = rng.standard_normal(30)

    out = np.full(20, -7.0)
    products.sparse_dots(*parts, y, out, 3, 18)
    close(out[3:18], (X.T @ y)[3:18], dtype)
    np.testing.assert_array_equal(out[[0, 1, 2, 18, 19]], -7.0)

    out, squares = np.empty(20), np.empty(20)
    products.sparse_dots_and_squares(*parts, y, out, squares, 0, 20)
    close(out, X.T @ y, dtype)
    close(squares, (X**2).sum(axis=0), dtype)

    index = np.array([19, 7, 2, 2])
    out = np.empty(4)
    products.sparse_dots_some(*parts, y, index, out, 0, 4)
    close(out, X[:, index].T @ y, dtype)

    values, rows, starts = products.sparse_take(*parts, index)
    assert (values.dtype, starts[-1]) == (np.float64, values.size)
    close(sparse.csc_array((values, rows, starts), shape=(30, 4)).toarray(), X[:, index], dtype)

    out = np.zeros((4, 30))
    products.sparse_gather(*parts, index, out)
    close(out, X[:, index].T, dtype)

    for most in (30, 8, 0):  # no row is full, some are, all that hold anything are
        begin, columns, stored, dense = products.sparse_by_rows(*parts, 30, most)
        full = np.count_nonzero(X, axis=1) > most
        close(sparse.csr_array((stored, columns, begin), shape=(30, 20)).toarray(), X * ~full[:, None], dtype)
        close(dense, X[full].T, dtype)
        out = np.zeros((4, 20))
        products.sparse_gram(*parts, begin, columns, stored, 16, out, 0, 2)
        products.sparse_gram(*parts, begin, columns, stored, 16, out, 2, 4)
        close(out, np.tril((X[:, 16:] * ~full[:, None]).T @ X, 16), dtype)

    out, coef = np.zeros(30), rng.standard_normal(4)
    products.sparse_combine(*parts, index, coef, out)
    close(out, X[:, index] @ coef, dtype)


# -- solvers ---------------------------------------------------------------------------------------


def soft(z, limit, positive):
    """The proximal step of one coefficient."""
    return max(z - limit, 0.0) if positive else np.sign(z) * max(abs(z) - limit, 0.0)


def make_problem(seed, n_samples=30, size=20):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_samples, size)) + 0.5 * rng.standard_normal((n_samples, 1))
    y = rng.standard_normal(n_samples)
    limits = rng.uniform(0.3, 1, size) * 0.3 * np.abs(X.T @ y).max()
    limits[3], limits[5] = 0.0, np.inf
    return X, y, limits


def gram_twin(gram, target, limits, positive, sweeps=20_000):
    """Cyclic coordinate descent until nothing moves."""
    theta = np.zeros(target.size)
    for _ in range(sweeps):
        before = theta.copy()
        for j in np.flatnonzero(np.isfinite(limits) & (np.diag(gram) > 0)):
            z = target[j] - gram[j] @ theta + gram[j, j] * theta[j]
            theta[j] = soft(z, limits[j], positive) / gram[j, j]
        if np.abs(theta - before).max() <= 1e-15 * np.abs(theta).max():
            break
    return theta


def gram_objective(gram, target, limits, theta):
    used = theta != 0
    return 0.5 * theta @ gram @ theta - target @ theta + np.abs(theta[used]) @ limits[used]


@pytest.mark.parametrize("start", ["zero", "random"])
@pytest.mark.parametrize("positive", [False, True], ids=["signed", "positive"])
def test_solve_gram(positive, start):
    for seed in range(10):
        X, y, limits = make_problem(seed)
        room = 25  # more than is used
        gram, target = np.full((room, room), np.nan), np.full(room, np.nan)
        gram[:20, :20], target[:20] = X.T @ X, X.T @ y
        theta, g = np.zeros(room), np.full(room, np.nan)
        padded = np.r_[limits, np.zeros(5)]
        if start == "random":
            theta[:20] = np.abs(np.random.default_rng(seed).standard_normal(20))
            theta[5] = 0.0
        steps = lasso.solve_gram(gram, target, padded, theta, g, 20, np.linalg.norm(y), 1e-14, 2000, positive)
        assert steps > 0
        expected = gram_twin(X.T @ X, X.T @ y, limits, positive)
        close(theta[:20], expected, scale=1e2)
        assert theta[5] == 0.0
        np.testing.assert_array_equal(theta[20:], 0.0)
        close(g[:20], X.T @ (y - X @ theta[:20]))
        np.testing.assert_array_equal(theta[:20] != 0, expected != 0)


@pytest.mark.parametrize("positive", [False, True], ids=["signed", "positive"])
def test_solve_gram_with_dependent_columns(positive):
    """More columns than rows, copies and opposites: the minimisers differ, the minimum does not."""
    for seed in (*range(10), 233, 388, 399):  # the last three: a dependence in which rounding looked like an entry
        X, y, limits = make_problem(seed, 8, 12)
        X = np.hstack([X, X[:, :6], -X[:, 2:5], np.zeros((8, 1))])
        limits = np.r_[limits, limits[:6], limits[2:5], 1.0]
        gram, target = X.T @ X, X.T @ y
        theta, g = np.zeros(target.size), np.zeros(target.size)
        steps = lasso.solve_gram(gram, target, limits, theta, g, target.size, np.linalg.norm(y), 1e-14, 2000, positive)
        assert steps > 0
        expected = gram_twin(gram, target, limits, positive)
        assert gram_objective(gram, target, limits, theta) == pytest.approx(
            gram_objective(gram, target, limits, expected), abs=1e-10 * (y @ y)
        )
        close(g, X.T @ (y - X @ theta))
        assert theta[-1] == 0.0


@pytest.mark.parametrize("positive", [False, True], ids=["signed", "positive"])
@pytest.mark.parametrize("epochs", [1, 3])
def test_cyclic_epochs(epochs, positive):
    """Coefficients and residual after a few sweeps, not only at the end, for both kinds of storage."""
    rng = np.random.default_rng(2)
    X, y, limits = make_problem(2)
    X *= rng.random(X.shape) < 0.5
    index = np.array([0, 3, 4, 5, 9, 10, 19])
    start = np.where(index == 5, 0.0, np.abs(rng.standard_normal(index.size)))
    theta, residual = start.copy(), y - X[:, index] @ start
    for _ in range(epochs):
        for p, j in enumerate(index):
            square = X[:, j] @ X[:, j]
            if np.isinf(limits[j]) or square == 0:
                continue
            old = theta[p]
            theta[p] = soft(X[:, j] @ residual + square * old, limits[j], positive) / square
            residual = residual - (theta[p] - old) * X[:, j]
    squares = (X[:, index] ** 2).sum(axis=0)

    got, left = start.copy(), y - X[:, index] @ start
    rows = np.ascontiguousarray(X.T)
    done = lasso.cyclic_dense(rows, index, limits[index], got, left, squares, epochs, 0.0, positive)
    assert done == epochs
    close(got, theta)
    close(left, residual)

    got, left = start.copy(), y - X[:, index] @ start
    matrix = sparse.csc_array(X)
    parts = matrix.data, matrix.indices, matrix.indptr.astype(np.int64)
    done = lasso.cyclic_sparse(*parts, index, limits[index], got, left, squares, epochs, 0.0, positive)
    assert done == epochs
    close(got, theta)
    close(left, residual)


def test_cyclic_epochs_stop_when_nothing_moves():
    X, y, limits = make_problem(3)
    theta, residual = np.zeros(20), y.copy()
    rows, squares = np.ascontiguousarray(X.T), (X**2).sum(axis=0)
    first = lasso.cyclic_dense(rows, np.arange(20), limits, theta, residual, squares, 10_000, 1e-10, False)
    assert 1 < first < 10_000
    again = lasso.cyclic_dense(rows, np.arange(20), limits, theta, residual, squares, 10_000, 1e-9, False)
    assert again == 1


@pytest.mark.parametrize("groups", ["single rows", "unequal groups"])
@pytest.mark.parametrize("data", ["real", "complex"])
@pytest.mark.parametrize("epochs", [1, 3])
def test_block_epochs(epochs, data, groups):
    """Exact steps for single rows; for larger groups, steps of the largest eigenvalue of their part of G."""
    rng = np.random.default_rng(4)
    X = make_problem(4)[0]
    Y = rng.standard_normal((30, 3))
    theta = rng.standard_normal((20, 3))
    if data == "complex":
        X = X + 1j * make_problem(5)[0]
        Y = Y + 1j * rng.standard_normal((30, 3))
        theta = theta * np.exp(1j * rng.uniform(0, 6, (20, 3)))
    starts = np.arange(21) if groups == "single rows" else np.array([0, 1, 4, 6, 7, 12, 18, 20])
    parts = [slice(low, high) for low, high in pairwise(starts)]
    limits = rng.uniform(0.3, 1, len(parts)) * 0.5 * max(np.linalg.norm(X[:, part].conj().T @ Y) for part in parts)
    limits[1], limits[3] = 0.0, np.inf
    theta[parts[3]] = 0.0
    gram, target = X.conj().T @ X, X.conj().T @ Y
    steepest = np.array([np.linalg.eigvalsh(gram[part, part])[-1] for part in parts])
    got, g = theta.copy(), target - gram @ theta
    done = lasso.block_gram_epochs(gram, limits, starts, steepest, got, g, epochs, 0.0)
    assert done == epochs
    for _ in range(epochs):
        for part, limit, step in zip(parts, limits, steepest, strict=True):
            if np.isfinite(limit):
                z = target[part] - gram[part] @ theta + step * theta[part]
                theta[part] = max(1 - limit / np.linalg.norm(z), 0.0) * z / step
    close(got, theta)
    close(g, target - gram @ theta)
    assert any(not theta[part].any() for part in parts)
    assert theta[parts[1]].any()


@pytest.mark.parametrize("one_sided", [False, True], ids=["both sides", "one side"])
@pytest.mark.parametrize("n_directions", [0, 1, 5])
def test_exceeding_bounds(n_directions, one_sided):
    """More features than one of its blocks of 512 holds."""
    rng = np.random.default_rng(6)
    n = 1100
    table, coefficients = rng.standard_normal((8, n)), rng.standard_normal(8)
    rest, norms = rng.uniform(0, 1, n), rng.uniform(0.5, 2, n)
    limits = rng.uniform(0, 5, n)
    limits[::50], norms[::70] = np.inf, 0.0
    skip = np.where(rng.random(n) < 0.2, 3, -1)
    perpendicular, error = 0.7, 1e-3
    value = coefficients[:n_directions] @ table[:n_directions]
    bound = (value if one_sided else np.abs(value)) + perpendicular * rest + error * norms
    expected = np.flatnonzero((bound >= limits) & (skip < 0) & (norms > 0))
    found = np.full(n, -1, dtype=np.intp)
    count = lasso.exceeding_bounds(
        table, coefficients, n_directions, rest, perpendicular, norms, error, limits, skip, found, one_sided
    )
    assert 0 < count < n
    np.testing.assert_array_equal(found[:count], expected)
    np.testing.assert_array_equal(found[count:], -1)


@pytest.mark.parametrize("one_sided", [False, True])
def test_products_that_may_reach_their_limit(one_sided):
    products_ = np.array([1.0, -1.0, 0.99, -0.5, np.nan, 2.0, 2.0, 1.0])
    norms = np.array([1.0, 1.0, 1.0, 1.0, 1.0, 0.0, 1.0, 1.0])
    limits = np.array([1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, np.inf])
    skip = np.array([-1, -1, -1, -1, -1, -1, 3, -1])
    found = np.empty(8, dtype=np.intp)
    count = lasso.reaching_limits(products_, norms, 0.02, limits, skip, found, one_sided)
    assert found[:count].tolist() == ([0, 2, 4] if one_sided else [0, 1, 2, 4])


@pytest.mark.parametrize("positive", [False, True])
def test_active_set_exchanges_parallel_columns(positive):
    """A column parallel to an active one can only come in by pushing others out."""
    rng = np.random.default_rng(5)
    rows = np.arange(120)
    X = np.zeros((120, 300))
    X[rows, rows] = rng.choice([-1.0, 1.0], 120) * rng.uniform(0.5, 2.0, 120)
    X[rows, rows + 120] = rng.choice([-1.0, 1.0], 120) * rng.uniform(0.5, 2.0, 120)
    X[:, 240:] = rng.standard_normal((120, 60)) * (rng.random((120, 60)) < 0.05)
    y = 3.0 * rng.standard_normal(120)
    gram, target, limits = X.T @ X, X.T @ y, np.full(300, 0.3)
    theta, g = np.zeros(300), target.copy()
    worse = np.abs(X[rows, rows]) < np.abs(X[rows, rows + 120])  # of each pair, begin with the one that must go
    start = np.where(worse, rows, rows + 120)
    theta[start] = 0.5 * target[start] / gram[start, start]
    if positive:
        theta = np.maximum(theta, 0.0)
    g[:] = target - gram @ theta
    assert np.count_nonzero(theta) > 40
    steps = solve_active_set(gram, target, limits, theta, g, 300, 1e-12, 10_000, positive)
    assert 0 < steps < 100
    np.testing.assert_allclose(g, target - gram @ theta, rtol=0, atol=1e-11)
    inside = g if positive else np.abs(g)
    assert np.all(inside <= limits + 1e-11)
    used = theta != 0
    np.testing.assert_allclose(g[used], 0.3 * np.sign(theta[used]), rtol=0, atol=1e-11)
    if positive:
        assert np.all(theta >= 0)
