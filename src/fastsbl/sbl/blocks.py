"""Inner problems for several targets, complex data or groups, most of whose features are cleared without a look.

All features are looked at now and then. Between two looks, how far the residual has moved bounds their
correlations, and how much the model has grown bounds their weights; only those that the bounds leave in doubt
are read.
"""

from __future__ import annotations

import numpy as np

from fastsbl._base.types import Array, BoolArray, FloatArray, IndexArray
from fastsbl.lasso.block import BlockWorkingSet, solve_blocks
from fastsbl.lasso.working_set import widest
from fastsbl.sbl.exact import ExactInner
from fastsbl.sbl.inner import InnerResult
from fastsbl.sbl.model import SupportModel
from fastsbl.screening.problem import DualProblem, dual_scale, duality_gap
from fastsbl.screening.rules import Rule

__all__ = ["BoundedBlocks"]

_RELATIVE = 1e-9  # every comparison of bounds leaves this much room for rounding
_CHUNK = 4096


class _Look:
    """Bounds on all features' correlations (from above) and weights (from below), and where they were taken."""

    def __init__(
        self, residual: Array, model: SupportModel, gamma: FloatArray, upper: FloatArray, lower: FloatArray
    ) -> None:
        self.residual = residual
        self.model = model
        self.gamma = gamma  # of all columns
        self.upper = upper
        self.lower = lower
        self.factor = 1.0  # u_i >= lower_i / factor

    def move_to(self, model: SupportModel, index: IndexArray) -> None:
        """Bound how much the model has grown: S_new <= m S_here gives u_new >= u_here / sqrt(m)."""
        growth = np.maximum(model.gamma - self.gamma[index], 0.0)
        grown = growth > 0
        self.factor = 1.0
        if grown.any():
            left, x = self.model.split(model.rows[grown])
            root = np.sqrt(growth[grown])
            square = (left.conj() @ left.T + x.conj().T @ x) * root[:, None] * root
            self.factor = float(np.sqrt(1.0 + np.linalg.eigvalsh(square)[-1])) * (1.0 + _RELATIVE)

    def drift(self, residual: Array) -> float:
        """How far the residual has moved."""
        return float(np.linalg.norm(residual - self.residual))


class BoundedBlocks(ExactInner):
    """The inner problems of one fit with one norm for each feature's or group's block of coefficients.

    Parameters
    ----------
    problem : DualProblem
        Dictionary, target, norms and ``Phi^H y``; its limits are not used.
    y : array of shape (N,) or (N, L)
        The target.
    rules : tuple of Rule
        Screening rules, run while the first inner problem is solved.
    tol : float
        Relative duality gap asked of each inner problem.

    Features in hand stay there, from one noise variance to the next.
    """

    crowded = 0.02
    """Above this share of features in doubt all are looked at again."""

    def __init__(self, problem: DualProblem, y: Array, rules: tuple[Rule, ...], tol: float, max_epochs: int) -> None:
        super().__init__(problem, y, rules, solve_blocks, tol, max_epochs)
        self._phi = problem.dictionary
        self._in_hand = BlockWorkingSet(problem, y if y.ndim == 2 else y[:, None])
        self._place: IndexArray = np.full(problem.norms.size, -1, dtype=np.intp)
        self._column_norms = self._phi.column_norms()
        self._look: _Look | None = None

    def begin(self, lam: float) -> None:
        """Start a fit at this noise variance."""
        super().begin(lam)
        self._look = None

    def first(self, weights: FloatArray) -> InnerResult:
        """Solve with all weights known."""
        found = super().first(weights)
        self._take(found.active)
        hand = self._in_hand
        hand.theta = self.coef[hand.index].reshape(hand.theta.shape).astype(hand.theta.dtype)
        return found

    def resume(self, gamma: FloatArray) -> InnerResult:
        """Solve with the weights of a model given by gamma (of all columns)."""
        groups = self.problem.groups
        active = np.flatnonzero(gamma if groups is None else groups.norms(gamma))
        self._take(active)
        return self.next(self._model_in_hand(active, gamma[self._columns(active)]), active)

    def next(self, model: SupportModel, active: IndexArray) -> InnerResult:
        """Solve with the weights of ``model``, whose features or groups are ``active``."""
        index = self._columns(active)
        if self._look is not None:
            self._look.move_to(model, index)
        hand = self._in_hand
        hand.limits = self._scale * self._block_weights(model, hand.columns.T)
        evaluated = 0
        while True:
            penalty, residual, gap = self._solve_in_hand()
            violators, limits, looked_at = self._violators(model, index, residual)
            evaluated += looked_at
            if violators.size == 0:
                break
            self._take(violators, limits)
        used = np.flatnonzero(hand.lengths(hand.theta))
        self.coef = np.zeros_like(self.coef)
        self.coef[hand.index] = hand.theta.reshape(hand.index.size, *self.y.shape[1:])
        order = used[np.argsort(hand.blocks[used])]
        active = hand.blocks[order]
        weights = hand.limits[order] / self._scale
        theta = self.coef[self._columns(active)]
        return InnerResult(active, theta, weights, residual, penalty, gap, {}, evaluated)

    def finish(self, model: SupportModel, active: IndexArray) -> float:
        """Look at every feature once more: the largest |phi_i'r|/(lam u_i) outside the support.

        Features that the bounds clear are below 1 and are not evaluated.
        """
        residual = self._in_hand.residual().reshape(self.y.shape)
        look = self._see(model, self._columns(active), residual)
        doubtful = self._doubtful(look, residual)
        doubtful[active] = False
        index = np.flatnonzero(doubtful)
        worst = 0.0
        for low in range(0, index.size, _CHUNK):
            part = index[low : low + _CHUNK]
            values, weights = self._evaluate(model, residual, part)
            worst = max(worst, float(np.max(values / (self._scale * weights))))
        return worst

    # -- in hand -----------------------------------------------------------------------------------
    @property
    def _scale(self) -> float:
        """What a weight is multiplied with to be a limit."""
        return self.lam * float(self._root_targets)

    def _columns(self, blocks: IndexArray) -> IndexArray:
        groups = self.problem.groups
        return blocks if groups is None else groups.columns(blocks)

    def _model(self, index: IndexArray, gamma: FloatArray) -> SupportModel:
        blocks = index if self.problem.groups is None else np.unique(self.problem.groups.labels()[index])
        return self._model_in_hand(blocks, gamma)

    def _model_in_hand(self, blocks: IndexArray, gamma: FloatArray) -> SupportModel:
        hand = self._in_hand
        places = self._place[blocks]
        at = np.concatenate([np.arange(hand.starts[k], hand.starts[k + 1]) for k in places]) if places.size else places
        rows = np.ascontiguousarray(hand.columns[:, at].T)
        return SupportModel(rows, hand.gram[np.ix_(at, at)], gamma, self.lam)

    def _take(self, blocks: IndexArray, limits: FloatArray | None = None) -> None:
        """Take in blocks, with their limits if the others have theirs."""
        hand = self._in_hand
        fresh = self._place[blocks] < 0
        blocks = blocks[fresh]
        if blocks.size == 0:
            return
        before = hand.limits
        self._place[blocks] = np.arange(hand.blocks.size, hand.blocks.size + blocks.size)
        hand.add(blocks, np.zeros_like(self.coef))
        hand.limits = np.full(hand.blocks.size, np.inf)
        if limits is not None:
            hand.limits[: before.size] = before
            hand.limits[before.size :] = limits[fresh]

    def _block_weights(self, model: SupportModel, rows: Array) -> FloatArray:
        """Weights of the blocks in hand."""
        weights = model.weights(rows)
        if self.problem.groups is None:
            return weights
        return np.asarray(np.sqrt(np.add.reduceat(weights**2, self._in_hand.starts[:-1])))

    def _solve_in_hand(self) -> tuple[float, Array, float]:
        """Solve on the blocks in hand: penalty, residual and duality gap."""
        hand = self._in_hand
        target = self.tol * 0.5 * float(np.vdot(self.y, self.y).real)
        accuracy, epochs = 1e-4, 0
        while True:
            epochs += hand.solve(accuracy, self.max_epochs - epochs)
            residual = hand.residual().reshape(self.y.shape)
            penalty = hand.penalty(hand.theta)
            sizes = hand.lengths(hand.target - hand.gram @ hand.theta)
            ratio = float(np.max(sizes / hand.limits, initial=0.0))
            t = min(dual_scale(residual, self.y, ratio, False), 1.0)
            primal = 0.5 * float(np.vdot(residual, residual).real) + penalty
            gap = max(duality_gap(primal, t * residual, self.y), 0.0)
            if gap <= target or accuracy <= 1e-15 or epochs >= self.max_epochs:
                return penalty, residual, gap
            accuracy *= 0.1

    # -- everything else ---------------------------------------------------------------------------
    def _violators(self, model: SupportModel, index: IndexArray, residual: Array) -> tuple[IndexArray, FloatArray, int]:
        """Blocks outside that exceed their limit, the worst of them, with their limits; and how many were read."""
        look = self._look
        doubtful = None if look is None else np.flatnonzero(self._doubtful(look, residual) & (self._place < 0))
        if doubtful is None or doubtful.size > max(32.0, self.crowded * self._place.size):
            look = self._look = self._see(model, index, residual)
            doubtful = np.flatnonzero(self._doubtful(look, residual) & (self._place < 0))
        assert look is not None
        most = max(32, self._in_hand.blocks.size)
        over: list[IndexArray] = []
        limits: list[FloatArray] = []
        depth: list[FloatArray] = []
        for low in range(0, doubtful.size, _CHUNK):
            part = doubtful[low : low + _CHUNK]
            values, weights = self._evaluate(model, residual, part)
            if look.factor == 1.0:  # these hold as long as the look does
                look.lower[part] = np.maximum(look.lower[part], weights)
            violate = values > self._scale * weights * (1.0 + 1e-12)
            over.append(part[violate])
            limits.append(self._scale * weights[violate])
            depth.append((values[violate] - limits[-1]) / self.problem.norms[over[-1]])
        if not over:
            return doubtful, np.zeros(0), 0
        worst = widest(np.concatenate(depth), most)
        return np.concatenate(over)[worst], np.concatenate(limits)[worst], int(doubtful.size)

    def _see(self, model: SupportModel, index: IndexArray, residual: Array) -> _Look:
        """Bound every feature's correlation and weight: one read for the one, one for the other."""
        problem = self.problem
        error = problem.slack * float(np.linalg.norm(residual))
        upper = problem.sizes(self._phi.correlate(residual)) + error * problem.norms
        lower = self._lower_bounds(model)
        if problem.groups is not None:
            lower = problem.groups.norms(lower)
        gamma = np.zeros(self._phi.n_features)
        gamma[index] = model.gamma
        return _Look(residual, model, gamma, upper, lower)

    def _lower_bounds(self, model: SupportModel) -> FloatArray:
        """Weights of all columns less their rounding, through products with the columns of the model."""
        squares = self._column_norms**2
        if model.size == 0:
            return np.asarray(self._column_norms / np.sqrt(self.lam))
        out = np.empty(squares.size)
        products = self._phi.correlate(np.ascontiguousarray(model.rows.T)).conj().T  # Phi_A^H phi_i
        for low in range(0, squares.size, _CHUNK):
            part = model.root[:, None] * products[:, low : low + _CHUNK]
            x = model.solve(part)
            fitted = np.einsum("ij,ij->j", part.conj(), x).real
            out[low : low + _CHUNK] = fitted
        # u^2 = (||phi||^2 - p^H (lam + B^H B)^-1 p) / lam cancels, so what rounding may have added is taken off: with
        # x the solution, |x| <= ||phi|| / (2 sqrt(lam)), that is 2 |x| |dp| + |dp|^2 / lam + |x|^2 |d(B^H B)|
        growth = 1.0 + float(np.trace(model.inner).real) / self.lam
        error, system = self.problem.slack, (64 + model.size) * float(np.finfo(np.float64).eps)
        slack = 4.0 * error + error * np.sqrt(growth) + (error**2 + system) * growth
        least = squares / (self.lam * growth) * (1.0 - 4.0 * error)
        return np.asarray(np.sqrt(np.maximum((squares * (1.0 - slack) - out) / self.lam, least)))

    def _doubtful(self, look: _Look, residual: Array) -> BoolArray:
        """Features that the bounds do not clear, written so that NaN counts as one."""
        reach = (look.upper + self.problem.norms * look.drift(residual)) * (look.factor * (1.0 + _RELATIVE))
        return ~(reach < self._scale * look.lower) & (self.problem.norms > 0)

    def _evaluate(self, model: SupportModel, residual: Array, blocks: IndexArray) -> tuple[FloatArray, FloatArray]:
        """Size of the correlation, and weight, of each of these blocks, from their columns."""
        columns = self._phi.columns(self._columns(blocks))
        values = columns.conj().T @ residual
        squares = np.abs(values) ** 2 if values.ndim == 1 else np.einsum("ij,ij->i", values.conj(), values).real
        weights = model.weights(np.ascontiguousarray(columns.T)) ** 2
        if self.problem.groups is not None:
            sizes = self.problem.groups.sizes(blocks)
            starts = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.intp)
            squares, weights = np.add.reduceat(squares, starts), np.add.reduceat(weights, starts)
        return np.sqrt(squares), np.sqrt(weights)
