"""What an inner solver returns to the outer loop."""

from __future__ import annotations

from dataclasses import dataclass

from fastsbl._base.types import Array, FloatArray, IndexArray

__all__ = ["InnerResult"]


@dataclass(frozen=True)
class InnerResult:
    """Solution of one weighted lasso of the outer loop.

    Attributes
    ----------
    active : int array of shape (s,)
        Where the nonzero coefficients are: positions in the solver's working set.
    theta : array of shape (s,) or (s, L)
        Their values.
    weights : array of shape (s,)
        Their weights u.
    residual : array of shape (N,) or (N, L)
        ``y - Phi theta``.
    penalty : float
        ``sum lam u_i |theta_i|``.
    gap : float
        Duality gap on the full problem.
    rejected : dict
        Share of features that each screening rule rejected, if it was run.
    singles : int
        Features that had to be looked at one by one.
    """

    active: IndexArray
    theta: Array
    weights: FloatArray
    residual: Array
    penalty: float
    gap: float
    rejected: dict[str, float]
    singles: int
