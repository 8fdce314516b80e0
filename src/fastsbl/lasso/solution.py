"""What a weighted-lasso solver returns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fastsbl._base.types import Array, IndexArray

__all__ = ["LassoSolution"]


@dataclass(frozen=True, repr=False)
class LassoSolution:
    """Solution of ``min 0.5 ||y - Phi theta||^2 + lam sum_i weights_i |theta_i|`` with its certificate.

    Attributes
    ----------
    coef : array of shape (n,) or (n, L)
        theta.
    residual : array of shape (N,) or (N, L)
        ``y - Phi theta``.
    dual_point : array of shape (N,) or (N, L)
        Feasible for the dual of the full problem.
    primal : float
        Objective at ``coef``.
    gap : float
        Primal minus dual value, recomputed at the end on all columns without any screening mask: the
        objective is within ``gap`` of its minimum.
    converged : bool
        Whether ``gap <= tol * 0.5 ||y||^2``.
    tol : float
        The accuracy asked for.
    lam : float
        The penalty.
    n_epochs : int
        Coordinate-descent epochs, or iterations of a general convex solver.
    passes : float
        Reads of the dictionary, as fractions of one whole pass.
    history : list of dict
        One record per round: objective, gap, support, what was rejected, what was read, seconds.
    """

    coef: Array
    residual: Array
    dual_point: Array
    primal: float
    gap: float
    converged: bool
    tol: float
    lam: float
    n_epochs: int
    passes: float
    history: list[dict[str, Any]] = field(default_factory=list)

    @property
    def support(self) -> IndexArray:
        """Columns with a nonzero coefficient."""
        return np.flatnonzero(self.coef if self.coef.ndim == 1 else np.any(self.coef != 0, axis=1))

    def __repr__(self) -> str:
        """Say in one line what was found."""
        end = "converged" if self.converged else "NOT converged"
        return (
            f"LassoSolution({self.support.size} of {self.coef.shape[0]} features, lam={self.lam:.4g}, "
            f"primal={self.primal:.6g}, gap={self.gap:.1e}, {end}, {self.passes:.1f} passes)"
        )
