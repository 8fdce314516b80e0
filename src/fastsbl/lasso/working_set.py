"""The columns in hand: a few columns of the dictionary with their Gram matrix, and exact solves on them."""

from __future__ import annotations

import numpy as np

from fastsbl._base.types import Array, BoolArray, FloatArray, IndexArray
from fastsbl.dictionary import Dictionary
from fastsbl.lasso import _kernels
from fastsbl.lasso.columns import hold_columns

__all__ = ["WorkingSet"]


class WorkingSet:
    """Columns taken out of a dictionary, with their Gram matrix in float64; real data, one target.

    Attributes
    ----------
    index : int array of shape (size,)
        Which columns of the dictionary are in hand.
    position : int array of shape (n,)
        Place of each column in the working set, -1 outside.
    theta : array of shape (size,)
        Current coefficients.
    limits : array of shape (size,)
        Penalty of each; inf keeps a coefficient at zero.
    g : array of shape (size,)
        Correlations with the residual, after `solve`.
    """

    def __init__(self, dictionary: Dictionary, y: FloatArray) -> None:
        self.y = y
        self._scale = float(np.linalg.norm(y))
        self._columns = hold_columns(dictionary)
        whole = dictionary.whole_gram
        self._whole_gram = whole if whole is not None and whole.dtype == np.float64 else None
        self.size = 0
        self.position = np.full(dictionary.n_features, -1, dtype=np.int64)
        self._gram: FloatArray = np.zeros((0, 0))
        self._target: FloatArray = np.zeros(0)
        self._index: IndexArray = np.zeros(0, dtype=np.intp)
        self._theta: FloatArray = np.zeros(0)
        self._limits: FloatArray = np.zeros(0)
        self._g: FloatArray = np.zeros(0)
        self._allocate(64)

    def _allocate(self, room: int) -> None:
        """Make room for ``room`` columns; those in hand stay."""
        self._gram = _grown(self.gram, room, room)
        self._target = _grown(self._target[: self.size], room)
        self._index = _grown(self.index, room)
        self._theta = _grown(self.theta, room)
        self._limits = _grown(self.limits, room)
        self._limits[self.size :] = np.inf
        self._g = _grown(self.g, room)
        self._room = room

    @property
    def index(self) -> IndexArray:
        """Columns of the dictionary in hand, in the order they came."""
        return self._index[: self.size]

    @property
    def theta(self) -> FloatArray:
        """Current coefficients, open to writing."""
        return self._theta[: self.size]

    @property
    def limits(self) -> FloatArray:
        """Penalty of each column in hand, open to writing; inf keeps a coefficient at zero."""
        return self._limits[: self.size]

    @property
    def g(self) -> FloatArray:
        """Correlations with the residual, as `solve` left them."""
        return self._g[: self.size]

    @property
    def gram(self) -> FloatArray:
        """Gram matrix of the columns in hand."""
        return self._gram[: self.size, : self.size]

    @property
    def arrays(self) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray, int, float]:
        """Gram matrix, ``Phi' y``, limits, theta and g with room to spare, the size, and ||y||: for compiled code."""
        return self._gram, self._target, self._limits, self._theta, self._g, self.size, self._scale

    def add(self, index: IndexArray, limits: FloatArray | float = np.inf) -> None:
        """Take in columns that are not yet here, with coefficient 0 and the given limits."""
        if index.size == 0:
            return
        old, new = self.size, self.size + index.size
        if new > self._room:
            self._allocate(max(new, 2 * self._room))
        self._index[old:new] = index
        self._theta[old:new] = 0.0
        self._limits[old:new] = limits
        self.position[index] = np.arange(old, new)
        self.size = new
        self._columns.add(index)
        if self._whole_gram is None:
            block = self._columns.gram_block(old, new)
        else:
            block = self._whole_gram[np.ix_(self.index, index)]
        self._target[old:new] = self._columns.correlate(self.y, old, new)
        self._gram[:new, old:new] = block
        self._gram[old:new, :old] = block[:old].T
        corner = self._gram[old:new, old:new]
        corner[...] = 0.5 * (corner + corner.T)

    def solve(self, *, tol: float = 1e-14, max_epochs: int = 100_000, positive: bool = False) -> int:
        """Minimise over the columns in hand; epochs used, negative if ``tol`` (of ||y||) was not reached."""
        return int(_kernels.solve_part(*self.arrays, tol, max_epochs, positive))

    def support(self) -> IndexArray:
        """Positions with a nonzero coefficient."""
        return np.flatnonzero(self.theta)

    def residual(self) -> FloatArray:
        """``y - Phi theta`` from the columns themselves."""
        used = self.support()
        if used.size == 0:
            return self.y.copy()
        return np.asarray(self.y - self._columns.combine(used, self.theta[used]))

    def rows(self, positions: IndexArray) -> FloatArray:
        """The columns at ``positions`` as rows of a dense (k, N) array."""
        return self._columns.rows(positions)

    def coefficients(self) -> FloatArray:
        """Coefficients of the whole dictionary, zero outside the working set."""
        coef = np.zeros(self.position.size)
        coef[self.index] = self.theta
        return coef

    def penalty(self) -> float:
        """``sum limits |theta|``."""
        used = self.support()
        return float(np.abs(self.theta[used]) @ self.limits[used])

    def idle(self) -> BoolArray:
        """Positions kept at zero by an infinite limit."""
        return np.isinf(self.limits)


def _grown(array: Array, *shape: int) -> Array:
    """Zeros of the given shape, with ``array`` copied to the front."""
    larger = np.zeros(shape, dtype=array.dtype)
    larger[tuple(slice(length) for length in array.shape)] = array
    return larger


def widest(values: Array, count: int) -> IndexArray:
    """Places of the ``count`` largest values."""
    if count <= 0:
        return np.zeros(0, dtype=np.intp)
    if count >= values.size:
        return np.arange(values.size)
    return np.argpartition(values, values.size - count)[values.size - count :]
