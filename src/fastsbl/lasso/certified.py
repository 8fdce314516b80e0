"""Solve on a working set, then prove that nothing outside it matters: the loop that lasso and SBL share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from fastsbl._base.types import BoolArray, FloatArray, IndexArray
from fastsbl.lasso.correlations import Correlations, Products
from fastsbl.lasso.working_set import WorkingSet, widest

__all__ = ["CertifiedLasso", "Limits", "Round"]


class Limits(Protocol):
    """Penalties ``limits_i`` of all features, of which only lower bounds may be known."""

    lower: FloatArray
    """Never above the true limits; shape (n,)."""

    def sharpen(self, index: IndexArray) -> None:
        """Make ``lower`` exact for these features."""


@dataclass
class Round:
    """What one solve on the working set and its check against all features found."""

    residual: FloatArray
    penalty: float
    """``sum limits_i |theta_i|``."""
    support: int
    ratio: float
    """Largest |phi_i' r| / limits_i that was seen; features not read are below 1."""
    epochs: int
    violators: int = 0
    checked: int = 0
    """Features that had to be read."""


class CertifiedLasso:
    """A working set that grows until no feature outside it violates its limit.

    Parameters
    ----------
    working_set : WorkingSet
        Columns in hand.
    correlations : Products or Correlations
        What is known of all columns: if it is enough for bounds, these decide which features are read. Otherwise
        every look is a whole read.
    positive : bool
        Whether theta >= 0.
    """

    full_pass_share = 0.15
    """Above this share of features to read, the whole dictionary is read and the product remembered."""

    def __init__(self, working_set: WorkingSet, correlations: Products, *, positive: bool) -> None:
        self.working_set = working_set
        self.correlations = correlations
        self.positive = positive
        self.full_reads = 0
        self.last_full: tuple[FloatArray, FloatArray] | None = None
        """The residual of the last whole read, and its products."""

    def step(self, limits: Limits, rejected: BoolArray | None, batch: int, max_epochs: int = 100_000) -> Round:
        """Solve on the working set, look for violators among all features, and take in the worst ``batch``."""
        ws = self.working_set
        epochs = 0
        while True:
            epochs += abs(ws.solve(positive=self.positive, max_epochs=max(max_epochs - epochs, 1)))
            if epochs >= max_epochs or not self._wake(limits):
                break
        residual = ws.residual()
        used = np.isfinite(ws.limits) & (ws.limits > 0)
        ratio = float(np.max(self._size(ws.g[used]) / ws.limits[used], initial=0.0))
        found = Round(residual, ws.penalty(), ws.support().size, ratio, epochs)
        skip = ws.position if rejected is None else np.where(rejected, 0, ws.position)
        if isinstance(self.correlations, Correlations):
            doubtful = self.correlations.exceeding(residual, limits.lower, skip, self.positive)
            found.checked = doubtful.size
            sizes = self._read(self.correlations, residual, doubtful)
        else:
            products = self._read_all(residual)
            doubtful = self.correlations.reaching(products, residual, limits.lower, skip, self.positive)
            found.checked = products.size
            sizes = self._size(products[doubtful])
        if doubtful.size == 0:
            return found
        # products are rounded in the dictionary's precision: what is within their error is decided in float64
        error = self.correlations.slack * float(np.linalg.norm(residual)) * self.correlations.norms[doubtful]
        over = sizes + error >= limits.lower[doubtful]
        suspects = doubtful[over]
        limits.sharpen(suspects)
        bound = limits.lower[suspects]
        sizes = sizes[over]
        over = sizes + error[over] >= bound
        violators, sizes, bound = suspects[over], sizes[over], bound[over]
        if violators.size == 0:
            return found
        with np.errstate(divide="ignore"):
            found.ratio = max(ratio, float(np.max(sizes / bound)))
        depth = (sizes - bound) / self.correlations.norms[violators]
        chosen = np.sort(violators[widest(depth, batch)])
        ws.add(chosen, limits.lower[chosen])
        found.violators = violators.size
        return found

    def _size(self, values: FloatArray) -> FloatArray:
        return values if self.positive else np.abs(values)

    def _wake(self, limits: Limits) -> bool:
        """Give idle columns in hand their limit if they violate it; whether any did."""
        ws = self.working_set
        idle = np.flatnonzero(ws.idle())
        if idle.size == 0:
            return False
        index = ws.index[idle]
        over = self._size(ws.g[idle]) > limits.lower[index]
        idle, index = idle[over], index[over]
        if idle.size == 0:
            return False
        limits.sharpen(index)
        over = self._size(ws.g[idle]) > limits.lower[index] * (1.0 + 1e-12)
        ws.limits[idle[over]] = limits.lower[index[over]]
        return bool(over.any())

    def _read(self, correlations: Correlations, residual: FloatArray, doubtful: IndexArray) -> FloatArray:
        """|phi_i' r| for the doubtful features, by reading them or everything."""
        if doubtful.size == 0:
            return np.zeros(0)
        phi = correlations.dictionary
        few = phi.cheap_columns and doubtful.size <= self.full_pass_share * phi.n_features
        if few:
            return self._size(phi.correlate(residual, doubtful))
        products = self._read_all(residual)
        correlations.add(residual, products)
        return self._size(products[doubtful])

    def _read_all(self, residual: FloatArray) -> FloatArray:
        self.last_full = None  # makes room: with many features each vector counts
        products: FloatArray = self.correlations.dictionary.correlate(residual)
        self.full_reads += 1
        self.last_full = (residual, products)
        return products
