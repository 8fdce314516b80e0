"""Groups of columns that share one penalty."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fastsbl._base.types import Array, FloatArray, IndexArray
from fastsbl.dictionary import Dictionary

__all__ = ["Groups"]

_EXACT = 64  # larger groups are measured by their Frobenius norm, an upper bound on the spectral one


@dataclass(frozen=True, eq=False)
class Groups:
    """A partition of the columns.

    Attributes
    ----------
    order : int array of shape (n,)
        Columns, group after group.
    starts : int array of shape (G + 1,)
        Where each group starts in ``order``.
    """

    order: IndexArray
    starts: IndexArray

    @classmethod
    def from_labels(cls, labels: Any, n_features: int) -> Groups:
        """Make groups of columns with equal labels."""
        array = np.asarray(labels)
        if array.shape != (n_features,):
            raise ValueError(
                f"groups must hold one label for each of the {n_features} columns, got shape {array.shape}"
            )
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise ValueError("groups must not hold NaN or infinite labels")
        _, codes = np.unique(array, return_inverse=True)
        order = np.argsort(codes, kind="stable")
        return cls(order, np.concatenate([[0], np.cumsum(np.bincount(codes))]).astype(np.intp))

    @property
    def count(self) -> int:
        """Number of groups."""
        return int(self.starts.size - 1)

    def labels(self) -> IndexArray:
        """Number of each column's group."""
        out = np.empty(self.order.size, dtype=np.intp)
        out[self.order] = np.repeat(np.arange(self.count), np.diff(self.starts))
        return out

    def columns(self, groups: IndexArray) -> IndexArray:
        """Columns of these groups, one group after the other."""
        if groups.size == 0:
            return np.zeros(0, dtype=np.intp)
        return np.concatenate([self.order[self.starts[g] : self.starts[g + 1]] for g in groups])

    def sizes(self, groups: IndexArray) -> IndexArray:
        """Columns in each of these groups."""
        return self.starts[groups + 1] - self.starts[groups]

    def norms(self, values: Array) -> FloatArray:
        """Euclidean norm of each group of rows."""
        squares = np.abs(values) ** 2
        if squares.ndim == 2:
            squares = squares.sum(axis=1)
        return np.asarray(np.sqrt(np.add.reduceat(squares[self.order], self.starts[:-1])))

    def spectral_norms(self, dictionary: Dictionary, norms: FloatArray) -> FloatArray:
        """Upper bounds on the spectral norm of each group's columns, exact for small groups."""
        out = self.norms(norms)
        for g in np.flatnonzero((np.diff(self.starts) > 1) & (np.diff(self.starts) <= _EXACT)):
            out[g] = np.linalg.norm(dictionary.columns(self.columns(np.array([g]))), 2) * (1.0 + 1e-12)
        return out
