"""Inner problems on a dictionary that holds the inner products of all its columns: nothing is left to bound."""

from __future__ import annotations

import numpy as np

from fastsbl._base.types import BoolArray, FloatArray, IndexArray
from fastsbl.lasso.working_set import widest
from fastsbl.sbl import _kernels
from fastsbl.sbl.bounded import BoundedInner
from fastsbl.sbl.inner import InnerResult
from fastsbl.sbl.model import SupportModel
from fastsbl.screening.problem import DualProblem
from fastsbl.screening.rules import Rule

__all__ = ["GramInner"]

_IN_CACHE = 2**18  # numbers that are worked on at a time


class GramInner(BoundedInner):
    """The inner problems of one fit, with ``Phi' Phi`` in memory.

    Every look computes ``|phi_i' r|`` and ``u_i`` of all features from the Gram matrix, up to rounding, which is
    carried as a bound; features within it are decided from their columns. Between looks, guards serve as usual.

    Parameters
    ----------
    problem, y, rules
        As in `BoundedInner`; the dictionary has a ``whole_gram``.
    """

    least_directions = most_directions = 1
    """Products with past residuals are not needed."""

    def __init__(self, problem: DualProblem, y: FloatArray, rules: tuple[Rule, ...]) -> None:
        super().__init__(problem, y, rules)
        gram = problem.dictionary.whole_gram
        assert gram is not None
        self.whole_gram: FloatArray = gram
        single = gram.dtype == np.float32
        self._rounding = float(np.finfo(np.float32).eps) if single else 0.0  # of the Gram matrix, per unit of norms
        self._products = np.empty(problem.norms.size)
        self._in_model: IndexArray = np.zeros(0, dtype=np.intp)

    def next(self, model: SupportModel, active: IndexArray) -> InnerResult:
        """Solve with the weights of ``model``, whose features are at ``active`` in the working set."""
        self._in_model = self.ws.index[active]
        return super().next(model, active)

    def _solve_first(self, problem: DualProblem, rejected: BoolArray | None) -> FloatArray:
        """Solve with the limits of ``problem`` and return the residual."""
        ws, limits = self.ws, problem.limits
        out = np.zeros(limits.size, dtype=bool) if rejected is None else rejected
        while True:
            ws.solve(positive=self.problem.positive)
            sizes, error = self._sizes()
            violators = np.flatnonzero((sizes + error >= limits) & (ws.position < 0) & ~out)
            if violators.size == 0:
                return ws.residual()
            depth = (sizes[violators] - limits[violators]) / self.problem.norms[violators]
            chosen = np.sort(violators[widest(depth, max(32, ws.support().size // 4))])
            ws.add(chosen, limits[chosen])

    def _look_again(self, model: SupportModel, active: IndexArray, residual: FloatArray) -> IndexArray:
        """Bound all weights from below anew, and all correlations from above."""
        self._in_model = self.ws.index[active]
        self._bound(model, residual, again=False)
        return self.bounds.doubtful(self._members)

    def _sizes(self) -> tuple[FloatArray, FloatArray]:
        """``|phi_i' r|`` of all features for the coefficients in hand, and a bound on its rounding."""
        ws = self.ws
        used = ws.support()
        theta = ws.theta[used]
        _kernels.residual_products(self.whole_gram, ws.index[used], theta, self.problem.correlations, self._products)
        size = float(np.abs(theta) @ self.problem.norms[ws.index[used]])
        error = self.problem.slack * (self.problem.y_norm + size) + self._rounding * size
        return self._size(self._products), error * self.problem.norms

    def _bound(self, model: SupportModel, residual: FloatArray, *, again: bool) -> None:
        """Correlations, and weights unless ``model`` is that of the last call."""
        sizes, error = self._sizes()
        np.add(sizes, error, out=self.bounds.upper)
        if not again:
            self._weigh(model)

    def _weigh(self, model: SupportModel) -> None:
        """``u^2 = (||phi||^2 - ||L^-1 B' phi||^2) / lam`` of all features, less what rounding may have added."""
        squares = self.problem.norms**2
        left = squares.copy()
        if model.size:
            step = max(_IN_CACHE // model.size, 512)
            for low in range(0, left.size, step):
                part = slice(low, low + step)
                left[part] -= model.explained(self.whole_gram[self._in_model, part])
        growth = 1.0 + model.trace / self.lam  # bounds the condition of lam I + B'B
        # a solve with L may be off by its size times ||L|| ||L^-1|| units of rounding, and ||L||^2 <= lam (s + growth)
        error = 64.0 * self.phi.eps * growth + 2.0 * self._rounding * (model.size + 4) * np.sqrt(model.size + growth)
        left -= error * squares
        np.sqrt(np.maximum(left, 0.0) / self.lam, out=self.bounds.lower)

    def _check_all(self, model: SupportModel, residual: FloatArray, *, again: bool) -> bool:
        """Look at every feature; whether any joined."""
        self._bound(model, residual, again=again)
        if self._wake(model, self.bounds.lower, 1.0):
            return True
        doubtful = self.bounds.doubtful(self.ws.position)
        if doubtful.size == 0:
            return False
        return self._judge(model, residual, doubtful)
