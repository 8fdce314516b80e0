"""A general convex solver through CVXPY: the paper's way, for comparison."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from fastsbl._base.types import Array
from fastsbl.lasso.answer import Answer
from fastsbl.screening.problem import DualProblem, PrimalPoint
from fastsbl.screening.rules import Rule

__all__ = ["solve_convex"]


def solve_convex(
    problem: DualProblem,
    y: Array,
    rules: tuple[Rule, ...],
    start: Array,
    point: PrimalPoint | None,
    tol: float,
    max_iter: int,
) -> Answer:
    """Hand the screened problem to CVXPY (Clarabel); coefficients below 1e-7 of the largest are set to zero."""
    try:
        import cvxpy
    except ImportError as error:
        raise ImportError('solver="cvxpy" needs CVXPY: pip install "fastsbl[cvxpy]"') from error
    del start  # interior-point methods do not start warm
    clock = time.perf_counter()
    phi = problem.dictionary
    keep = (problem.norms > 0) & np.isfinite(problem.limits)
    shares: dict[str, float] = {}
    for rule in rules:
        mask = rule.test(problem, point if rule.dynamic else None)
        keep &= ~mask.rejected
        shares[mask.rule] = mask.share
    index = np.flatnonzero(keep)
    shape = (phi.n_features, *y.shape[1:])
    coef = np.zeros(shape, dtype=np.complex128 if np.iscomplexobj(problem.correlations) else np.float64)
    history: list[dict[str, Any]] = []
    iterations = 0
    if index.size:
        theta = cvxpy.Variable((index.size, *y.shape[1:]), complex=np.iscomplexobj(coef), nonneg=problem.positive)
        columns = phi.columns(index)
        norms = cvxpy.norm(theta, 2, axis=1) if y.ndim == 2 else cvxpy.abs(theta)
        loss = 0.5 * cvxpy.sum_squares(y - columns @ theta)
        task = cvxpy.Problem(cvxpy.Minimize(loss + problem.limits[index] @ norms))
        accuracy = max(min(tol * 1e-2, 1e-8), 1e-13)
        task.solve(
            solver=cvxpy.CLARABEL, max_iter=max_iter, tol_gap_abs=accuracy, tol_gap_rel=accuracy, tol_feas=accuracy
        )
        if theta.value is None:
            raise RuntimeError(f"CVXPY found no solution (status {task.status!r})")
        iterations = int(task.solver_stats.num_iters or 0)
        values = np.asarray(theta.value)
        sizes = np.abs(values) if values.ndim == 1 else np.linalg.norm(values, axis=1)
        sizes = sizes * problem.norms[index]
        values[sizes <= 1e-7 * sizes.max()] = 0.0
        coef[index] = values
    history.append(
        {"rejected": shares, "working_set": index.size, "passes": phi.passes, "seconds": time.perf_counter() - clock}
    )
    return Answer(coef, iterations, history)
