"""Inner problems with every weight and every product computed: any solver, any rule, any kind of data."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from fastsbl._base.types import Array, FloatArray, IndexArray
from fastsbl.lasso.answer import Answer
from fastsbl.lasso.certificate import certify
from fastsbl.sbl.inner import InnerResult
from fastsbl.sbl.model import SupportModel, weights_of_all
from fastsbl.screening.problem import DualProblem, PrimalPoint, magnitudes
from fastsbl.screening.rules import Rule

__all__ = ["ExactInner", "all_weights"]


def all_weights(problem: DualProblem, model: SupportModel) -> FloatArray:
    """Exact weights u of all features (or groups): one read of the dictionary."""
    weights = weights_of_all(problem.dictionary, model)
    return weights if problem.groups is None else problem.groups.norms(weights)


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
            (problem.dictionary.n_features, *y.shape[1:]),
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
        return self._solve(all_weights(self.problem, self._model(index, gamma[index])))

    def next(self, model: SupportModel, active: IndexArray) -> InnerResult:
        """Solve with the weights of ``model``, all of them computed."""
        del active
        return self._solve(all_weights(self.problem, model))

    def follow(self, found: InnerResult, *, tol: float, n_effective: float, most_steps: int) -> None:
        """Nothing is known ahead here: one iteration at a time."""
        del found, tol, n_effective, most_steps

    def describe(self, found: InnerResult) -> tuple[IndexArray, SupportModel]:
        """Column numbers and model of a solution."""
        groups = self.problem.groups
        if groups is None:
            index = found.active
            gamma = magnitudes(found.theta) / (self._root_targets * found.weights)
        else:
            index = groups.columns(found.active)
            shared = groups.norms(self.coef)[found.active] / (self._root_targets * found.weights)
            gamma = np.repeat(shared, groups.sizes(found.active))
        return index, self._model(index, gamma)

    def _model(self, index: IndexArray, gamma: FloatArray) -> SupportModel:
        rows = self.problem.dictionary.columns(index).T
        return SupportModel(rows, rows.conj() @ rows.T, gamma, self.lam)

    def finish(self, model: SupportModel, active: IndexArray) -> float:
        """Look at every feature with exact weights: the largest |phi_i'r|/(lam u_i) outside the support."""
        point = self._point
        assert point is not None
        sizes = point.correlations if self.problem.positive else self.problem.sizes(point.correlations)
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
            sizes = self.problem.sizes(self.coef)
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
                clock = time.thread_time()
                answer = self.solver(problem, self.y, self.rules, self.coef, before, strict, self.max_epochs)
                problem.dictionary.note_seconds("solving", time.thread_time() - clock)
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
        sizes = self.problem.sizes(self.coef)
        active = np.flatnonzero(sizes)
        penalty = float(sizes[active] @ limits[active])
        rows = active if problem.groups is None else problem.groups.columns(active)
        return InnerResult(
            active,
            self.coef[rows],
            weights[active],
            certificate.residual,
            penalty,
            certificate.gap,
            rejected,
            limits.size,
        )
