"""The objective of sparse Bayesian learning, from the support alone."""

from __future__ import annotations

from typing import Any

import numpy as np

from fastsbl._base.checks import as_numbers, check_positive_number, check_target
from fastsbl._base.types import Array, FloatArray
from fastsbl.dictionary import as_dictionary
from fastsbl.sbl.model import SupportModel
from fastsbl.screening.groups import Groups
from fastsbl.screening.problem import magnitudes
from fastsbl.screening.rules import LAM_ZERO

__all__ = ["evidence_of", "largest_variance", "loss", "loss_of", "sbl_lambda_max"]


def loss_of(model: SupportModel, y: Array, residual: Array, mean: Array, n_effective: float | None = None) -> float:
    """``L log|S| + tr(Y^H S^-1 Y)`` at the posterior mean, which need not be exact: errors enter squared.

    ``n_effective`` is how many samples the rows of y stand for, if not one each.
    """
    n_targets = 1 if y.ndim == 1 else y.shape[1]
    fit = float(np.vdot(residual, residual).real) / model.lam
    prior = float(np.sum((np.abs(mean) ** 2).T / model.gamma)) if model.size else 0.0
    return n_targets * model.log_det(y.shape[0] if n_effective is None else n_effective) + fit + prior


def evidence_of(loss: float, n_samples: float, n_targets: int, is_complex: bool) -> float:
    """Log evidence ``log p(y; gamma, lam)`` that belongs to a Loss."""
    if is_complex:
        return -(loss + n_samples * n_targets * float(np.log(np.pi)))
    return -0.5 * (loss + n_samples * n_targets * float(np.log(2 * np.pi)))


def loss(dictionary: Any, y: Any, gamma: Any, lam: float) -> float:
    """Return the objective ``log|S| + y' S^-1 y`` of sparse Bayesian learning, ``S = lam I + Phi diag(gamma) Phi'``.

    It is -2 log evidence less ``N log 2 pi`` (for L targets that share gamma: ``L log|S| + tr(Y' S^-1 Y)``).

    Parameters
    ----------
    dictionary : array-like, sparse matrix, operator or Dictionary of shape (N, n)
        Phi; only the columns with gamma > 0 are read.
    y : array of shape (N,) or (N, L)
        The target.
    gamma : array of shape (n,)
        Prior variances, at least 0.
    lam : float
        Noise variance, above 0.

    Examples
    --------
    >>> import numpy as np
    >>> from fastsbl.sbl import loss
    >>> round(loss(np.eye(2), np.array([2.0, 1.0]), np.array([3.0, 0.0]), lam=1.0), 6)
    3.386294
    """
    phi = as_dictionary(dictionary)
    target = check_target(y, phi.n_samples)
    lam = check_positive_number(lam, "lam", zero=LAM_ZERO)
    gamma = as_numbers(gamma, "gamma")
    if gamma.shape != (phi.n_features,) or gamma.dtype.kind == "c" or not np.isfinite(gamma).all() or (gamma < 0).any():
        raise ValueError(
            f"gamma must be {phi.n_features} finite numbers of at least 0, one per column, got shape {gamma.shape}"
        )
    used = np.flatnonzero(gamma)
    rows = phi.columns(used).T
    model = SupportModel(rows, rows.conj() @ rows.T, gamma[used].astype(np.float64), lam)
    mean = model.posterior_mean(target)
    return loss_of(model, target, target - rows.T @ mean, mean)


def sbl_lambda_max(dictionary: Any, y: Any) -> float:
    """Return the smallest noise variance at which gamma = 0 is a fixed point: ``max_i |phi_i' y|^2 / ||phi_i||^2``.

    At and above it, sparse Bayesian learning started from gamma = 0 explains everything as noise. For L
    targets it is ``max_i ||phi_i' Y||^2 / (L ||phi_i||^2)``. It is a variance: it scales as y squared.

    Examples
    --------
    >>> import numpy as np
    >>> from fastsbl.sbl import sbl_lambda_max
    >>> float(sbl_lambda_max(np.array([[2.0, 0.0], [0.0, 1.0]]), np.array([3.0, 1.0])))
    9.0
    """
    phi = as_dictionary(dictionary).metered()
    target = check_target(y, phi.n_samples)
    norms, products = phi.norms_and_correlations(target)
    return largest_variance(products, norms, target)


def largest_variance(
    products: Array, norms: FloatArray, target: Array, groups: Groups | None = None, *, positive: bool = False
) -> float:
    """`sbl_lambda_max` from products at hand, for features or groups; only products above 0 count if ``positive``."""
    sizes = np.maximum(products, 0.0) if positive else magnitudes(products)
    if groups is not None:
        sizes = groups.norms(products)
    lengths = norms if groups is None else groups.norms(norms)
    used = lengths > 0
    if not used.any():
        return 0.0
    n_targets = 1 if target.ndim == 1 else target.shape[1]
    return float(np.max((sizes[used] / lengths[used]) ** 2)) / n_targets
