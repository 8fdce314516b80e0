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
        What is not zero: features or groups, in the solver's own numbering.
    theta : array of shape (s,) or (s, L)
        Coefficients there (of all columns of the active groups).
    weights : array of shape (s,)
        Weights u of the active features or groups.
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
