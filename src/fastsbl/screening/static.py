"""Regions that need only the target: sphere, dome, two hyperplanes, on one of three balls."""

from __future__ import annotations

import numpy as np

from fastsbl._base.types import Array, BoolArray, FloatArray
from fastsbl.screening import _kernels
from fastsbl.screening.problem import DualProblem
from fastsbl.screening.region import HalfSpace, Region

__all__ = ["BALLS", "dome_region", "sphere_region", "two_hyperplane_region"]

BALLS = ("diameter", "full", "paper")

Tested = tuple[Region, BoolArray]


def _ball(problem: DualProblem, ball: str) -> tuple[Region, Array, bool]:
    """Ball around the optimum, ``Phi^H`` centre, and whether it is too small to be cut."""
    if problem.target_is_feasible:
        return Region(problem.y, 0.0), problem.correlations, True
    scale = problem.paper_scale if ball == "paper" else problem.scale
    feasible = scale * problem.anchor
    radius = float(np.linalg.norm(problem.y - feasible))
    center, products = problem.y, problem.correlations
    if ball == "diameter":
        center, radius = 0.5 * (center + feasible), 0.5 * radius
        products = 0.5 * (products + scale * problem.anchor_correlations)
    # where only rounding tells the target from a feasible point, planes would be placed by rounding: the ball alone
    return Region(center, radius), products, radius <= problem.rounding


def sphere_region(problem: DualProblem, ball: str) -> Tested:
    """The ball alone."""
    region, center, _ = _ball(problem, ball)
    return region, problem.reject(region, center)


def _first_cut(problem: DualProblem, region: Region, center: FloatArray) -> tuple[int, HalfSpace, FloatArray]:
    star = int(_kernels.deepest_plane(center, center, 0.0, problem.norms, problem.limits, -1, 1.0, problem.positive))
    return star, *_cut(problem, star, 1.0 if problem.positive else np.sign(center[star]))


def _cut(problem: DualProblem, column: int, sign: float) -> tuple[HalfSpace, FloatArray]:
    """The half-space of one column's constraint and its products with all columns (one read)."""
    normal = (sign / problem.norms[column]) * problem.dictionary.columns([column])[:, 0]
    return HalfSpace(normal, problem.limits[column] / problem.norms[column]), problem.dictionary.correlate(normal)


def dome_region(problem: DualProblem, ball: str) -> Tested:
    """The ball cut by the constraint that cuts deepest."""
    region, center, too_small = _ball(problem, ball)
    if too_small or problem.vector_valued:
        return region, problem.reject(region, center)
    _, cut, products = _first_cut(problem, region, center)
    region = Region(region.center, region.radius, (cut,))
    return region, problem.reject(region, center, (products,))


def two_hyperplane_region(problem: DualProblem, ball: str) -> Tested:
    """The dome cut by the constraint that cuts its circumsphere deepest."""
    region, center, too_small = _ball(problem, ball)
    if too_small or problem.vector_valued:
        return region, problem.reject(region, center)
    star, cut, products = _first_cut(problem, region, center)
    psi = (float(cut.normal @ region.center) - cut.offset) / region.radius
    shift = max(psi, 0.0) * region.radius
    second = int(
        _kernels.deepest_plane(
            center, products, shift, problem.norms, problem.limits, star, 1.0 - 1e-10, problem.positive
        )
    )
    if second < 0 or np.isinf(problem.limits[second]):
        region = Region(region.center, region.radius, (cut,))
        return region, problem.reject(region, center, (products,))
    sign = 1.0 if problem.positive else float(np.sign(center[second] - shift * products[second])) or 1.0
    cut2, products2 = _cut(problem, second, sign)
    region = Region(region.center, region.radius, (cut, cut2))
    return region, problem.reject(region, center, (products, products2))
