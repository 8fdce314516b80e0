"""Columns in hand, however they are held; whole reads that serve the certificate; reads without bounds."""

import numpy as np
import pytest
from scipy import sparse

from fastsbl.dictionary import as_dictionary
from fastsbl.estimators._centering import Design
from fastsbl.lasso import columns as held
from fastsbl.lasso import scalar, solve_weighted_lasso
from fastsbl.lasso.certificate import certify
from fastsbl.lasso.working_set import WorkingSet
from fastsbl.screening.problem import DualProblem

N, n = 50, 40


def matrix(dtype=np.float64):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, n)) * (rng.random((N, n)) < 0.6)
    X[:, 7] = 0.0
    return X.astype(dtype)


MADE = {
    "copies": lambda X: np.asfortranarray(X),
    "copies of rows": lambda X: np.ascontiguousarray(X),
    "long": lambda X: np.asfortranarray(X),
    "long, by rows": lambda X: np.ascontiguousarray(X),
    "csc": sparse.csc_array,
    "csr": sparse.csr_array,
}


@pytest.fixture(params=MADE)
def case(request, monkeypatch):
    if request.param.startswith("long"):
        monkeypatch.setattr(held, "_LONG", 10)
        monkeypatch.setattr(held, "_TILE", 64)
    return request.param


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_columns_in_hand_are_those_of_the_dictionary(case, dtype):
    X = matrix(dtype)
    phi = as_dictionary(MADE[case](X))
    mine = held.hold_columns(phi)
    expected = "_LongColumns" if case.startswith("long") else "_SparseColumns" if phi.is_sparse else "_CopiedColumns"
    assert type(mine).__name__ == expected
    X = X.astype(np.float64)
    rng = np.random.default_rng(1)
    index = rng.permutation(n)
    mine.add(index[:5])
    mine.add(index[5:6])
    mine.add(index[6:])
    r, coef = rng.standard_normal(N), rng.standard_normal(3)
    X = X[:, index]
    some = np.array([30, 2, 11])
    tol = {"rtol": 0, "atol": 1e-12}
    np.testing.assert_allclose(mine.gram_block(6, n), X.T @ X[:, 6:], **tol)
    np.testing.assert_allclose(mine.gram_block(0, 5), X[:, :5].T @ X[:, :5], **tol)
    np.testing.assert_allclose(mine.correlate(r, 5, 20), X[:, 5:20].T @ r, **tol)
    np.testing.assert_allclose(mine.combine(some, coef), X[:, some] @ coef, **tol)
    np.testing.assert_array_equal(mine.rows(some), X[:, some].T)


def test_long_columns_on_several_threads(monkeypatch):
    from fastsbl._base import parallel

    monkeypatch.setattr(parallel, "_LEAST_WORK", 100)
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    parallel._forget_pool()
    rng = np.random.default_rng(0)
    X = np.asfortranarray(rng.standard_normal((20_000, 12)))
    mine = held.hold_columns(as_dictionary(X))
    assert isinstance(mine, held._LongColumns)
    mine.add(np.arange(12))
    np.testing.assert_allclose(mine.gram_block(4, 12), X.T @ X[:, 4:], rtol=1e-12, atol=1e-9)
    np.testing.assert_allclose(mine.combine(np.arange(12), np.ones(12)), X.sum(axis=1), atol=1e-12)
    parallel._forget_pool()


def test_memory_maps_are_not_read_again_and_again(tmp_path):
    path = tmp_path / "long.bin"
    np.ones((3, 5000)).tofile(path)
    mapped = np.memmap(path, dtype=np.float64, mode="r", shape=(5000, 3), order="F")
    phi = as_dictionary(mapped)
    assert not phi.in_memory
    assert as_dictionary(np.ones((5000, 3))).in_memory
    assert isinstance(held.hold_columns(phi), held._CopiedColumns)


def test_working_set_grows_in_any_storage(case):
    X = matrix()
    y = np.random.default_rng(2).standard_normal(N)
    ws = WorkingSet(as_dictionary(MADE[case](X)), y)
    for part in np.array_split(np.arange(n), 7):
        ws.add(part, 1.0)
    np.testing.assert_allclose(ws.gram, X.T @ X, atol=1e-12)
    ws.theta[:] = np.random.default_rng(3).standard_normal(n)
    np.testing.assert_allclose(ws.residual(), y - X @ ws.theta, atol=1e-12)


@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_without_bounds_the_answer_is_the_same_and_a_read_is_saved(positive, dtype, monkeypatch):
    rng = np.random.default_rng(4)
    X = np.asfortranarray(rng.standard_normal((60, 300)).astype(dtype))
    y = X[:, :5] @ np.ones(5) + 0.1 * rng.standard_normal(60)
    weights = rng.uniform(0.5, 1.5, 300)
    weights[[3, 20]] = np.inf
    lam = 0.1 * np.abs(X.T @ y).max()
    options = {"positive": positive, "tol": 1e-10}
    bounded = solve_weighted_lasso(X, y, lam, weights, **options)
    monkeypatch.setattr(scalar, "_SHORT", 1e9)
    plain = solve_weighted_lasso(X, y, lam, weights, **options)
    np.testing.assert_allclose(plain.coef, bounded.coef, atol=1e-9)
    assert plain.converged
    whole = [record for record in plain.history if record["read"] == 1.0]
    assert len(whole) == len(plain.history)
    # norms with the first products, one whole read for each round and none for the certificate, columns taken in
    assert len(whole) + 1 < plain.passes < len(whole) + 2


def test_certificate_from_the_last_whole_read_is_the_certificate():
    rng = np.random.default_rng(5)
    X, y = rng.standard_normal((30, 80)), rng.standard_normal(30)
    phi = as_dictionary(X)
    problem = DualProblem(phi, y, np.full(80, 0.2 * np.abs(X.T @ y).max()))
    coef = np.zeros(80)
    coef[:4] = 0.1
    residual = y - X @ coef
    before = phi.passes
    given = certify(problem, y, coef, (residual, X.T @ residual))
    assert phi.passes == before
    read = certify(problem, y, coef)
    assert given.gap == pytest.approx(read.gap, rel=1e-12)
    np.testing.assert_allclose(given.dual_point, read.dual_point)


def test_unpenalised_columns_are_projected_out_whatever_was_read():
    rng = np.random.default_rng(6)
    X, y = rng.standard_normal((30, 80)), rng.standard_normal(30)
    phi = as_dictionary(X)
    limits = np.full(80, 0.2 * np.abs(X.T @ y).max())
    limits[3] = 0.0
    problem = DualProblem(phi, y, limits)
    coef = np.zeros(80)
    before = phi.passes
    given = certify(problem, y, coef, (y.copy(), X.T @ y))
    assert phi.passes == before + 1
    assert abs(X[:, 3] @ given.dual_point) < 1e-12


@pytest.mark.parametrize("container", [sparse.csc_array, sparse.csr_array])
@pytest.mark.parametrize("weighted", [False, True])
def test_centred_sparse_columns_are_held_by_their_stored_values(monkeypatch, container, weighted):
    monkeypatch.setattr(held, "_COPIED", 60)  # a row at a time
    X = matrix() + 0.0
    rng = np.random.default_rng(2)
    weights = rng.uniform(0.5, 2.0, N) if weighted else None
    data = container(X)
    design = Design(as_dictionary(data), data, rng.standard_normal(N), weights, fit_intercept=True)
    centred = X - np.average(X, axis=0, weights=weights)
    if weights is not None:
        centred *= np.sqrt(weights)[:, None]
    mine = held.hold_columns(design.dictionary)
    assert type(mine).__name__ == "_ShiftedColumns"
    index = rng.permutation(n)
    mine.add(index[:5])
    mine.add(index[5:])
    centred = centred[:, index]
    r, coef, some = rng.standard_normal(N), rng.standard_normal(3), np.array([30, 2, 11])
    tol = {"rtol": 0, "atol": 1e-12}
    np.testing.assert_allclose(mine.gram_block(6, n), centred.T @ centred[:, 6:], **tol)
    np.testing.assert_allclose(mine.correlate(r, 3, 9), centred[:, 3:9].T @ r, **tol)
    np.testing.assert_allclose(mine.combine(some, coef), centred[:, some] @ coef, **tol)
    np.testing.assert_allclose(mine.rows(some), centred[:, some].T, **tol)


def test_sparse_columns_far_from_zero_are_centred_first():
    X = matrix() + 1e4
    data = sparse.csc_array(X)
    design = Design(as_dictionary(data), data, X[:, 3], None, fit_intercept=True)
    assert type(held.hold_columns(design.dictionary)).__name__ == "_CopiedColumns"
