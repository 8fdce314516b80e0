"""The working-set solver for real data and one target."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from fastsbl._base.types import BoolArray, FloatArray, IndexArray
from fastsbl.lasso import _kernels
from fastsbl.lasso.answer import Answer
from fastsbl.lasso.certified import CertifiedLasso
from fastsbl.lasso.correlations import Correlations, Products
from fastsbl.lasso.working_set import WorkingSet
from fastsbl.screening.problem import DualProblem, PrimalPoint, dual_scale, duality_gap
from fastsbl.screening.rules import Rule

__all__ = ["KnownLimits", "solve_working_set", "take_first"]

_FEWEST, _FIRST = 32, 64  # columns to begin with: twice as many as exceed their limit at theta = 0, within these
_READ, _ROUND = 7.0, 4e6  # numbers that BLAS multiplies while one is read, and while one round of calls is made
_PRODUCTS = 0.16  # memory that products may take, as a share of the dictionary's
_SHORT = 16  # numbers per column below which a whole read costs less than bounds on all columns
_PROMISING = 0.1  # relative gap below which a dynamic rule is worth one look at all features


class KnownLimits:
    """Limits that are all known, as in the plain weighted lasso."""

    def __init__(self, limits: FloatArray) -> None:
        self.lower = limits

    def sharpen(self, index: IndexArray) -> None:
        """Nothing to do: they are exact."""


def solve_working_set(
    problem: DualProblem,
    y: FloatArray,
    rules: tuple[Rule, ...],
    start: FloatArray,
    point: PrimalPoint | None,
    tol: float,
    max_iter: int,
) -> Answer:
    """Solve exactly on a growing working set, until the duality gap of the full problem is below ``tol``."""
    clock = time.perf_counter()
    phi, limits = problem.dictionary, problem.limits
    working_set = WorkingSet(phi, y)
    # with the target alone bounds are wide: the first look reads everything, which often is the certificate as well
    loop = CertifiedLasso(working_set, Products(phi, problem.norms, problem.slack), positive=problem.positive)
    bounded = phi.column_size > _SHORT
    if bounded and point is not None:
        loop.correlations = _correlations(problem, point.residual, point.correlations)
    rejected: BoolArray | None = None
    shares = {rule.name: 0.0 for rule in rules}
    opening = [rule for rule in rules if not rule.dynamic or point is not None]
    if opening:
        masks = [rule.test(problem, point if rule.dynamic else None) for rule in opening]
        rejected = np.logical_or.reduce([mask.rejected for mask in masks])
        shares.update({mask.rule: mask.share for mask in masks})
    take_first(working_set, problem, rejected, start)
    history: list[dict[str, Any]] = []
    target = tol * 0.5 * float(y @ y)
    known, epochs = KnownLimits(limits), 0
    dynamic = [rule for rule in rules if rule.dynamic and bounded]
    seen, fewest = 0, _affordable(problem)
    while epochs < max_iter:
        size = working_set.size
        batch = max(fewest, 2 * working_set.support().size)
        found = loop.step(known, rejected, batch=batch, max_epochs=max_iter - epochs)
        epochs += found.epochs
        residual = found.residual
        primal = 0.5 * float(residual @ residual) + found.penalty
        # features that were not read are known to be below their limit at t = 1
        t = min(dual_scale(residual, y, found.ratio, problem.positive), 1.0)
        gap = duality_gap(primal, t * residual, y)
        history.append(
            {
                "objective": primal,
                "gap": max(gap, 0.0),
                "support": found.support,
                "working_set": size,
                "rejected": dict(shares),
                "read": found.checked / limits.size,
                "passes": phi.passes,
                "seconds": time.perf_counter() - clock,
            }
        )
        if found.violators == 0 or gap <= target:
            break
        if bounded and loop.last_full is not None and not isinstance(loop.correlations, Correlations):
            loop.correlations = _correlations(problem, *loop.last_full)
        # with few violators left the next round reads little anyway
        worthwhile = gap < _PROMISING * 0.5 * problem.y_norm**2 and found.violators > batch
        if dynamic and worthwhile and loop.full_reads > seen and loop.last_full is not None:
            seen = loop.full_reads
            for rule in dynamic:
                mask = rule.test(problem, PrimalPoint(*loop.last_full, found.penalty))
                shares[mask.rule] = mask.share
                rejected = mask.rejected if rejected is None else rejected | mask.rejected
    ended_whole = loop.last_full is not None and loop.last_full[0] is residual
    return Answer(working_set.coefficients(), epochs, history, loop.last_full if ended_whole else None)


def _correlations(problem: DualProblem, residual: FloatArray, products: FloatArray) -> Correlations:
    """What the target's products and those of another residual say of all columns."""
    phi = problem.dictionary
    room = _PRODUCTS * phi.column_size * phi.dtype.itemsize / 8
    correlations = Correlations(
        phi, problem.y, problem.correlations, problem.norms, problem.slack, most_directions=int(np.clip(room, 4, 16))
    )
    correlations.add(residual, products)
    return correlations


def _affordable(problem: DualProblem) -> int:
    """Columns whose Gram matrix costs no more than one look at all features, and at most `_FIRST`."""
    phi = problem.dictionary
    return min(_FIRST, int(np.sqrt(_READ * phi.n_features + _ROUND / max(phi.column_size, 1.0))))


def take_first(
    working_set: WorkingSet, problem: DualProblem, rejected: BoolArray | None, start: FloatArray | None
) -> None:
    """Begin with the given coefficients, the unpenalised columns and those whose limit is nearest.

    Columns already in hand take part again, from the coefficients they have.
    """
    limits, norms = problem.limits, problem.norms
    working_set.limits[:] = limits[working_set.index]
    working_set.theta[np.isinf(working_set.limits)] = 0.0
    cold = start is None or not start.any()
    index: IndexArray = np.zeros(0, dtype=np.intp)
    if problem.has_unpenalised or not cold:
        first = limits == 0.0
        if start is not None:
            first |= start != 0
        index = np.flatnonzero(first & np.isfinite(limits) & (norms > 0) & (working_set.position < 0))
    if cold:
        skip = working_set.position if rejected is None else np.where(rejected, 0, working_set.position)
        nearest, exceeding = _kernels.nearest_limits(
            problem.correlations, limits, norms, skip, problem.scale, _FIRST, problem.positive
        )
        count = min(max(2 * exceeding, _FEWEST), _affordable(problem)) - working_set.size
        index = np.concatenate([index, nearest[: max(0, count)]])
    index = np.sort(index)
    working_set.add(index, limits[index])
    if start is not None:
        working_set.theta[:] = start[working_set.index]
