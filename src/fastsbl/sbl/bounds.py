"""Bounds on what each feature could do: its correlation with the residual from above, its weight from below."""

from __future__ import annotations

import numpy as np

from fastsbl._base.parallel import run_in_chunks
from fastsbl._base.types import FloatArray, IndexArray
from fastsbl.lasso.correlations import Correlations
from fastsbl.sbl import _kernels, _step_kernels
from fastsbl.sbl.look import Look
from fastsbl.sbl.model import SupportModel
from fastsbl.screening.problem import DualProblem

__all__ = ["FeatureBounds"]

_RELATIVE = 1e-9  # every comparison of bounds leaves this much room for rounding


class FeatureBounds:
    """``|phi_i' r| <= upper_i`` and ``u_i >= lower_i`` for all features, from the products in memory.

    Parameters
    ----------
    problem : DualProblem
        Norms, and the sign of the coefficients.
    correlations : Correlations
        The products that are known.
    """

    spare = (2.0, 1.05)
    """Room that carried bounds must leave, in last steps and as a factor, or they are computed anew."""

    def __init__(self, problem: DualProblem, correlations: Correlations) -> None:
        n = problem.norms.size
        self.problem = problem
        self.correlations = correlations
        self.lam = np.nan
        self.upper, self.lower = np.empty(n), np.empty(n)
        self._residual, self._learned = problem.y, 0  # what these bounds belong to
        self._found = np.empty(n, dtype=np.intp)

    def update(self, model: SupportModel, residual: FloatArray, look: Look | None, step: float, *, again: bool) -> None:
        """Bound all correlations and weights: carry on what is known, and sharpen it where that does not settle it.

        ``again`` says that the model is that of the last call, and only the residual may have moved; ``step`` is how
        far it moved in the last outer iteration.
        """
        norms, factor, drift = self.problem.norms, 1.0, 0.0
        old_upper, old_lower = self.upper, self.lower
        if again:
            drift = float(np.linalg.norm(residual - self._residual))
        elif look is not None:
            old_upper, old_lower, factor = look.upper, look.lower, look.factor
            drift = look.drift(residual)
        else:  # nothing yet but the size of the model
            self.upper[:] = np.inf
            np.divide(norms, np.sqrt(self.lam + model.trace) * (1.0 + _RELATIVE), out=self.lower)
        seen = self.correlations
        basis, errors = seen.basis, seen.errors
        a, perpendicular, product_error = _step_kernels.coordinates(residual, basis, errors, seen.slack)
        weigh = not again or self._learned != seen.added
        nothing = np.zeros((0, seen.count))
        first, low_rank, across, widest, system, slip = nothing, True, nothing, 1.0, 0.0, 0.0
        if weigh:
            try:
                first, low_rank, across, widest, system, slip = _step_kernels.weigh_directions(
                    basis, model.scaled, model.inner, model.trace, self.lam, float(np.finfo(np.float64).eps), seen.error
                )
            except np.linalg.LinAlgError:  # singular to rounding: the weights keep the bounds they have
                weigh = False
        room, widening = self.spare[0] * step, self.spare[1]

        def task(start: int, stop: int) -> None:
            _kernels.bound_features(
                old_upper, old_lower, factor, drift, self.lam, room, widening, norms, self.problem.positive,
                seen.products, seen.count, seen.rest, a, perpendicular, product_error, weigh, first, low_rank, across,
                slip, widest, seen.error, seen.slack, system, self.upper, self.lower, self._found, start, stop,
            )  # fmt: skip

        run_in_chunks(task, norms.size, 4.0 * seen.count * norms.size)
        self._residual, self._learned = residual, seen.added

    def take_in(self, sizes: FloatArray, error: float) -> None:
        """Sharpen the bounds on all correlations by a whole read, whose rounding is ``error`` per unit of norm."""
        np.minimum(self.upper, sizes + error * self.problem.norms, out=self.upper)

    def begin_anew(self, spare: tuple[FloatArray, FloatArray] | None) -> None:
        """Leave the present arrays to a look that keeps them; others are written before they are read."""
        n = self.upper.size
        self.upper, self.lower = (np.empty(n), np.empty(n)) if spare is None else spare

    def doubtful(self, skip: IndexArray) -> IndexArray:
        """Features (``skip`` below 0) that may violate their limit for all that is known."""
        found = _kernels.over_limit(
            self.upper, self.lower, self.problem.norms, self.lam, 0.0, 1.0 + _RELATIVE, skip, self._found
        )
        return self._found[:found].copy()

    def best_room(
        self, drifts: FloatArray, widenings: FloatArray, most: FloatArray, skip: IndexArray
    ) -> tuple[float, float, IndexArray] | None:
        """The first room that may be had for looking at at most so many features, with these features; or None."""
        best, found = _kernels.best_room(
            self.upper, self.lower, self.problem.norms, self.lam, drifts, widenings, most, skip, self._found
        )
        return None if best < 0 else (float(drifts[best]), float(widenings[best]), self._found[:found].copy())
