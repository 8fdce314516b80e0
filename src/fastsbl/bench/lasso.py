"""The lasso in every package: min 0.5 ||y - X theta||^2 + lam sum_i w_i |theta_i|, without an intercept."""

from __future__ import annotations

import numpy as np

from fastsbl._base.types import FloatArray
from fastsbl.bench import judge
from fastsbl.bench.data import Problem
from fastsbl.bench.solvers import Answer, Solver, at_most, is_tall

__all__ = ["LASSO_SOLVERS"]


def _fastsbl(problem: Problem, lam: float, tol: float) -> Answer:
    from fastsbl.lasso import solve_weighted_lasso

    solution = solve_weighted_lasso(problem.matrix, problem.y, lam, problem.weights, tol=tol)
    return Answer(solution.coef, solution.passes)


def _celer(problem: Problem, lam: float, tol: float) -> Answer:
    import celer

    model = celer.Lasso(lam / problem.y.size, weights=problem.weights, fit_intercept=False, tol=tol)
    return Answer(model.fit(problem.matrix, problem.y.astype(problem.matrix.dtype)).coef_)


def _skglm(problem: Problem, lam: float, tol: float) -> Answer:
    import skglm

    alpha = lam / problem.y.size
    if problem.weights is None:
        model = skglm.Lasso(alpha, fit_intercept=False, tol=tol)
    else:
        model = skglm.WeightedLasso(alpha, weights=problem.weights, fit_intercept=False, tol=tol)
    return Answer(model.fit(problem.matrix, problem.y.astype(problem.matrix.dtype)).coef_)


def _sklearn(problem: Problem, lam: float, tol: float, *, gram: bool = False) -> Answer:
    """Columns are divided by their weights beforehand, since there are none."""
    from sklearn.linear_model import Lasso

    alpha = lam / problem.y.size
    model = Lasso(alpha, fit_intercept=False, tol=tol, max_iter=100_000, precompute=gram, copy_X=False)
    coef = model.fit(problem.scaled, problem.y.astype(problem.matrix.dtype)).coef_
    return Answer(coef if problem.weights is None else coef / problem.weights)


def _sklearn_gram(problem: Problem, lam: float, tol: float) -> Answer:
    return _sklearn(problem, lam, tol, gram=True)


def _adelie(problem: Problem, lam: float, tol: float) -> Answer:
    import adelie

    matrix = adelie.matrix.sparse(problem.matrix) if judge.is_sparse(problem.matrix) else problem.matrix
    state = adelie.grpnet(
        X=matrix,
        glm=adelie.glm.gaussian(y=problem.y.astype(problem.matrix.dtype), dtype=problem.matrix.dtype.type),
        penalty=None if problem.weights is None else problem.weights.astype(problem.matrix.dtype),
        lmda_path=np.array([lam / problem.y.size]),
        intercept=False,
        early_exit=False,
        tol=tol,
        progress_bar=False,
    )
    coef: FloatArray = np.asarray(state.betas[-1].toarray(), dtype=np.float64).ravel()
    return Answer(coef)


def _glmnet(problem: Problem, lam: float, tol: float) -> Answer:
    from glmnet import ElasticNet

    weights = problem.weights
    level = 1.0 if weights is None else float(weights.mean())  # penalty factors are rescaled to a mean of one
    model = ElasticNet(
        alpha=1.0,
        lambda_path=np.array([level * lam / problem.y.size]),
        standardize=False,
        fit_intercept=False,
        n_splits=0,
        tol=tol,
    )
    model.fit(problem.matrix, problem.y, relative_penalties=weights)
    return Answer(np.asarray(model.coef_path_[:, -1]))


def _clarabel(problem: Problem, lam: float, tol: float) -> Answer:
    """The general way: a model in CVXPY, solved as a cone program."""
    import cvxpy

    theta = cvxpy.Variable(problem.shape[1])
    weights = np.ones(problem.shape[1]) if problem.weights is None else problem.weights
    objective = 0.5 * cvxpy.sum_squares(problem.y - problem.matrix @ theta) + lam * (weights @ cvxpy.abs(theta))
    cvxpy.Problem(cvxpy.Minimize(objective)).solve(
        solver="CLARABEL", tol_gap_rel=tol, tol_gap_abs=tol * float(problem.y @ problem.y), tol_feas=min(tol, 1e-8)
    )
    coef = np.array(theta.value)
    coef[np.abs(coef) < 1e-9 * np.abs(coef).max(initial=0.0)] = 0.0
    return Answer(coef)


def _double(problem: Problem) -> bool:
    return bool(problem.matrix.dtype == np.float64)


LASSO_SOLVERS = (
    Solver("fastsbl", _fastsbl, "fastsbl", "fastsbl"),
    Solver("celer", _celer, "celer", "celer"),
    Solver("skglm", _skglm, "skglm", "skglm"),
    Solver("scikit-learn", _sklearn, "sklearn", "scikit-learn"),
    Solver("scikit-learn, Gram", _sklearn_gram, "sklearn", "scikit-learn", suits=is_tall),
    Solver("adelie", _adelie, "adelie", "adelie"),
    Solver("glmnet", _glmnet, "glmnet", "python-glmnet", suits=_double),
    Solver("CVXPY, Clarabel", _clarabel, "cvxpy", "cvxpy", suits=at_most(250_000)),
)
