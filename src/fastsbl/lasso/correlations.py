"""What products already made with the dictionary say about ``Phi' r`` for a residual r not yet seen."""

from __future__ import annotations

import numpy as np

from fastsbl._base.types import FloatArray, IndexArray
from fastsbl.dictionary import Dictionary
from fastsbl.lasso import _kernels

__all__ = ["Correlations", "Products"]


class Products:
    """Products with whole vectors, and how far rounding may have moved them.

    Parameters
    ----------
    dictionary : Dictionary
        Phi.
    norms : array of shape (n,)
        The column norms.
    slack : float
        Relative rounding error of a product.
    """

    def __init__(self, dictionary: Dictionary, norms: FloatArray, slack: float) -> None:
        self.dictionary = dictionary
        self.norms = norms
        self.slack = slack
        self._found = np.empty(norms.size, dtype=np.intp)

    def reaching(
        self, products: FloatArray, r: FloatArray, limits: FloatArray, skip: IndexArray, positive: bool
    ) -> IndexArray:
        """Features (not in ``skip``) whose product ``phi_i' r``, known to rounding, may reach its limit."""
        error = self.slack * float(np.linalg.norm(r))
        found = _kernels.reaching_limits(products, self.norms, error, limits, skip, self._found, positive)
        return self._found[:found].copy()


class Correlations(Products):
    """Bounds on ``|phi_i' r|`` from an orthonormal basis Q of residuals seen before, with ``Phi' Q``.

    For r = Q a + r_rest:  ``|phi_i' r| <= |(Phi' Q a)_i| + ||phi_i - Q Q' phi_i|| ||r_rest||``. Features that the
    bound clears need not be read; for the others the columns are read, or the whole dictionary once, which
    adds a direction to Q. Rounding of the products (``slack`` per unit of norm) is carried through.

    Parameters
    ----------
    dictionary : Dictionary
        Phi.
    y : array of shape (N,)
        The first direction.
    products, norms : arrays of shape (n,)
        ``Phi' y`` and the column norms.
    slack : float
        Relative rounding error of a product.
    most_directions : int
        Directions kept; beyond, the oldest but y is given up.
    """

    def __init__(
        self,
        dictionary: Dictionary,
        y: FloatArray,
        products: FloatArray,
        norms: FloatArray,
        slack: float,
        *,
        most_directions: int = 16,
    ) -> None:
        super().__init__(dictionary, norms, slack)
        self._basis = np.empty((most_directions, y.size))  # room: only what is used is touched
        self._products = np.empty((most_directions, norms.size))
        self._errors = np.zeros(most_directions)
        self.count = 0
        self.added = 0
        self._rest_squared = norms**2 * (1.0 + 4.0 * slack)
        self._rest = norms * (1.0 + 2.0 * slack)
        self.add(y, products)

    @property
    def basis(self) -> FloatArray:
        """The directions, as rows."""
        return self._basis[: self.count]

    @property
    def products(self) -> FloatArray:
        """``Phi' q_k`` in row k."""
        return self._products

    @property
    def rest(self) -> FloatArray:
        """Upper bound on the norm of what the directions leave of each column."""
        return self._rest

    @property
    def errors(self) -> FloatArray:
        """Bound on the rounding of each direction's products, per unit of norm."""
        return self._errors[: self.count]

    @property
    def error(self) -> float:
        """Bound on the rounding of one column's products, per unit of its norm."""
        return float(np.linalg.norm(self._errors[: self.count]))

    def product_error(self, a: FloatArray, perpendicular: float) -> float:
        """Bound on the rounding of ``Phi' r`` for r with these coordinates, per unit of norm."""
        return float(np.abs(a) @ self._errors[: self.count]) + self.slack * (float(np.linalg.norm(a)) + perpendicular)

    def split(self, r: FloatArray) -> tuple[FloatArray, float]:
        """Coordinates of r in the basis, and the length of what is left."""
        basis = self._basis[: self.count]
        a = basis @ r
        return a, float(np.linalg.norm(r - a @ basis))

    def add(self, r: FloatArray, products: FloatArray) -> None:
        """Learn ``Phi' r``."""
        length = float(np.linalg.norm(r))
        if length == 0.0:
            return
        if self.count == self._basis.shape[0]:
            self._forget(1)
        basis = self._basis[: self.count]
        a = basis @ r
        rest = r - a @ basis
        again = basis @ rest
        rest -= again @ basis
        a += again
        size = float(np.linalg.norm(rest))
        if size <= 1e-6 * length:
            return
        inside = float(np.linalg.norm(a))
        shared = a
        if inside <= 1e-13 * length:  # a new direction already: what it shares with the others counts as rounding
            shared = np.zeros(0)
        else:
            inside = 0.0
        error = (self.slack * length + inside + float(np.abs(a) @ self._errors[: self.count])) / size
        if not error < 1e-2:  # known too badly to be of use, and later directions would inherit it
            return
        k = self.count
        self._basis[k] = rest / size
        self._errors[k] = error
        _kernels.learn_direction(
            products, shared, self._products, size, error, self.norms, self.slack, self._products[k],
            self._rest_squared, self._rest,
        )  # fmt: skip
        self.count = k + 1
        self.added += 1

    def _measure_rest(self) -> None:
        self._rest = np.sqrt(np.maximum(self._rest_squared, 0.0) + 4.0 * self.slack * self.norms**2)

    def _forget(self, k: int) -> None:
        self._rest_squared += (np.abs(self._products[k]) + self._errors[k] * self.norms) ** 2
        self._measure_rest()
        for array in (self._basis, self._products, self._errors):
            array[k : self.count - 1] = array[k + 1 : self.count].copy()
        self.count -= 1

    def exceeding(self, r: FloatArray, limits: FloatArray, skip: IndexArray, positive: bool) -> IndexArray:
        """Features (not in ``skip``) for which ``|phi_i' r| < limits_i`` cannot be shown without reading them."""
        a, perpendicular = self.split(r)
        k = self.count
        error = self.product_error(a, perpendicular)
        found = _kernels.exceeding_bounds(
            self._products, a, k, self._rest, perpendicular, self.norms, error, limits, skip, self._found, positive
        )
        return self._found[:found].copy()
