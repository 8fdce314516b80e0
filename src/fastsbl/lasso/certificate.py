"""The certificate: objective, a feasible dual point and their gap, from all columns and no mask."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fastsbl._base.types import Array
from fastsbl.screening.problem import DualProblem, PrimalPoint, duality_gap, magnitudes

__all__ = ["Certificate", "certify"]


@dataclass(frozen=True)
class Certificate:
    """Primal value, dual point and gap of given coefficients, on the full problem."""

    residual: Array
    dual_point: Array
    primal: float
    gap: float
    point: PrimalPoint


def certify(problem: DualProblem, y: Array, coef: Array, whole_read: tuple[Array, Array] | None = None) -> Certificate:
    """Evaluate coefficients on the full problem: reads their columns, then the whole dictionary once.

    ``whole_read`` is the residual of these very coefficients with its products with all columns, if the last
    step of a solver has just made them: nothing is read again then.
    """
    if whole_read is None or problem.has_unpenalised:
        residual = y - problem.dictionary.apply(coef)
        projected = problem.project(residual)
        correlations = problem.dictionary.correlate(projected)
    else:
        residual, correlations = whole_read
        projected = residual
    if problem.basis is not None:
        correlations[problem.limits == 0.0] = 0.0
    if problem.dictionary.eps > 1e-10 and problem.groups is None:
        _sharpen(problem, projected, correlations)
    if problem.groups is None:
        used = np.flatnonzero(coef if coef.ndim == 1 else coef.any(axis=1))
        penalty = float(magnitudes(coef[used]) @ problem.limits[used])
    else:
        sizes = problem.groups.norms(coef)
        used = np.flatnonzero(sizes)
        penalty = float(sizes[used] @ problem.limits[used])
    point = PrimalPoint(projected, correlations, penalty)
    t = problem.feasible_scale(point)
    dual_point = t * projected
    primal = 0.5 * float(np.vdot(residual, residual).real) + penalty
    gap = duality_gap(primal, dual_point, y)
    return Certificate(residual, dual_point, primal, max(gap, 0.0), point)


def _sharpen(problem: DualProblem, residual: Array, correlations: Array) -> None:
    """Recompute in float64 those single-precision correlations that decide the dual scaling."""
    sizes = correlations.copy() if problem.positive else problem.sizes(correlations)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.where(problem.limits > 0, sizes / problem.limits, 0.0)
        error = problem.slack * float(np.linalg.norm(residual)) * problem.norms / problem.limits
    near = np.flatnonzero(
        ratios + np.where(problem.limits > 0, error, 0.0) >= ratios.max(initial=0.0) * (1 - problem.slack)
    )
    if near.size <= max(256, problem.limits.size // 50):
        correlations[near] = problem.dictionary.columns(near).conj().T @ residual
