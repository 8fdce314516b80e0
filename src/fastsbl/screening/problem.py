"""The weighted lasso as its screening tests see it: limits, correlations, a feasible dual point."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fastsbl._base.types import Array, BoolArray, FloatArray, IndexArray
from fastsbl.dictionary import Dictionary
from fastsbl.screening import _kernels
from fastsbl.screening.groups import Groups
from fastsbl.screening.region import HalfSpace, Region

__all__ = ["DualProblem", "PrimalPoint", "dual_scale", "duality_gap", "magnitudes"]


def magnitudes(correlations: Array) -> FloatArray:
    """|phi_i^H v| for one target, ||phi_i^H V||_2 for several."""
    if correlations.ndim == 2:
        return np.asarray(np.sqrt(np.einsum("ij,ij->i", correlations.conj(), correlations).real))
    return np.asarray(np.abs(correlations))


@dataclass(frozen=True)
class PrimalPoint:
    """Coefficients theta, seen through what the tests need of them.

    Attributes
    ----------
    residual : array of shape (N,) or (N, L)
        ``y - Phi theta``, with the unpenalised columns projected out.
    correlations : array of shape (n,) or (n, L)
        ``Phi^H residual``.
    penalty : float
        ``sum limits_i |theta_i|``.
    """

    residual: Array
    correlations: Array
    penalty: float


class DualProblem:
    """max 0.5||y||^2 - 0.5||eta - y||^2 subject to ``|phi_i^H eta| <= limits_i``.

    Columns with limit 0 are unpenalised: the dual point must be orthogonal to them, so they are
    projected out of the target once, here. With ``positive`` they only bound the dual point from one
    side, ``phi_i' eta <= 0``, and dual points are projected onto that cone instead.

    Attributes
    ----------
    floor : float
        Rounding that projecting the unpenalised columns out has left in every product, per unit of norm.
    anchor, anchor_correlations : arrays
        A vector with a feasible multiple, the target itself unless there are unpenalised columns, and its
        products.

    Parameters
    ----------
    dictionary : Dictionary
        Phi.
    y : array of shape (N,) or (N, L)
        The target.
    limits : array of shape (n,)
        ``lam * weights``; inf excludes a column.
    positive : bool
        Whether theta >= 0, so that only ``phi_i' eta <= limits_i`` is asked.
    norms, correlations : arrays, optional
        Column norms and ``Phi^H y``, if already known.
    groups : Groups, optional
        Groups of columns with one limit each; ``limits`` and every mask are then per group, and
        ``norms`` become the groups' spectral norms.
    """

    def __init__(
        self,
        dictionary: Dictionary,
        y: Array,
        limits: FloatArray,
        *,
        positive: bool = False,
        norms: FloatArray | None = None,
        correlations: Array | None = None,
        groups: Groups | None = None,
    ) -> None:
        self.dictionary = dictionary
        self.limits = limits
        self.positive = positive
        if norms is None or correlations is None:
            norms, correlations = dictionary.norms_and_correlations(y)
        self.groups = groups
        self.norms = norms if groups is None else groups.spectral_norms(dictionary, norms)
        self.basis: Array | None = None
        self.cone: FloatArray | None = None
        free: IndexArray = np.zeros(0, dtype=np.intp)
        if float(limits.min()) == 0.0:
            free = np.flatnonzero((limits == 0.0) & (self.norms > 0.0))
        if free.size and groups is not None:
            raise ValueError("limits of groups must be above 0")
        anchor = y
        anchor_correlations = correlations
        self.slack = (64 + dictionary.n_samples) * dictionary.eps
        self.floor = 0.0
        if free.size:
            self.floor = self.slack * float(np.linalg.norm(y))
            columns = dictionary.columns(free) / norms[free]
            if positive:
                self.cone = columns
            else:
                self.basis = orthonormal_basis(columns)
            anchor = self.project(y)
            anchor_correlations = dictionary.correlate(anchor).copy()
            anchor_correlations[self.sizes(anchor_correlations) <= self.floor * norms] = 0.0  # rounding
            if not positive:
                anchor_correlations[free] = 0.0
                y, correlations = anchor, anchor_correlations
        self.anchor = anchor
        self.anchor_correlations = anchor_correlations
        self.y = y
        self.correlations = correlations
        self.y_norm = float(np.linalg.norm(y))
        self.vector_valued = y.ndim == 2 or np.iscomplexobj(correlations) or groups is not None

    def sizes(self, values: Array) -> FloatArray:
        """Magnitude of each feature's (or group's) row of correlations or coefficients."""
        return magnitudes(values) if self.groups is None else self.groups.norms(values)

    @property
    def rounding(self) -> float:
        """Length below which a vector made of the target is rounding alone."""
        return self.slack * self.y_norm + self.floor

    def with_limits(self, limits: FloatArray) -> DualProblem:
        """Return the same data under other limits, with the same columns unpenalised; reads nothing."""
        other = copy.copy(self)
        other.__dict__.pop("scale", None)
        other.__dict__.pop("paper_scale", None)
        other.limits = limits
        return other

    def restricted(self, index: IndexArray) -> DualProblem:
        """Return the problem of these columns alone, for tests that need a primal point; masks are then of its columns.

        If the columns left out are zero in every solution, both problems have the same dual optimum.
        """
        other = self.with_limits(self.limits[index])
        other.norms = self.norms[index]
        other.anchor_correlations = self.anchor_correlations[index]
        other.correlations = self.correlations[index]
        return other

    def project(self, vector: Array) -> Array:
        """Move a vector to where the unpenalised columns allow a dual point to be."""
        if self.basis is not None:
            vector = vector - self.basis @ (self.basis.conj().T @ vector)
        elif self.cone is not None:
            if float((self.cone.T @ vector).max()) <= self.slack * float(np.linalg.norm(vector)):
                return vector
            from scipy.optimize import nnls  # slow to import, and rarely needed

            vector = vector - self.cone @ nnls(self.cone, vector)[0]
        else:
            return vector
        only_rounding = float(np.linalg.norm(vector)) <= self.floor
        return np.zeros_like(vector) if only_rounding else vector

    def largest_ratio(self, correlations: Array) -> float:
        """Return ``max |phi_i^H v| / limits_i`` over the penalised columns."""
        values = self.sizes(correlations) if self.vector_valued else correlations
        return float(_kernels.largest_ratio(values, self.limits, self.positive))

    @cached_property
    def scale(self) -> float:
        """The largest s <= 1 with s * anchor feasible."""
        ratio = self.largest_ratio(self.anchor_correlations)
        return 1.0 if ratio <= 1.0 + 1e-15 else 1.0 / ratio  # lam = lambda_max may round either way

    @property
    def target_is_feasible(self) -> bool:
        """Whether y itself is the dual optimum, so that every penalised coefficient is zero."""
        return self.scale == 1.0 and self.anchor is self.y

    @property
    def has_unpenalised(self) -> bool:
        """Whether some columns carry no penalty."""
        return self.basis is not None or self.cone is not None

    @cached_property
    def paper_scale(self) -> float:
        """The paper's scaling by the smallest weight, with the absolute value it needs, at most 1."""
        used = self.norms > 0.0
        products = self.anchor_correlations
        values = self.sizes(products) if self.vector_valued or not self.positive else products
        largest = float(values[used].max(initial=0.0))
        if largest <= 0.0:
            return 1.0
        return min(1.0, float(self.limits[used].min()) / largest)

    def point(self, coef: Array) -> PrimalPoint:
        """Look at coefficients from the tests' side; takes one read of the dictionary."""
        residual = self.project(self.y - self.dictionary.apply(coef))
        correlations = self.dictionary.correlate(residual)
        size = self.sizes(coef)
        used = size > 0
        return PrimalPoint(residual, correlations, float(size[used] @ self.limits[used]))

    def feasible_scale(self, point: PrimalPoint) -> float:
        """Return t such that t * residual is the best feasible multiple of the residual."""
        t = dual_scale(point.residual, self.y, self.largest_ratio(point.correlations), self.positive)
        # what unpenalised columns left in the residual must not be magnified
        return min(t, 1.0) if self.has_unpenalised else t

    # -- tests -------------------------------------------------------------------------------
    def reject(
        self, region: Region, center: Array, cuts: tuple[FloatArray, ...] = (), *, cancelled: float = 1.0
    ) -> BoolArray:
        """Reject columns that are below their limit everywhere in ``region``.

        ``center`` holds ``Phi^H`` times the region's centre and ``cuts`` the columns' products with
        its normals; the rounding margins of the test are added here.
        """
        rejected = np.empty(self.norms.size, dtype=np.bool_)
        center_norm = float(np.linalg.norm(region.center))
        margin = self.slack * (center_norm + region.radius) + self.floor
        one_sided = self.positive and not self.vector_valued
        if not cuts or region.radius == 0.0:
            values = self.sizes(center) if self.vector_valued else center
            _kernels.reject_by_ball(values, self.norms, self.limits, region.radius, margin, one_sided, rejected)
            return rejected
        psi = [self._checked_psi(region, cut, center_norm) for cut in region.half_spaces]
        if len(cuts) == 1:
            slack = (4.0 * cancelled - 3.0) * self.slack
            margin += (slack - self.slack) * region.radius
            _kernels.reject_by_dome(
                center, cuts[0], self.norms, self.limits, region.radius, psi[0], slack, margin, one_sided, rejected
            )
            return rejected
        tau = float(region.half_spaces[0].normal @ region.half_spaces[1].normal)
        least_d = 1e-10 if self.dictionary.eps < 1e-10 else 1e-3
        _kernels.reject_by_two_planes(
            center, cuts[0], cuts[1], self.norms, self.limits, region.radius, psi[0], psi[1],
            tau, self.slack, least_d, margin, one_sided, rejected,
        )  # fmt: skip
        return rejected

    def _checked_psi(self, region: Region, cut: HalfSpace, center_norm: float) -> float:
        """Signed depth of a cut in radii, moved outwards by the rounding margin and at most 1."""
        psi = (float(cut.normal @ region.center) - cut.offset) / region.radius
        psi -= (self.slack * (center_norm + region.radius) + self.floor) / region.radius
        if psi > 1.0 + 1e-6:
            raise ValueError(
                f"the dual point must be feasible, but its ball misses a half-space that holds the optimum by "
                f"{psi - 1.0:.3g} radii; check that weights, lam and coef belong to this problem"
            )
        return min(psi, 1.0 - 1e-15)


def dual_scale(residual: Array, y: Array, ratio: float, positive: bool) -> float:
    """Return the best t such that t * residual is feasible, given the largest ``|phi_i^H residual| / limits_i``."""
    squared = float(np.vdot(residual, residual).real)
    if squared == 0.0:
        return 1.0
    best = float(np.vdot(residual, y).real) / squared
    most = np.inf if ratio == 0.0 else 1.0 / ratio
    return float(np.clip(best, 0.0 if positive else -most, most))


def duality_gap(primal: float, dual_point: Array, y: Array) -> float:
    """Return primal value minus the dual value ``dual_point^H y - 0.5 ||dual_point||^2``."""
    return primal - float(np.vdot(dual_point, y).real) + 0.5 * float(np.vdot(dual_point, dual_point).real)


def orthonormal_basis(columns: Array) -> Array:
    """Orthonormal basis of what unit columns span, to rounding."""
    left, values, _ = np.linalg.svd(columns, full_matrices=False)
    return np.asarray(left[:, values > values[0] * max(columns.shape) * 2.3e-16])
