"""The features a guard leaves in play, and compiled outer iterations among them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fastsbl._base.types import Array, FloatArray, IndexArray
from fastsbl.sbl import _guarded_kernels
from fastsbl.sbl.model import SupportModel

__all__ = ["Followed", "Guarded"]

_MOST_STEPS = 64  # per call of compiled code, which cannot be interrupted
_ROOM = 192


@dataclass(frozen=True)
class Followed:
    """Where compiled iterations ended.

    Attributes
    ----------
    records : array of shape (steps, 5)
        Loss, relative change, support size, gap and features looked at singly of each iteration; those of
        the last are for the caller to complete.
    index, theta, weights : arrays
        Support (column numbers), coefficients and weights.
    before : dict
        Contributions to the model one iteration earlier, by column number.
    residual : array of shape (N,)
        ``y - Phi theta``.
    """

    records: FloatArray
    index: IndexArray
    theta: FloatArray
    weights: FloatArray
    before: dict[int, float]
    residual: FloatArray


class Guarded:
    """All features that can matter while a guard holds, with their columns.

    Parameters
    ----------
    index : int array of shape (m,)
        Their column numbers, the features of ``model`` first.
    rows : array of shape (m, N)
        Their columns.
    norms, lower : arrays of shape (m,)
        Column norms, and lower bounds on the weights under ``model``.
    model, residual
        Where the guard was set.
    y : array of shape (N,)
        The target.
    drift, widening : float
        The room of the guard, see `Look`.
    """

    def __init__(
        self,
        index: IndexArray,
        rows: Array,
        norms: FloatArray,
        lower: FloatArray,
        model: SupportModel,
        residual: FloatArray,
        y: FloatArray,
        drift: float,
        widening: float,
    ) -> None:
        size, n_samples = rows.shape
        self._place = {int(i): p for p, i in enumerate(index)}
        self._index = index
        self._rows = np.ascontiguousarray(rows)
        self._norms, self._lower = norms, lower
        self._targets = self._rows @ y
        room = min(size, max(_ROOM, 4 * model.size))  # for the members that enter the model, few of many
        self._gram, self._slot = np.empty((room, size)), np.full(size, -1)
        self._used = np.zeros(1, dtype=np.intp)
        self._spread = np.empty((room, n_samples + model.size))
        self._have_spread = np.zeros(room, dtype=np.bool_)
        self._model, self._residual, self._y = model, residual, y
        self._drift, self._widening = drift, widening
        self._kept = np.arange(model.size)
        self._factor = np.empty((model.size, model.size))
        self.usable = bool(
            _guarded_kernels.factor_model(model.gram, self._kept, self._kept, model.root, model.lam, self._factor)
        )

    def follow(
        self,
        index: IndexArray,
        theta: FloatArray,
        weights: FloatArray,
        residual: FloatArray,
        *,
        positive: bool,
        tol: float,
        n_effective: float,
        most_steps: int,
    ) -> Followed | None:
        """Iterate from a solution for as long as the guard holds; None if not even one iteration could be done."""
        if not self.usable or index.size == 0:
            return None
        size = self._index.size
        places = np.array([self._place.get(i, -1) for i in index.tolist()])
        if (places < 0).any():
            return None
        values, all_weights, before = np.zeros(size), np.ones(size), np.zeros(size)
        values[places], all_weights[places] = theta, weights
        residual = residual.copy()
        most_steps = min(most_steps, _MOST_STEPS)
        records = np.zeros((most_steps, 5))
        steps, reason = _guarded_kernels.follow(
            self._rows, self._norms, self._targets, self._lower, self._gram, self._slot, self._used,
            self._spread, self._have_spread, self._y, self._model.lam, self._kept, self._model.gamma, self._factor,
            self._residual, self._drift, self._widening, values, all_weights, before, residual, positive, tol,
            n_effective, most_steps, records,
        )  # fmt: skip
        if reason != _guarded_kernels.SETTLED:
            self.usable = False
        if steps == 0:
            return None
        used = np.flatnonzero(values)
        earlier = np.flatnonzero(before)
        return Followed(
            records[:steps],
            self._index[used],
            values[used],
            all_weights[used],
            dict(zip(self._index[earlier].tolist(), before[earlier].tolist(), strict=True)),
            residual,
        )
