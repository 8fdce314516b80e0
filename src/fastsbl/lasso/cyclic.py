"""Plain cyclic coordinate descent over all columns that screening leaves: the studies' baseline."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from fastsbl._base.types import Array, FloatArray, IndexArray
from fastsbl.dictionary import DenseDictionary
from fastsbl.lasso import _kernels
from fastsbl.lasso.answer import Answer
from fastsbl.screening.problem import DualProblem, PrimalPoint, dual_scale, duality_gap
from fastsbl.screening.rules import Rule

__all__ = ["solve_cyclic"]

_EPOCHS = 10
_FIRST_EPOCHS = 2  # before the first look at coefficients, if tests could remove many columns then; then twice as many
_MOST_BYTES = 2**32
_FEW = 0.1  # with fewer columns left than this share, ten sweeps cost less than the reads of a static test


class _Columns:
    """The surviving columns in a form that the kernels can sweep."""

    def __init__(self, problem: DualProblem) -> None:
        phi = problem.dictionary
        self.phi = phi
        self.positive = problem.positive
        self.stored: tuple[Array, Array, Array] | None = None
        self.own_rows: Array | None = None
        if isinstance(phi, DenseDictionary) and phi.dtype == np.float64 and phi.transposed_rows().flags.c_contiguous:
            self.own_rows = phi.transposed_rows()
        self.rows = self.own_rows
        self.place = np.arange(phi.n_features)

    def keep(self, index: IndexArray) -> None:
        """Hold only these columns from now on; they are a subset of those held before."""
        if self.own_rows is not None:
            self.place = index
            return
        if self.phi.is_sparse:
            self.stored = self.phi.sparse_columns(index)
            self.place = np.arange(index.size)
            return
        size = index.size * self.phi.n_samples * 8
        if size > _MOST_BYTES:
            raise ValueError(
                f"solver 'cd' needs the surviving columns in memory ({size / 2**30:.1f} GiB for {index.size} columns); "
                "use solver='working-set'"
            )
        self.rows = np.ascontiguousarray(self.phi.columns(index).T)
        self.place = np.arange(index.size)

    def sweep(
        self, limits: FloatArray, theta: FloatArray, residual: FloatArray, squares: FloatArray, tol: float, epochs: int
    ) -> int:
        """Run a few epochs; theta and residual are updated in place."""
        if self.stored is not None:
            done = _kernels.cyclic_sparse(
                *self.stored, self.place, limits, theta, residual, squares, epochs, tol, self.positive
            )
        else:
            done = _kernels.cyclic_dense(
                self.rows, self.place, limits, theta, residual, squares, epochs, tol, self.positive
            )
        return int(done)


def solve_cyclic(
    problem: DualProblem,
    y: FloatArray,
    rules: tuple[Rule, ...],
    start: FloatArray,
    point: PrimalPoint | None,
    tol: float,
    max_iter: int,
) -> Answer:
    """Sweep all surviving columns in turn; every few epochs look at the gap and screen again.

    Rules that read the target run where those that read only coefficients, which are known, leave much to sweep.
    """
    clock = time.perf_counter()
    phi = problem.dictionary
    alive = np.flatnonzero((problem.norms > 0) & np.isfinite(problem.limits))
    shares: dict[str, float] = {}
    rejected = np.zeros(phi.n_features, dtype=np.bool_)
    dynamic = [rule for rule in rules if rule.dynamic]
    for rule in sorted(rules, key=lambda rule: not rule.dynamic):
        if not rule.dynamic and point is not None and phi.n_features - rejected.sum() < _FEW * phi.n_features:
            continue
        mask = rule.test(problem, point if rule.dynamic else None)
        rejected |= mask.rejected
        shares[mask.rule] = mask.share
    alive = alive[~rejected[alive]]
    columns = _Columns(problem)
    columns.keep(alive)
    theta = start[alive].copy()
    residual = y - phi.apply(start * ~rejected)
    history: list[dict[str, Any]] = []
    target, epochs = tol * 0.5 * float(y @ y), 0
    scale = float(np.linalg.norm(y))
    planned = _FIRST_EPOCHS if dynamic and alive.size > _FEW * phi.n_features else _EPOCHS
    while epochs < max_iter:
        squares = problem.norms[alive] ** 2
        share = min(planned, max_iter - epochs)
        planned = min(2 * planned, _EPOCHS)
        done = columns.sweep(problem.limits[alive], theta, residual, squares, 1e-15 * scale, share)
        epochs += done
        coef = np.zeros(phi.n_features)
        coef[alive] = theta
        # the residual was updated thousands of times: make it anew, from the coefficients
        residual = y - phi.apply(coef)
        projected = problem.project(residual)
        products = phi.correlate(projected, alive)
        left = problem.restricted(alive)
        ratio = left.largest_ratio(products)
        used = theta != 0
        penalty = float(np.abs(theta[used]) @ problem.limits[alive][used])
        primal = 0.5 * float(residual @ residual) + penalty
        gap = duality_gap(primal, dual_scale(projected, y, ratio, problem.positive) * projected, y)
        history.append(
            {
                "objective": primal,
                "gap": max(gap, 0.0),
                "support": int(used.sum()),
                "working_set": alive.size,
                "rejected": dict(shares),
                "passes": phi.passes,
                "seconds": time.perf_counter() - clock,
            }
        )
        if gap <= target or done < share:
            break
        if dynamic:
            at = PrimalPoint(projected, products, penalty)
            for rule in dynamic:
                mask = rule.test(left, at)
                shares[mask.rule] = 1.0 - np.count_nonzero(~mask.rejected) / phi.n_features
                rejected[alive[mask.rejected]] = True
            stay = ~rejected[alive]
            if stay.sum() < 0.9 * alive.size:
                residual = residual + (phi.apply(coef * rejected) if (theta[~stay] != 0).any() else 0.0)
                alive, theta = alive[stay], theta[stay]
                columns.keep(alive)
    coef = np.zeros(phi.n_features)
    coef[alive] = theta
    return Answer(coef, epochs, history)
