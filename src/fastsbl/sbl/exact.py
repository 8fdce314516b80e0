"""Inner problems with every weight and every product computed: any solver, any rule, any kind of data."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fastsbl._base.types import Array, FloatArray, IndexArray
from fastsbl.lasso.answer import Answer
from fastsbl.lasso.certificate import certify
from fastsbl.sbl.inner import InnerResult
from fastsbl.sbl.model import SupportModel
from fastsbl.screening.problem import DualProblem, PrimalPoint, magnitudes
from fastsbl.screening.rules import Rule

__all__ = ["ExactInner", "all_weights"]


def all_weights(problem: DualProblem, model: SupportModel) -> FloatArray:
    """Exact weights u of all features, in blocks: one read of the dictionary."""
    phi = problem.dictionary
    if model.size == 0:
        return np.asarray(problem.norms / np.sqrt(model.lam))
    out = np.empty(phi.n_features)
    step = max(1, min(phi.n_features, 2**22 // phi.n_samples))
    for low in range(0, phi.n_features, step):
        index = np.arange(low, min(low + step, phi.n_features))
        out[index] = model.weights(phi.columns(index).T)
    return out


class ExactInner:
    """The inner problems of one fit through a general solver of the weighted lasso.

    Parameters
    ----------
    problem : DualProblem
        Dictionary, target, norms and ``Phi^H y``; its limits are not used.
    y : array of shape (N,) or (N, L)
        The target.
    rules : tuple of Rule
        Screening rules for each inner problem.
    solver : callable
        One of the solvers of the lasso layer.
    tol : float
        Relative duality gap asked of each inner problem.
    """

    def __init__(
        self,
        problem: DualProblem,
        y: Array,
        rules: tuple[Rule, ...],
        solver: Callable[..., Answer],
        tol: float,
        max_epochs: int,
    ) -> None:
        self.problem = problem
        self.y = y
        self.lam = np.nan
        self.rules = rules
        self.solver = solver
        self.tol = tol
        self.max_epochs = max_epochs
        self.coef: Array = np.zeros(
            (problem.norms.size, *y.shape[1:]),
            dtype=np.complex128 if np.iscomplexobj(problem.correlations) else np.float64,
        )
        self._point: PrimalPoint | None = None
        self._root_targets = np.sqrt(1.0 if y.ndim == 1 else y.shape[1])

    def begin(self, lam: float) -> None:
        """Start a fit at this noise variance."""
        self.lam = lam

    def first(self, weights: FloatArray) -> InnerResult:
        """Solve with the given weights."""
        return self._solve(weights)

    def resume(self, gamma: FloatArray) -> InnerResult:
        """Solve with the weights of a model given by gamma (of all features)."""
        index = np.flatnonzero(gamma)
        return self.next(self._model(index, gamma[index]), index)

    def next(self, model: SupportModel, active: IndexArray) -> InnerResult:
        """Solve with the weights of ``model``, all of them computed."""
        u = all_weights(self.problem, model)
        u[active] = model.own_weights()
        return self._solve(u)

    def describe(self, found: InnerResult) -> tuple[IndexArray, SupportModel]:
        """Column numbers and model of a solution."""
        gamma = magnitudes(found.theta) / (self._root_targets * found.weights)
        return found.active, self._model(found.active, gamma)

    def _model(self, index: IndexArray, gamma: FloatArray) -> SupportModel:
        rows = self.problem.dictionary.columns(index).T
        return SupportModel(rows, rows.conj() @ rows.T, gamma, self.lam)

    def finish(self, model: SupportModel, active: IndexArray) -> float:
        """Look at every feature with exact weights: the largest |phi_i'r|/(lam u_i) outside the support."""
        point = certify(self.problem, self.y, self.coef).point
        sizes = point.correlations if self.problem.positive else magnitudes(point.correlations)
        limits = self.lam * self._root_targets * all_weights(self.problem, model)
        used = limits > 0
        used[active] = False
        return float(np.max(sizes[used] / limits[used], initial=0.0))

    def _solve(self, weights: FloatArray) -> InnerResult:
        limits = self.lam * self._root_targets * weights
        limits[self.problem.norms == 0.0] = np.inf
        problem = self.problem.with_limits(limits)
        before = self._point
        if before is not None:
            sizes = magnitudes(self.coef)
            used = sizes > 0
            before = PrimalPoint(before.residual, before.correlations, float(sizes[used] @ limits[used]))
        scale = 0.5 * float(np.vdot(self.y, self.y).real)
        rejected: dict[str, float] = {}
        strict = self.tol
        epochs = 0
        while True:
            if problem.target_is_feasible:
                answer = Answer(np.zeros_like(self.coef), 0)
            else:
                answer = self.solver(problem, self.y, self.rules, self.coef, before, strict, self.max_epochs)
            epochs += answer.n_epochs
            self.coef = answer.coef
            certificate = certify(problem, self.y, self.coef)
            if answer.history:
                rejected = {**rejected, **answer.history[-1]["rejected"]}
            if (
                certificate.gap <= self.tol * scale
                or strict <= 1e-15
                or epochs >= self.max_epochs
                or answer.n_epochs == 0
            ):
                break
            strict, before = 0.1 * strict, certificate.point
        self._point = certificate.point
        support = np.flatnonzero(magnitudes(self.coef))
        theta = self.coef[support]
        penalty = float(magnitudes(theta) @ limits[support])
        return InnerResult(
            support, theta, weights[used], certificate.residual, penalty, certificate.gap, rejected, limits.size
        )
