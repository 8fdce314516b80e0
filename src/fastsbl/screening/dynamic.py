"""Regions made from coefficients at hand: gap sphere, gap dome, Hoelder dome. They shrink as a solver proceeds."""

from __future__ import annotations

import numpy as np

from fastsbl._base.types import Array, BoolArray
from fastsbl.screening.problem import DualProblem, PrimalPoint, duality_gap
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
    gap = max(duality_gap(primal, eta, problem.y), 0.0) + 64 * problem.dictionary.eps * (
        primal + 0.5 * problem.y_norm**2
    )
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


def _cut(
    problem: DualProblem,
    region: Region,
    center: Array,
    normal: Array,
    offset: float,
    products: Array,
    other: Array,
    length: float,
) -> Tested:
    """Cut a ball by a plane whose normal is ``(target - other) / length``.

    The difference carries the rounding of its terms, so the plane is moved outwards by that much and its
    products count as less precise. If little is left of it, the ball stands alone.
    """
    cancelled = max(1.0, (problem.y_norm + float(np.linalg.norm(other))) / length)
    unit = float(np.finfo(np.float64).eps) * (64 + problem.dictionary.n_samples)
    offset += cancelled * (unit * (float(np.linalg.norm(region.center)) + region.radius) + problem.floor)
    if cancelled * problem.slack > 0.01 or float(normal @ region.center) - offset <= -region.radius:
        return region, problem.reject(region, center)
    region = Region(region.center, region.radius, (HalfSpace(normal, offset),))
    return region, problem.reject(region, center, (products,), cancelled=cancelled)


def gap_dome_region(problem: DualProblem, point: PrimalPoint) -> Tested:
    """The half ball cut by the plane of points whose dual value reaches the primal one."""
    region, center, t = _half_ball(problem, point)
    direction = problem.y - t * point.residual
    length = float(np.linalg.norm(direction))
    if problem.vector_valued or length <= problem.rounding:
        return region, problem.reject(region, center)
    offset = float(direction @ problem.y) - problem.y_norm**2 + 2.0 * _primal(point)
    products = (problem.correlations - t * point.correlations) / length
    return _cut(problem, region, center, direction / length, offset / length, products, t * point.residual, length)


def holder_region(problem: DualProblem, point: PrimalPoint) -> Tested:
    """The half ball cut by ``(Phi theta)' eta <= sum limits_i |theta_i|``: the tightest of the three."""
    region, center, _ = _half_ball(problem, point)
    fit = problem.y - point.residual
    length = float(np.linalg.norm(fit))
    if problem.vector_valued or length <= problem.rounding:
        return region, problem.reject(region, center)
    products = (problem.correlations - point.correlations) / length
    return _cut(problem, region, center, fit / length, point.penalty / length, products, point.residual, length)
