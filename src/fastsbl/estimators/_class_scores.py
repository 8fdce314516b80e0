"""From sparse representations to a number per class, the larger the likelier."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import softmax

from fastsbl._base.types import Array, FloatArray, IndexArray
from fastsbl.dictionary import Dictionary
from fastsbl.estimators._representations import Representation

__all__ = ["JOINT_SCORES", "abs_sum", "class_residuals", "probabilities"]


def abs_sum(
    found: list[Representation], dictionary: Dictionary, targets: FloatArray, classes: IndexArray, n_classes: int
) -> FloatArray:
    """Sum of ``|theta_i|`` over the samples of each class, each row scaled to Euclidean norm 1 (zeros stay zero)."""
    sums = np.array([np.bincount(classes[one.support], np.abs(one.coef), n_classes) for one in found])
    lengths = np.linalg.norm(sums, axis=1, keepdims=True)
    return np.asarray(sums / np.where(lengths > 0, lengths, 1.0))


def class_residuals(
    found: list[Representation], dictionary: Dictionary, targets: FloatArray, classes: IndexArray, n_classes: int
) -> FloatArray:
    """Share of the query that each class explains alone, ``1 - ||y - Phi_k theta_k||^2`` for unit queries."""
    scores = np.zeros((len(found), n_classes))
    for k, one in enumerate(found):
        used, place = np.unique(classes[one.support], return_inverse=True)
        if used.size == 0:
            continue
        parts = np.zeros((one.support.size, used.size))
        parts[np.arange(one.support.size), place] = one.coef
        residuals = targets[:, [k]] - dictionary.columns(one.support) @ parts
        scores[k, used] = 1.0 - np.einsum("ij,ij->j", residuals, residuals)
    return scores


#: Scores read off one fit with the samples of all classes.
JOINT_SCORES: dict[str, Callable[..., FloatArray]] = {"abs-sum": abs_sum, "residual": class_residuals}


def probabilities(scores: FloatArray, score: str, lam: FloatArray) -> Array:
    """Rows that sum to 1, in the order of the scores.

    abs-sum: the sums relative to their total. residual: the Gaussian likelihood of each class's residual with noise
    variance ``lam``. evidence: the posterior of classes that are equally likely beforehand.
    """
    if score == "abs-sum":
        return np.asarray(scores / scores.sum(axis=1, keepdims=True))
    logs = scores / (2.0 * lam[:, None]) if score == "residual" else scores
    return np.asarray(softmax(logs, axis=1))
