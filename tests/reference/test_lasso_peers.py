"""The same objective as scikit-learn, celer, skglm and a general convex solver on the same problems."""

import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import Lasso, MultiTaskLasso

from fastsbl.lasso import lambda_max, solve_weighted_lasso, weighted_lasso_path
from fastsbl.screening import rule_names

N, n = 40, 120
SOLVERS = ("working-set", "cd", "cvxpy")
RULES = (None, *rule_names())


def make_problem(seed, *, shape=(N, n), density=1.0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal(shape) + 0.5 * rng.standard_normal((shape[0], 1))
    X *= 10.0 ** rng.uniform(-0.5, 0.5, shape[1])
    X *= rng.random(shape) < density
    coef = rng.standard_normal(shape[1]) * (rng.random(shape[1]) < 0.1)
    return X, X @ coef + 0.3 * rng.standard_normal(shape[0]), rng.uniform(0.3, 1.0, shape[1])


def objective(X, y, limits, coef):
    residual = y - X @ coef
    size = np.abs(coef) if coef.ndim == 1 else np.linalg.norm(coef, axis=1)
    return 0.5 * np.vdot(residual, residual).real + size[size > 0] @ limits[size > 0]


def half_square(y):
    return 0.5 * np.vdot(y, y).real


def need(solver):
    if solver == "cvxpy":
        pytest.importorskip("cvxpy", reason="CVXPY is not installed")
    return solver


def by_convex_solver(X, y, limits, *, positive=False):
    """Minimise with CVXPY, written out anew: excluded columns left out, unpenalised ones without a norm."""
    cvxpy = pytest.importorskip("cvxpy", reason="CVXPY is not installed")
    kept = np.flatnonzero(np.isfinite(limits))
    rows = y.reshape(y.shape[0], -1)
    complex_data = np.iscomplexobj(X) or np.iscomplexobj(y)
    theta = cvxpy.Variable((kept.size, rows.shape[1]), complex=complex_data)
    norms = cvxpy.norm(theta, 2, axis=1)
    loss = 0.5 * cvxpy.sum_squares(rows - X[:, kept] @ theta)
    limited = [theta >= 0] if positive else []
    task = cvxpy.Problem(cvxpy.Minimize(loss + limits[kept] @ norms), limited)
    accuracy = {"tol_gap_abs": 1e-11, "tol_gap_rel": 1e-11, "tol_feas": 1e-11}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "may be inaccurate": it is compared within what it did reach
        task.solve(solver=cvxpy.CLARABEL, **accuracy)
    coef = np.zeros((limits.size, rows.shape[1]), dtype=theta.value.dtype)
    coef[kept] = np.maximum(theta.value, 0) if positive else theta.value
    return coef.reshape((limits.size, *y.shape[1:]))


@pytest.mark.parametrize("positive", [False, True], ids=["signed", "positive"])
@pytest.mark.parametrize("form", ["dense", "sparse"])
@pytest.mark.parametrize("solver", SOLVERS)
def test_scikit_learn(solver, form, positive):
    """scikit-learn has no weights: they are folded into the columns."""
    need(solver)
    X, y, weights = make_problem(1, density=0.3 if form == "sparse" else 1.0)
    tol = 1e-8 if solver == "cvxpy" else 1e-10  # interior-point methods do not reach further
    made = sparse.csc_matrix(X) if form == "sparse" else X
    for ratio in (0.5, 0.1):
        lam = ratio * lambda_max(made, y, weights, positive=positive)
        ours = solve_weighted_lasso(made, y, lam, weights, positive=positive, solver=solver, tol=tol)
        peer = Lasso(lam / N, fit_intercept=False, tol=1e-12, max_iter=100_000, positive=positive)
        peer.fit(np.asfortranarray(X / weights) if form == "dense" else sparse.csc_matrix(X / weights), y)
        theirs = objective(X, y, lam * weights, peer.coef_ / weights)
        assert objective(X, y, lam * weights, ours.coef) == pytest.approx(theirs, abs=2 * tol * half_square(y))
        np.testing.assert_allclose(ours.coef, peer.coef_ / weights, atol=1e-4 if tol < 1e-9 else 1e-3)


def test_scikit_learn_with_several_targets():
    X, y, _ = make_problem(2)
    Y = np.stack([y, np.roll(y, 3), -y[::-1]], axis=1)
    for ratio in (0.5, 0.1):
        lam = ratio * lambda_max(X, Y)
        ours = solve_weighted_lasso(X, Y, lam, tol=1e-9)
        peer = MultiTaskLasso(lam / N, fit_intercept=False, tol=1e-11, max_iter=100_000).fit(X, Y)
        limits = np.full(n, lam)
        theirs = objective(X, Y, limits, peer.coef_.T)
        assert objective(X, Y, limits, ours.coef) == pytest.approx(theirs, abs=2e-9 * half_square(Y))


@pytest.mark.parametrize("positive", [False, True], ids=["signed", "positive"])
@pytest.mark.parametrize("form", ["dense", "sparse", "float32"])
@pytest.mark.parametrize("solver", SOLVERS[:2])
def test_celer(solver, form, positive):
    celer = pytest.importorskip("celer", reason="celer is not installed")
    X, y, weights = make_problem(3, density=0.3 if form == "sparse" else 1.0)
    if form == "float32":
        X = X.astype(np.float32).astype(np.float64)
    made = {"dense": X, "sparse": sparse.csc_matrix(X), "float32": X.astype(np.float32)}[form]
    for ratio in (0.5, 0.1):
        lam = ratio * lambda_max(made, y, weights, positive=positive)
        ours = solve_weighted_lasso(made, y, lam, weights, positive=positive, solver=solver, tol=1e-8)
        peer = celer.Lasso(lam / N, weights=weights, fit_intercept=False, tol=1e-12, positive=positive)
        peer.fit(sparse.csc_matrix(X) if form == "sparse" else np.asfortranarray(X), y)
        theirs = objective(X, y, lam * weights, peer.coef_)
        assert objective(X, y, lam * weights, ours.coef) == pytest.approx(theirs, abs=2e-8 * half_square(y))


def test_skglm():
    """skglm knows weights of 0."""
    skglm = pytest.importorskip("skglm", reason="skglm is not installed")
    X, y, weights = make_problem(4)
    weights[:2] = 0.0
    lam = 0.2 * lambda_max(X, y, weights)
    ours = solve_weighted_lasso(X, y, lam, weights, tol=1e-10)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        peer = skglm.WeightedLasso(lam / N, weights=weights, fit_intercept=False, tol=1e-10).fit(X, y)
    theirs = objective(X, y, lam * weights, peer.coef_)
    assert objective(X, y, lam * weights, ours.coef) <= theirs + 1e-10 * half_square(y)
    assert theirs <= objective(X, y, lam * weights, ours.coef) + 1e-6 * half_square(y)


@pytest.mark.parametrize("positive", [False, True], ids=["signed", "positive"])
@pytest.mark.parametrize("solver", SOLVERS)
def test_convex_solver(solver, positive):
    """Weights of 0 and inf and positivity together."""
    need(solver)
    for seed in range(3):
        X, y, weights = make_problem(5 + seed, shape=(20, 50))
        weights[:2], weights[-5:] = 0.0, np.inf
        lam = 0.2 * lambda_max(X, y, weights, positive=positive)
        reference = by_convex_solver(X, y, lam * weights, positive=positive)
        ours = solve_weighted_lasso(X, y, lam, weights, positive=positive, solver=solver, tol=1e-9)
        assert ours.converged
        expected = objective(X, y, lam * weights, reference)
        assert ours.primal == pytest.approx(expected, abs=2e-8 * half_square(y))
        np.testing.assert_allclose(ours.coef, reference, atol=1e-3 * np.abs(reference).max())


@pytest.mark.parametrize("n_targets", [None, 3])
@pytest.mark.parametrize("data", ["real", "complex"])
@pytest.mark.parametrize("solver", ["working-set", "cvxpy"])
def test_convex_solver_on_blocks(solver, data, n_targets):
    need(solver)
    rng = np.random.default_rng(8)
    X, y, weights = make_problem(8, shape=(20, 50))
    weights[0], weights[-5:] = 0.0, np.inf
    Y = y if n_targets is None else y[:, None] + 0.5 * rng.standard_normal((20, n_targets))
    if data == "complex":
        X = X + 1j * make_problem(9, shape=(20, 50))[0]
        Y = Y * np.exp(1j * rng.uniform(0, 6, Y.shape))
    lam = 0.3 * lambda_max(X, Y, weights)
    reference = by_convex_solver(X, Y, lam * weights)
    ours = solve_weighted_lasso(X, Y, lam, weights, solver=solver, tol=1e-8)
    assert ours.converged
    expected = objective(X, Y, lam * weights, reference)
    assert ours.primal == pytest.approx(expected, abs=2e-8 * half_square(Y))
    np.testing.assert_allclose(ours.coef, reference, atol=1e-3 * np.abs(reference).max())


@pytest.mark.parametrize("rule", RULES)
def test_cvxpy_behind_every_rule(rule):
    """The answer is the same whatever was removed before CVXPY saw the problem, and something was."""
    need("cvxpy")
    X, y, weights = make_problem(14, shape=(20, 60))
    for positive in (False, True):
        lam = 0.8 * lambda_max(X, y, weights, positive=positive)
        on = solve_weighted_lasso(X, y, lam, weights, positive=positive, solver="cvxpy", screening=rule)
        off = solve_weighted_lasso(X, y, lam, weights, positive=positive, solver="cvxpy", screening=None)
        exact = solve_weighted_lasso(X, y, lam, weights, positive=positive, tol=1e-12)
        assert on.converged
        assert on.primal == pytest.approx(off.primal, abs=1e-6 * half_square(y))
        assert on.primal == pytest.approx(exact.primal, abs=1e-6 * half_square(y))
        # an interior-point method leaves small values where the exact answer has zeros
        np.testing.assert_allclose(on.coef, exact.coef, atol=1e-3 * np.abs(exact.coef).max())
        assert bool(on.history[0]["rejected"]) == (rule is not None)
        if rule in ("two_hyperplanes", "auto"):
            assert on.history[0]["working_set"] < 40


def test_cvxpy_path():
    need("cvxpy")
    X, y, _ = make_problem(11, shape=(20, 60))
    path = weighted_lasso_path(X, y, [0.4, 0.8], solver="cvxpy")
    for solution in path:
        exact = solve_weighted_lasso(X, y, solution.lam, tol=1e-12)
        assert solution.primal == pytest.approx(exact.primal, abs=1e-6 * half_square(y))


def test_cvxpy_missing_is_said(monkeypatch):
    """Without CVXPY the error names the extra that brings it."""
    import sys

    monkeypatch.setitem(sys.modules, "cvxpy", None)
    X, y, _ = make_problem(12)
    with pytest.raises(ImportError, match=r'solver="cvxpy" needs CVXPY: pip install "fastsbl\[cvxpy\]"'):
        solve_weighted_lasso(X, y, 0.5 * lambda_max(X, y), solver="cvxpy")


def test_cvxpy_with_a_zero_target_and_unpenalised_columns():
    need("cvxpy")
    X, y, weights = make_problem(13, shape=(5, 8))
    weights[0] = 0.0
    solution = solve_weighted_lasso(X, 0 * y, 0.1, weights, solver="cvxpy")
    assert not solution.coef.any()
