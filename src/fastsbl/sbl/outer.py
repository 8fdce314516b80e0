"""The outer loop of sparse Bayesian learning, and what goes into it."""

from __future__ import annotations

import copy
import time
import warnings
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from fastsbl._base.checks import (
    check_choice,
    check_flag,
    check_positive_number,
    check_weights,
    check_whole_number,
)
from fastsbl._base.types import Array, FloatArray, IndexArray
from fastsbl._base.warnings import ConditioningWarning, ConvergenceWarning
from fastsbl.dictionary import Dictionary
from fastsbl.lasso.block import solve_blocks
from fastsbl.lasso.solve import SOLVERS
from fastsbl.sbl.blocks import BoundedBlocks
from fastsbl.sbl.bounded import BoundedInner
from fastsbl.sbl.evidence import largest_variance, loss_of
from fastsbl.sbl.exact import ExactInner
from fastsbl.sbl.grammed import GramInner
from fastsbl.sbl.guarded import Followed
from fastsbl.sbl.inner import InnerResult
from fastsbl.sbl.model import SupportModel
from fastsbl.sbl.result import SBLResult
from fastsbl.screening.groups import Groups
from fastsbl.screening.problem import DualProblem
from fastsbl.screening.rules import Rule, find_rules

__all__ = ["Inner", "Settings", "Start", "make_inner", "run"]

_MOST_EPOCHS = 200_000
_NOTHING = 1e-13  # what rounding alone may explain
_RESOLVED = 1e-13  # smallest noise variance, in ||y||^2, that double precision resolves
_INEXACT = 0.05  # largest duality gap of an inner problem, in lam: Loss is within twice that of an exact step


class Inner(Protocol):
    """Solves the weighted lasso of each outer iteration."""

    def begin(self, lam: float) -> None:
        """Start a fit at this noise variance; what was learned of the dictionary stays."""

    def first(self, weights: FloatArray) -> InnerResult:
        """Solve with given weights."""

    def resume(self, gamma: FloatArray) -> InnerResult:
        """Solve with the weights of a model given by gamma."""

    def next(self, model: SupportModel, active: IndexArray) -> InnerResult:
        """Solve with the weights of the model of the solution before."""

    def describe(self, found: InnerResult) -> tuple[IndexArray, SupportModel]:
        """Column numbers and model of a solution."""

    def follow(
        self, found: InnerResult, *, tol: float, n_effective: float, most_steps: int
    ) -> tuple[InnerResult, Followed] | None:
        """Run several outer iterations at once, up to a change of ``tol``, or None if that cannot be done."""

    def finish(self, model: SupportModel, active: IndexArray) -> float:
        """Look at every feature once more: the largest |phi_i'r|/(lam u_i) of a feature with gamma = 0."""


class Settings:
    """Checked options of a fit."""

    def __init__(
        self,
        *,
        init: Any = "null",
        screening: Any = "holder",
        bounds: Any = True,
        solver: Any = "working-set",
        positive: Any = False,
        extrapolate: Any = False,
        threshold: Any = 0.0,
        tol: Any = 1e-4,
        max_iter: Any = 1000,
        inner_tol: Any = 1e-8,
        callback: Callable[[dict[str, Any]], object] | None = None,
    ) -> None:
        self.rules: tuple[Rule, ...] = find_rules(screening)
        self.bounds = check_flag(bounds, "bounds")
        self.solver = check_choice(solver, "solver", tuple(SOLVERS))
        self.positive = check_flag(positive, "positive")
        self.extrapolate = check_flag(extrapolate, "extrapolate")
        if isinstance(init, str):
            check_choice(init, "init", ("null", "unit"))
        self.init = init
        if threshold != 0.0:
            threshold = check_positive_number(threshold, "threshold")
            if threshold >= 1.0:
                raise ValueError(
                    f"threshold must be below 1, since it is relative to the largest gamma, got {threshold!r}"
                )
        self.threshold = float(threshold)
        self.tol = check_positive_number(tol, "tol")
        self.max_iter = check_whole_number(max_iter, "max_iter")
        self.inner_tol = check_positive_number(inner_tol, "inner_tol")
        if callback is not None and not callable(callback):
            raise TypeError(f"callback must be callable, got {type(callback).__name__}")
        self.callback = callback

    def with_accuracy(self, tol: float, max_iter: int) -> Settings:
        """The same options with another tolerance and limit on iterations."""
        other = copy.copy(self)
        other.tol, other.max_iter = tol, max_iter
        return other


class Start:
    """What fits on one dictionary and target share: norms and products."""

    def __init__(
        self,
        phi: Dictionary,
        y: Array,
        positive: bool,
        products: tuple[FloatArray, Array] | None = None,
        n_effective: Any = None,
        groups: Any = None,
    ) -> None:
        if positive and (phi.is_complex or np.iscomplexobj(y) or y.ndim == 2 or groups is not None):
            raise ValueError("positive=True needs a real dictionary, one real target and no groups")
        norms, correlations = phi.norms_and_correlations(y) if products is None else products
        self.groups = None if groups is None else Groups.from_labels(groups, phi.n_features)
        self.column_norms = norms
        self.norms = norms if self.groups is None else self.groups.norms(norms)  # of features or groups
        self.problem = DualProblem(
            phi, y, self.norms, positive=positive, norms=norms, correlations=correlations, groups=self.groups
        )
        self.lambda_max = largest_variance(correlations, norms, y, self.groups, positive=positive)
        self.n_effective = (
            float(phi.n_samples) if n_effective is None else check_positive_number(n_effective, "n_effective")
        )


def run(
    start: Start,
    y: Array,
    lam: float,
    settings: Settings,
    *,
    inner: Inner | None = None,
    gamma: FloatArray | None = None,
    quiet: bool = False,
    since: float | None = None,
) -> SBLResult:
    """Run the outer loop to its end at one noise variance.

    ``inner`` carries columns and products over from an earlier run on the same data; ``gamma`` is where to start.
    """
    clock = time.perf_counter()
    problem = start.problem
    phi = problem.dictionary
    passes = phi.passes if since is None else since
    scale = float(np.vdot(y, y).real)
    resolved = max(lam, _RESOLVED * scale)
    if lam < resolved and not quiet:
        warnings.warn(
            f"lam={lam:.3g} is below 1e-13 ||y||^2: the model's covariance is singular to double precision, and "
            "weights and gamma lose their digits; use a larger lam",
            ConditioningWarning,
            stacklevel=3,
        )
    if inner is None:
        inner = make_inner(start, y, settings)
    inner.begin(lam)
    norms = start.column_norms
    history: list[dict[str, Any]] = []
    gamma_before: dict[int, float] = {}
    if gamma is None or not gamma.any():
        found = inner.first(_first_weights(settings.init, start.norms, lam))
    else:
        found = inner.resume(gamma)
    converged, change = False, np.inf
    leap = _Leap(y, start.n_effective)
    at_once = 1 if settings.callback is not None else settings.max_iter

    def record(
        number: int, loss: float, change: float, size: int, gap: float, singles: int, rejected: dict[str, float]
    ) -> dict[str, Any]:
        return {
            "iteration": number,
            "loss": loss,
            "gap": gap,
            "support": size,
            "change": change,
            "rejected": rejected,
            "singles": singles,
            "passes": phi.passes - passes,
            "seconds": time.perf_counter() - clock,
        }

    iteration = 0
    while iteration < settings.max_iter:
        iteration += 1
        index, model = inner.describe(found)
        value = loss_of(model, y, found.residual, found.theta, start.n_effective)
        contributions = model.gamma * norms[index] ** 2
        change = _change(index, contributions, gamma_before)
        gamma_before = dict(zip(index.tolist(), contributions.tolist(), strict=True))
        history.append(record(iteration, value, change, int(index.size), found.gap, found.singles, found.rejected))
        if settings.callback is not None:
            settings.callback(history[-1])
        settled = change <= max(settings.tol, _resolution(found, norms[index], contributions, scale))
        if index.size == 0 or contributions.max() <= _NOTHING * lam:
            # nothing is explained: gamma = 0 is a fixed point here; below, the next weights let features in
            settled = lam >= start.lambda_max * (1.0 - _NOTHING)
        if settled and quiet:  # one of many candidates: the one that is chosen is checked
            converged = True
            break
        if settled:
            outside = inner.finish(model, found.active)
            if outside <= 1.0 + settings.tol:
                converged = found.gap <= _INEXACT * resolved  # if not, nothing would change any more
                break
        if iteration < settings.max_iter:
            if settings.extrapolate:
                model = leap.ahead(index, model, value)
                gamma_before = dict(zip(index.tolist(), (model.gamma * norms[index] ** 2).tolist(), strict=True))
            else:
                many = inner.follow(
                    found,
                    tol=settings.tol,
                    n_effective=start.n_effective,
                    most_steps=min(at_once, settings.max_iter - iteration),
                )
                if many is not None:
                    found, followed = many
                    for loss, moved, size, gap, singles in followed.records[:-1].tolist():
                        iteration += 1
                        history.append(record(iteration, loss, moved, int(size), gap, int(singles), {}))
                    gamma_before = followed.before
                    continue
            found = inner.next(model, found.active)
    if not converged and not quiet:
        if found.gap > _INEXACT * resolved:
            left = (
                f"an inner problem is solved to a duality gap of {found.gap / lam:.2g} lam only, as happens with "
                "nearly dependent columns at a small noise variance; use a larger lam (or, with another solver than "
                "'working-set', a smaller inner_tol)"
            )
        else:
            outside = inner.finish(model, found.active)
            left = (
                f"gamma still changes by {change:.2g} of its largest value (tol={settings.tol:g}), and the largest "
                f"|phi_i'r|/(lam u_i) of a feature outside is {outside:.6g} (at most 1 at a fixed point); raise "
                "max_iter"
            )
        warnings.warn(f"fit_sbl stopped after {iteration} outer iterations: {left}", ConvergenceWarning, stacklevel=3)
    return _result(
        start,
        y,
        settings,
        index,
        model,
        found,
        loss=value,
        converged=converged,
        n_iter=iteration,
        passes=phi.passes - passes,
        history=history,
    )


class _Leap:
    """Extrapolates gamma along its last steps on an unchanged support, where that lowers the objective."""

    def __init__(self, y: Array, n_effective: float) -> None:
        self._y = y
        self._n_effective = n_effective
        self._index: IndexArray = np.zeros(0, dtype=np.intp)
        self._trail: list[FloatArray] = []

    def ahead(self, index: IndexArray, model: SupportModel, value: float) -> SupportModel:
        """Return the model to go on from: the one given, or a better one further along."""
        if not np.array_equal(index, self._index):
            self._index, self._trail = index, []
        self._trail.append(model.gamma)
        if len(self._trail) < 3 or index.size == 0:
            return model
        first, second = self._trail[-2] - self._trail[-3], self._trail[-1] - self._trail[-2]
        self._trail = []
        squared = float(first @ first)
        rate = min(max(float(first @ second) / squared, 0.0), 0.95) if squared > 0 else 0.0
        gamma = model.gamma + second * (rate / (1.0 - rate))
        if not (gamma > 0).all():
            return model
        trial = SupportModel(model.rows, model.gram, gamma, model.lam)
        mean = trial.posterior_mean(self._y)
        better = loss_of(trial, self._y, self._y - model.rows.T @ mean, mean, self._n_effective) < value
        return trial if better else model


def make_inner(start: Start, y: Array, settings: Settings) -> Inner:
    """Choose the solver of the inner problems."""
    problem = start.problem
    if settings.solver == "working-set" and settings.bounds and not problem.vector_valued:
        kind = BoundedInner if problem.dictionary.whole_gram is None else GramInner
        return kind(problem, y, settings.rules)
    solver = SOLVERS[settings.solver]
    if problem.vector_valued:
        if settings.solver == "cd":
            raise ValueError("solver='cd' takes real data, one target and no groups; use solver='working-set'")
        if problem.groups is not None and settings.solver == "cvxpy":
            raise ValueError("solver='cvxpy' takes no groups; use solver='working-set'")
        if settings.solver == "working-set" and settings.bounds:
            return BoundedBlocks(problem, y, settings.rules, settings.inner_tol, _MOST_EPOCHS)
        if settings.solver == "working-set":
            solver = solve_blocks
    return ExactInner(problem, y, settings.rules, solver, settings.inner_tol, _MOST_EPOCHS)


def _first_weights(init: Any, norms: FloatArray, lam: float) -> FloatArray:
    if isinstance(init, str):
        return np.where(norms > 0, 1.0, 0.0) if init == "unit" else norms / np.sqrt(lam)
    weights = check_weights(init, norms.size, "init")
    if ((weights == 0) & (norms > 0)).any():
        raise ValueError(
            "init must be above 0 for every column that is not zero: a weight of 0 belongs to an infinite gamma"
        )
    return weights


def _resolution(found: InnerResult, norms: FloatArray, contributions: FloatArray, scale: float) -> float:
    """Change that rounding of the correlations alone may cause, where coefficients are tiny beside the target."""
    if found.weights.size != norms.size or norms.size == 0:
        return 0.0
    return 1e-15 * float(np.sqrt(scale) * np.max(norms / found.weights) / contributions.max())


def _change(index: IndexArray, values: FloatArray, before: dict[int, float]) -> float:
    """Largest change of any feature's contribution, relative to the largest now."""
    if index.size == 0:
        return 0.0 if not before else np.inf
    moved = max(
        (abs(value - before.get(i, 0.0)) for i, value in zip(index.tolist(), values.tolist(), strict=True)), default=0.0
    )
    here = set(index.tolist())
    gone = max((value for i, value in before.items() if i not in here), default=0.0)
    return max(moved, gone) / float(values.max())


def _result(
    start: Start,
    y: Array,
    settings: Settings,
    index: IndexArray,
    model: SupportModel,
    found: InnerResult,
    **record: Any,
) -> SBLResult:
    """Put the solution back among all features, without those below the threshold."""
    phi, norms = start.problem.dictionary, start.column_norms
    theta, residual = found.theta, found.residual
    if settings.threshold > 0.0 and index.size:
        contributions = model.gamma * norms[index] ** 2
        keep = contributions > settings.threshold * contributions.max()
        if not keep.all():
            index, rows = index[keep], model.rows[keep]
            model = SupportModel(rows, rows.conj() @ rows.T, model.gamma[keep], model.lam)
            theta = model.posterior_mean(y)
            residual = y - rows.T @ theta
            record["loss"] = loss_of(model, y, residual, theta, start.n_effective)
    coef = np.zeros((norms.size, *y.shape[1:]), dtype=found.theta.dtype)
    coef[index] = theta
    gamma = np.zeros(norms.size)
    gamma[index] = model.gamma
    return SBLResult(
        coef=coef,
        gamma=gamma,
        lam=model.lam,
        residual=residual,
        n_effective=start.n_effective,
        _dictionary=phi,
        _y=y,
        _groups=start.groups,
        **record,
    )
