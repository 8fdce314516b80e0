"""The working-set solver for several targets, complex data or groups: one norm for each block of coefficients."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from fastsbl._base.types import Array, BoolArray, FloatArray, IndexArray
from fastsbl.lasso import _kernels
from fastsbl.lasso.answer import Answer
from fastsbl.lasso.working_set import widest
from fastsbl.screening.problem import DualProblem, PrimalPoint, duality_gap
from fastsbl.screening.rules import Rule

__all__ = ["BlockWorkingSet", "solve_blocks"]

_FIRST = 32
_EPOCHS = 4  # of coordinate descent between two Newton steps
_LEAST_DAMPING = 1e-8


class BlockWorkingSet:
    """Groups of columns in hand for ``min 0.5||Y - Phi Theta||_F^2 + sum limits_g ||Theta_g||_F``, real or complex.

    Without groups every column is its own.
    """

    def __init__(self, problem: DualProblem, Y: Array) -> None:
        self._dictionary = problem.dictionary
        self._problem = problem
        self._dtype = np.result_type(problem.dictionary.work_dtype, Y.dtype)
        self.Y = Y.astype(self._dtype)
        self.blocks: IndexArray = np.zeros(0, dtype=np.intp)
        self.index: IndexArray = np.zeros(0, dtype=np.intp)
        self.starts: IndexArray = np.zeros(1, dtype=np.intp)
        self.columns: Array = np.zeros((problem.dictionary.n_samples, 0), dtype=self._dtype)
        self.gram: Array = np.zeros((0, 0), dtype=self._dtype)
        self.target: Array = np.zeros((0, Y.shape[1]), dtype=self._dtype)
        self.theta: Array = self.target.copy()
        self.limits: FloatArray = np.zeros(0)
        self.steepest: FloatArray = np.zeros(0)
        self._damping = 1e-3

    def add(self, blocks: IndexArray, coef: Array) -> None:
        """Take in blocks that are not yet here, with their rows of ``coef``."""
        groups = self._problem.groups
        index = blocks if groups is None else groups.columns(blocks)
        sizes = np.ones(blocks.size, dtype=np.intp) if groups is None else groups.sizes(blocks)
        fresh = self._dictionary.columns(index).astype(self._dtype, copy=False)
        columns = np.hstack([self.columns, fresh])
        old = self.index.size
        gram = np.empty((columns.shape[1],) * 2, dtype=self._dtype)
        gram[:old, :old] = self.gram
        gram[:, old:] = columns.conj().T @ fresh
        gram[old:, :old] = gram[:old, old:].conj().T
        self.gram, self.columns = gram, columns
        self.blocks = np.concatenate([self.blocks, blocks])
        self.index = np.concatenate([self.index, index])
        self.starts = np.concatenate([self.starts, old + np.cumsum(sizes)])
        self.limits = self._problem.limits[self.blocks]
        self.target = np.vstack([self.target, fresh.conj().T @ self.Y])
        self.theta = np.vstack([self.theta, coef[index].reshape(index.size, -1).astype(self._dtype)])
        if groups is None:
            self.steepest = np.ascontiguousarray(np.diag(gram).real)
        else:
            self.steepest = np.array(
                [np.linalg.eigvalsh(gram[a:b, a:b])[-1] for a, b in zip(self.starts, self.starts[1:], strict=False)]
            )

    def lengths(self, theta: Array) -> FloatArray:
        """Frobenius norm of each block of theta."""
        squares = np.einsum("ij,ij->i", theta.conj(), theta).real
        return np.asarray(np.sqrt(np.add.reduceat(squares, self.starts[:-1]))) if squares.size else np.zeros(0)

    def penalty(self, theta: Array) -> float:
        """``sum limits_g ||Theta_g||``."""
        lengths = self.lengths(theta)
        used = (lengths > 0) & (self.limits > 0)
        return float(lengths[used] @ self.limits[used])

    def objective(self, theta: Array) -> float:
        """Objective up to a constant."""
        g = self.target - self.gram @ theta
        return -0.5 * float(np.vdot(theta, self.target + g).real) + self.penalty(theta)

    def solve(self, tol: float, max_epochs: int) -> int:
        """Block coordinate descent, with Newton steps while it stays on one support.

        Ends once no block moves by more than ``tol * ||Y||`` in an epoch.
        """
        stop = tol * float(np.linalg.norm(self.Y))
        epochs = 0
        support = np.zeros(0, dtype=np.intp)
        while epochs < max_epochs:
            g = self.target - self.gram @ self.theta
            most = min(_EPOCHS, max_epochs - epochs)
            done = int(
                _kernels.block_gram_epochs(
                    self.gram, self.limits, self.starts, self.steepest, self.theta, g, most, stop
                )
            )
            epochs += done
            if done < most:
                break
            before, support = support, np.flatnonzero(self.lengths(self.theta))
            if np.array_equal(before, support):
                self._newton(support)
        return epochs

    def _newton(self, blocks: IndexArray) -> None:
        """One damped Newton step on blocks that are not zero; the damping follows what succeeds.

        The Hessian is ``G + D`` for every column of theta, less one rank for each block (a norm has no curvature
        along its argument), so that matrices of the size of the support are all it takes, whatever the number of
        targets. Damping takes off less of these ranks. With none taken off, the step minimises a function that lies
        above the objective and touches it here, and cannot fail.
        """
        if blocks.size == 0:
            return
        at = np.concatenate([np.arange(self.starts[k], self.starts[k + 1]) for k in blocks])
        sizes = self.starts[blocks + 1] - self.starts[blocks]
        starts = np.cumsum(sizes) - sizes
        of = np.repeat(np.arange(blocks.size), sizes)
        before, value = self.theta, self.objective(self.theta)
        theta, limits = before[at], self.limits[blocks]
        lengths = self.lengths(before)[blocks]
        slope = (limits / lengths)[of]
        downhill = self.target[at] - self.gram[np.ix_(at, at)] @ theta - slope[:, None] * theta
        inverse = np.linalg.inv(self.gram[np.ix_(at, at)] + np.diag(slope + 1e-14 * self.steepest.max()))
        plain = inverse @ downhill
        overlaps = np.add.reduceat((inverse * (theta.conj() @ theta.T)).real, starts, axis=0)
        overlaps = np.add.reduceat(overlaps, starts, axis=1)
        along = np.add.reduceat(np.einsum("ij,ij->i", theta.conj(), plain).real, starts)
        rank = np.sqrt(limits / lengths**3)

        def lowers(fresh: Array) -> bool:
            """Move there, with blocks that would turn round put to zero; whether the objective is lower."""
            turned = np.add.reduceat(np.einsum("ij,ij->i", theta.conj(), fresh).real, starts) <= 0
            self.theta = before.copy()
            self.theta[at] = np.where(turned[of][:, None], 0.0, fresh)
            return self.objective(self.theta) < value

        while self._damping < 1.0:
            taken = (1.0 - self._damping) * rank
            bend = rank * np.linalg.solve(np.eye(rank.size) - rank[:, None] * overlaps * taken, taken * along)
            if lowers(theta + plain + inverse @ (bend[of][:, None] * theta)):
                self._damping = max(0.1 * self._damping, _LEAST_DAMPING)
                return
            self._damping *= 10.0
        self._damping = 0.1
        if not lowers(theta + plain):
            self.theta = before

    def residual(self) -> Array:
        """``Y - Phi Theta``."""
        return np.asarray(self.Y - self.columns @ self.theta)


def solve_blocks(
    problem: DualProblem,
    y: Array,
    rules: tuple[Rule, ...],
    start: Array,
    point: PrimalPoint | None,
    tol: float,
    max_iter: int,
) -> Answer:
    """Grow a working set by the columns that violate their limit most, until the gap is below ``tol``."""
    clock = time.perf_counter()
    phi, limits = problem.dictionary, problem.limits
    Y = y if y.ndim == 2 else y[:, None]
    shape = (phi.n_features, *y.shape[1:])
    usable = np.isfinite(limits) & (problem.norms > 0)
    shares: dict[str, float] = {}
    rejected: BoolArray = np.zeros(limits.size, dtype=np.bool_)
    for rule in rules:
        mask = rule.test(problem, point if rule.dynamic else None)
        rejected |= mask.rejected
        shares[mask.rule] = mask.share
    ws = BlockWorkingSet(problem, Y)
    first = ((limits == 0) | (problem.sizes(start) > 0)) & usable
    usable &= ~first
    sizes = problem.sizes(problem.correlations)
    candidates = np.flatnonzero(usable & ~rejected)
    nearness = (problem.scale * sizes[candidates] - limits[candidates]) / problem.norms[candidates]
    ws.add(np.sort(np.concatenate([np.flatnonzero(first), candidates[widest(nearness, _FIRST)]])), start)
    target = tol * 0.5 * float(np.vdot(y, y).real)
    history: list[dict[str, Any]] = []
    epochs, inner = 0, 1e-4
    coef = np.zeros(shape, dtype=ws.theta.dtype)
    while epochs < max_iter:
        epochs += ws.solve(inner, max_iter - epochs)
        residual = ws.residual().reshape(y.shape)
        projected = problem.project(residual)
        products = phi.correlate(projected)
        if problem.has_unpenalised:
            products = np.where((limits == 0.0).reshape(-1, *[1] * (y.ndim - 1)), 0.0, products)
        at = PrimalPoint(projected, products, ws.penalty(ws.theta))
        eta = problem.feasible_scale(at) * projected
        primal = 0.5 * float(np.vdot(residual, residual).real) + at.penalty
        gap = duality_gap(primal, eta, y)
        for rule in rules:
            if rule.dynamic:
                mask = rule.test(problem, at)
                rejected |= mask.rejected
                shares[mask.rule] = mask.share
        sizes = problem.sizes(products)
        violators = (sizes > limits) & usable & ~rejected
        violators[ws.blocks] = False
        history.append(
            {
                "objective": primal,
                "gap": max(gap, 0.0),
                "support": int(np.count_nonzero(ws.lengths(ws.theta))),
                "working_set": ws.blocks.size,
                "rejected": dict(shares),
                "passes": phi.passes,
                "seconds": time.perf_counter() - clock,
            }
        )
        if gap <= target:
            break
        fresh = np.flatnonzero(violators)
        if fresh.size:
            depth = (sizes[fresh] - limits[fresh]) / problem.norms[fresh]
            ws.add(np.sort(fresh[widest(depth, max(_FIRST, ws.blocks.size))]), coef)
        if fresh.size < _FIRST:
            if inner <= 1e-15:
                break
            inner *= 0.1
    coef[ws.index] = ws.theta.reshape(ws.index.size, *y.shape[1:])
    return Answer(coef, epochs, history)
