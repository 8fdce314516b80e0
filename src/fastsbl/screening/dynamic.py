"""Regions made from coefficients at hand: gap sphere, gap dome, Hoelder dome. They shrink as a solver proceeds."""

from __future__ import annotations

import numpy as np

from fastsbl._base.types import BoolArray
from fastsbl.screening.problem import DualProblem, PrimalPoint
from fastsbl.screening.region import HalfSpace, Region

__all__ = ["gap_dome_region", "gap_sphere_region", "holder_region"]

Tested = tuple[Region, BoolArray]


def _primal(point: PrimalPoint) -> float:
    return 0.5 * float(np.vdot(point.residual, point.residual).real) + point.penalty


def gap_sphere_region(problem: DualProblem, point: PrimalPoint) -> Tested:
    """Ball of radius sqrt(2 gap) around the scaled residual."""
    t = problem.feasible_scale(point)
    eta = t * point.residual
    primal = _primal(point)
    gap = primal - float(np.vdot(eta, problem.y).real) + 0.5 * float(np.vdot(eta, eta).real)
    gap = max(gap, 0.0) + 64 * problem.dictionary.eps * (primal + 0.5 * problem.y_norm**2)
    region = Region(eta, float(np.sqrt(2.0 * gap)))
    return region, problem.reject(region, t * point.correlations)


def _half_ball(problem: DualProblem, point: PrimalPoint) -> tuple[Region, np.ndarray, float]:
    """Ball whose diameter joins the target and the scaled residual."""
    t = problem.feasible_scale(point)
    eta = t * point.residual
    region = Region(0.5 * (problem.y + eta), 0.5 * float(np.linalg.norm(problem.y - eta)))
    center = 0.5 * (problem.correlations + t * point.correlations)
    if region.radius <= problem.rounding:
        region = Region(region.center, problem.rounding)
    return region, center, t


def gap_dome_region(problem: DualProblem, point: PrimalPoint) -> Tested:
    """The half ball cut by the plane of points whose dual value reaches the primal one."""
    region, center, t = _half_ball(problem, point)
    direction = problem.y - t * point.residual
    length = float(np.linalg.norm(direction))
    if problem.vector_valued or length <= problem.rounding:
        return region, problem.reject(region, center)
    offset = float(direction @ problem.y) - problem.y_norm**2 + 2.0 * _primal(point)
    region = Region(region.center, region.radius, (HalfSpace(direction / length, offset / length),))
    products = (problem.correlations - t * point.correlations) / length
    return region, problem.reject(region, center, (products,))


def holder_region(problem: DualProblem, point: PrimalPoint) -> Tested:
    """The half ball cut by ``(Phi theta)' eta <= sum limits_i |theta_i|``: the tightest of the three."""
    region, center, _ = _half_ball(problem, point)
    fit = problem.y - point.residual
    length = float(np.linalg.norm(fit))
    if problem.vector_valued or length <= problem.rounding:
        return region, problem.reject(region, center)
    region = Region(region.center, region.radius, (HalfSpace(fit / length, point.penalty / length),))
    products = (problem.correlations - point.correlations) / length
    return region, problem.reject(region, center, (products,))
