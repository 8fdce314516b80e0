"""The last look at all features: what was known of them then, and how long it stays useful."""

from __future__ import annotations

import numpy as np

from fastsbl._base.types import Array, FloatArray, IndexArray
from fastsbl.lasso.working_set import WorkingSet
from fastsbl.sbl import _step_kernels
from fastsbl.sbl.guarded import Guarded
from fastsbl.sbl.model import SupportModel

__all__ = ["Look"]


class Look:
    """What was known of all features when they were last looked at, and how long it stays useful.

    Attributes
    ----------
    residual, model, active
        Where the iteration stood; ``active`` are the model's features as positions in the working set.
    upper, lower : arrays of shape (n,)
        Bounds on ``|phi_i' r|`` from above and on ``u_i`` from below, there.
    factor : float
        ``u_i >= lower_i / factor`` for the present model, see `move_to`.
    danger : int array or None
        If set, all features outside the working set that could violate while `covers` holds.
    """

    def __init__(
        self, residual: FloatArray, model: SupportModel, active: IndexArray, upper: FloatArray, lower: FloatArray
    ) -> None:
        self.residual = residual
        self.model = model
        self.active = active
        self.upper = upper
        self.lower = lower
        self.factor = 1.0
        self.danger: IndexArray | None = None
        self.rows: Array | None = None
        self.guarded: Guarded | None = None
        self._drift = self._widening = 0.0

    def move_to(self, model: SupportModel, active: IndexArray, working_set: WorkingSet) -> None:
        """Bound how much the model has grown: S_new <= m S_here gives u_new >= u_here / sqrt(m)."""
        self.factor = _step_kernels.growth(
            working_set.arrays[0], active, model.gamma, model.rows,
            self.active, self.model.gamma, self.model.scaled, self.model.back, model.lam,
        )  # fmt: skip

    def guard(self, danger: IndexArray, rows: Array, drift: float, widening: float) -> None:
        """State that only ``danger`` (with columns ``rows``) can violate within this room."""
        self.danger, self.rows = danger, rows
        self._drift, self._widening = drift, widening

    def gather(self, working_set: WorkingSet, y: FloatArray, norms: FloatArray) -> Guarded | None:
        """Put the features in play together: those of the model and those in danger; None without a guard."""
        if self.danger is None or self.rows is None:
            return None
        if self.guarded is None:
            index = np.concatenate([working_set.index[self.active], self.danger])
            rows = np.vstack([self.model.rows, self.rows])
            self.guarded = Guarded(
                index, rows, norms[index], self.lower[index], self.model, self.residual, y, self._drift, self._widening
            )
        return self.guarded

    def drift(self, residual: FloatArray) -> float:
        """How far the residual has moved."""
        return float(np.linalg.norm(residual - self.residual))

    def covers(self, residual: FloatArray) -> bool:
        """Whether nothing outside ``danger`` can violate at this residual and the present model."""
        return self.danger is not None and self.factor <= self._widening and self.drift(residual) <= self._drift
