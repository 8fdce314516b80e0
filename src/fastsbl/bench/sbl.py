"""Sparse Bayesian learning with a given noise variance, in every package that can: prior variances gamma.

All minimise ``log|S| + y' S^-1 y``, S = lam I + X diag(gamma) X', or stop at a stationary point of it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fastsbl._base.types import FloatArray
from fastsbl.bench import judge
from fastsbl.bench.data import Problem
from fastsbl.bench.solvers import Answer, Solver, at_most, more_than

__all__ = ["SBL_SOLVERS"]

Inner = Callable[[FloatArray, FloatArray], FloatArray]


def _fastsbl(problem: Problem, lam: float, tol: float) -> Answer:
    from fastsbl.sbl import fit_sbl

    result = fit_sbl(problem.matrix, problem.y, lam, init="unit", tol=tol)
    return Answer(result.gamma, result.passes)


def _reweighted(problem: Problem, lam: float, tol: float, inner: Inner) -> Answer:
    """The paper's Algorithm 1 by hand: ``inner(weights, start)`` solves one weighted lasso."""
    n_features = problem.shape[1]
    squares = judge.squared_norms(problem.matrix)
    weights, gamma, theta = np.ones(n_features), np.zeros(n_features), np.zeros(n_features)
    for _ in range(1_000):
        theta = np.asarray(inner(weights, theta), dtype=np.float64)
        before, gamma = gamma, np.abs(theta) / weights
        sizes = gamma * squares
        if np.max(np.abs(sizes - before * squares)) <= tol * sizes.max():
            break
        used = np.flatnonzero(gamma)
        columns = judge.columns_of(problem.matrix, used) * np.sqrt(gamma[used])
        left, values, _ = np.linalg.svd(columns, full_matrices=False)
        products = np.asarray(problem.matrix.T @ left) ** 2
        rest = np.maximum(squares - products.sum(axis=1), 0.0)
        weights = np.sqrt(rest / lam + (products / (lam + values**2)).sum(axis=1))
    return Answer(gamma)


def _celer_loop(problem: Problem, lam: float, tol: float) -> Answer:
    import celer

    model = celer.Lasso(
        lam / problem.y.size, fit_intercept=False, tol=min(1e-8, 1e-4 * tol), warm_start=True, max_iter=200
    )

    def inner(weights: FloatArray, start: FloatArray) -> FloatArray:
        model.weights = weights
        coef: FloatArray = model.fit(problem.matrix, problem.y).coef_
        return coef

    return _reweighted(problem, lam, tol, inner)


def _skglm_loop(problem: Problem, lam: float, tol: float) -> Answer:
    import skglm

    model = skglm.WeightedLasso(
        lam / problem.y.size, fit_intercept=False, tol=min(1e-8, 1e-4 * tol), warm_start=True, max_iter=200
    )

    def inner(weights: FloatArray, start: FloatArray) -> FloatArray:
        model.weights = weights
        coef: FloatArray = model.fit(problem.matrix, problem.y).coef_
        return coef

    return _reweighted(problem, lam, tol, inner)


def _convex_loop(problem: Problem, lam: float, tol: float) -> Answer:
    """The paper's way: a general convex solver for every inner problem."""
    import cvxpy

    n_features = problem.shape[1]
    theta, limits = cvxpy.Variable(n_features), cvxpy.Parameter(n_features, nonneg=True)
    fit = 0.5 * cvxpy.sum_squares(problem.y - problem.matrix @ theta)
    model = cvxpy.Problem(cvxpy.Minimize(fit + limits @ cvxpy.abs(theta)))

    def inner(weights: FloatArray, start: FloatArray) -> FloatArray:
        limits.value = lam * weights
        model.solve(solver="CLARABEL")
        coef = np.array(theta.value)
        coef[np.abs(coef) < 1e-6 * np.abs(coef).max(initial=0.0)] = 0.0
        return coef

    return _reweighted(problem, lam, tol, inner)


def _gamma_of(problem: Problem, lam: float, coef: FloatArray) -> FloatArray:
    """Variances behind a posterior mean: ``theta_i = gamma_i phi_i' (y - X theta) / lam``."""
    used = np.flatnonzero(coef)
    columns = judge.columns_of(problem.matrix, used)
    ratio = lam * coef[used] / (columns.T @ (problem.y - columns @ coef[used]))
    gamma = np.zeros(coef.size)
    gamma[used] = np.where(np.isfinite(ratio) & (ratio > 0), ratio, 0.0)
    return gamma


def _mne(problem: Problem, lam: float, tol: float) -> Answer:
    from mne.inverse_sparse._gamma_map import _gamma_map_opt

    coef, active = _gamma_map_opt(
        problem.y[:, None].copy(), problem.matrix, lam, maxit=10_000, tol=tol, update_mode=2, verbose=False
    )[:2]
    theta = np.zeros(problem.shape[1])
    theta[active] = coef[:, 0]
    return Answer(_gamma_of(problem, lam, theta))


def _ard(problem: Problem, lam: float, tol: float) -> Answer:
    """Its noise variance is held at ``lam`` by a prior of 10^12 observations."""
    from sklearn.linear_model import ARDRegression

    sure = 1e12
    model = ARDRegression(
        fit_intercept=False, tol=tol, alpha_1=sure, alpha_2=sure * lam, lambda_1=0.0, lambda_2=0.0, max_iter=10_000
    ).fit(problem.matrix, problem.y)
    kept = model.lambda_ < model.threshold_lambda
    return Answer(np.where(kept, 1.0 / model.lambda_, 0.0))


def _fastrvm(problem: Problem, lam: float, tol: float) -> Answer:
    """It takes square kernels only, and has no tolerance."""
    from fastrvm import RVR

    model = RVR(kernel="precomputed", noise_fixed=True, noise_std_init=float(np.sqrt(lam)))
    model.fit(problem.matrix, problem.y)
    gamma = np.zeros(problem.shape[1])
    gamma[np.asarray(model.relevance_).ravel()] = 1.0 / np.asarray(model.alpha_).ravel()
    return Answer(gamma)


def _double(problem: Problem) -> bool:
    return bool(problem.matrix.dtype == np.float64)


def _dense(problem: Problem) -> bool:
    return _double(problem) and not judge.is_sparse(problem.matrix)


def _square(problem: Problem) -> bool:
    return _dense(problem) and problem.shape[0] == problem.shape[1]


def _small_dense(problem: Problem) -> bool:
    return _dense(problem) and at_most(1_000_000)(problem)


_SLOW = more_than(20_000)

SBL_SOLVERS = (
    Solver("fastsbl", _fastsbl, "fastsbl", "fastsbl"),
    Solver("loop over celer", _celer_loop, "celer", "celer", suits=_double),
    Solver("loop over skglm", _skglm_loop, "skglm", "skglm", suits=_double),
    Solver("MNE gamma_map", _mne, "mne", "mne", suits=_dense, slow=_SLOW),
    Solver("ARDRegression", _ard, "sklearn", "scikit-learn", suits=_dense, slow=_SLOW),
    Solver("fastrvm", _fastrvm, "fastrvm", "fastrvm", suits=_square),
    Solver("loop over CVXPY", _convex_loop, "cvxpy", "cvxpy", suits=_small_dense, slow=_SLOW),
)
