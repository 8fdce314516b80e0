"""`fit_sbl`: the outer loop of sparse Bayesian learning."""

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
    check_target,
    check_weights,
    check_whole_number,
)
from fastsbl._base.types import Array, FloatArray, IndexArray
from fastsbl._base.warnings import ConditioningWarning, ConvergenceWarning
from fastsbl.dictionary import Dictionary, as_dictionary
from fastsbl.lasso.block import solve_blocks
from fastsbl.lasso.solve import SOLVERS
from fastsbl.sbl.bounded import BoundedInner
from fastsbl.sbl.evidence import largest_variance, loss_of
from fastsbl.sbl.exact import ExactInner
from fastsbl.sbl.inner import InnerResult
from fastsbl.sbl.model import SupportModel
from fastsbl.sbl.result import SBLResult, as_gamma
from fastsbl.screening.groups import Groups
from fastsbl.screening.problem import DualProblem
from fastsbl.screening.rules import LAM_ZERO, Rule, find_rules

__all__ = ["Settings", "Start", "fit_sbl", "make_inner", "run"]

_MOST_EPOCHS = 200_000
_NOTHING = 1e-13  # what rounding alone may explain


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


def fit_sbl(
    dictionary: Any,
    y: Any,
    lam: Any = "learn",
    *,
    init: Any = "null",
    screening: str | None = "holder",
    bounds: bool = True,
    extrapolate: bool = False,
    solver: str = "working-set",
    positive: bool = False,
    groups: Any = None,
    threshold: float = 0.0,
    tol: float = 1e-4,
    max_iter: int = 1000,
    inner_tol: float = 1e-8,
    warm_start: Any = None,
    n_effective: float | None = None,
    callback: Callable[[dict[str, Any]], object] | None = None,
) -> SBLResult:
    """Fit a sparse Bayesian model ``y = Phi theta + noise`` with ``theta_i ~ N(0, gamma_i)`` by evidence maximisation.

    Minimises ``log|S| + y' S^-1 y``, ``S = lam I + Phi diag(gamma) Phi'``, as a sequence of weighted lasso problems,
    each solved exactly and certified on all features.

    Parameters
    ----------
    dictionary : array-like, sparse matrix, operator or Dictionary of shape (N, n)
        Phi.
    y : array of shape (N,) or (N, L)
        The target; L targets share one gamma, and so one support.
    lam : float or "learn"
        Noise variance. "learn" fits along falling variances, refits each support it meets together with its noise,
        and returns the one with the best evidence (see `learn_noise`): features that plain SBL at the learned
        variance would add, but that do not pay for themselves, stay out.
    init : {"null", "unit"} or array of shape (n,)
        First weights u: "null" starts from gamma = 0 (the fit then scales with y and with each column),
        "unit" is the paper's u = 1, an array is used as it is.
    screening : str or None
        Safe rule used in each inner problem, as in `solve_weighted_lasso`. The answer is the same with all.
    bounds : bool
        Certify most features by bounds instead of computing their weight and correlation. The answer is the
        same without, at many times the cost.
    extrapolate : bool
        Jump ahead along the last steps of gamma while the support stays the same, if that lowers the objective. Fewer
        iterations, but it may end in another stationary point.
    solver : {"working-set", "cd", "cvxpy"}
        Solver of the inner problems.
    positive : bool
        Whether theta >= 0.
    groups : array of shape (n,), optional
        A label for each column: columns with equal labels share one gamma and enter together. Sphere tests screen
        groups; the planes of the other rules have no closed form there.
    threshold : float
        At the end, drop features whose ``gamma_i ||phi_i||^2`` is at most this share of the largest (0 keeps all).
    tol : float
        Stop once no ``gamma_i ||phi_i||^2`` changes by more than this share of the largest, and every feature
        has been checked.
    max_iter : int
        Most outer iterations.
    inner_tol : float
        Relative duality gap of inner problems that are not solved exactly ("cd", "cvxpy", several targets, complex).
    warm_start : SBLResult or array of shape (n,), optional
        Start from this gamma instead of ``init``. The objective has several stationary points, and another start
        may lead to another one.
    n_effective : float, optional
        How many samples the rows stand for, if not N: rows and y scaled by the square roots of frequency weights
        stand for the sum of the weights. It matters to the evidence and to a learned noise variance.
    callback : callable, optional
        Called with each record of the history.

    Returns
    -------
    SBLResult
        Coefficients, gamma, posterior, certificate and history.

    Examples
    --------
    >>> import numpy as np
    >>> from fastsbl.sbl import fit_sbl
    >>> rng = np.random.default_rng(0)
    >>> phi = rng.standard_normal((50, 200))
    >>> y = 3 * phi[:, 7] - 2 * phi[:, 42] + 0.1 * rng.standard_normal(50)
    >>> result = fit_sbl(phi, y, lam=0.1)
    >>> result.support
    array([ 7, 42])
    >>> result.coef[result.support].round(1)
    array([ 3., -2.])
    """
    settings = Settings(
        init=init,
        screening=screening,
        bounds=bounds,
        extrapolate=extrapolate,
        solver=solver,
        positive=positive,
        threshold=threshold,
        tol=tol,
        max_iter=max_iter,
        inner_tol=inner_tol,
        callback=callback,
    )
    phi = as_dictionary(dictionary).metered()
    target = check_target(y, phi.n_samples)
    learn = isinstance(lam, str)
    if learn:
        check_choice(lam, "lam", ("learn",))
        if warm_start is not None:
            raise ValueError("warm_start needs a given lam, since lam='learn' starts from gamma = 0")
    else:
        lam = check_positive_number(lam, "lam", zero=LAM_ZERO)
    start = Start(phi, target, settings.positive, n_effective=n_effective, groups=groups)
    if learn:
        from fastsbl.sbl.noise import learn_noise

        return learn_noise(start, target, settings)
    gamma = None
    if warm_start is not None:
        gamma = as_gamma(
            warm_start.gamma if isinstance(warm_start, SBLResult) else warm_start, phi.n_features, "warm_start"
        )
    return run(start, target, lam, settings, gamma=gamma, since=0.0)


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
    if 0 < lam < 1e-13 * scale:
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
    for iteration in range(1, settings.max_iter + 1):
        index, model = inner.describe(found)
        value = loss_of(model, y, found.residual, found.theta, start.n_effective)
        contributions = model.gamma * norms[index] ** 2
        change = _change(index, contributions, gamma_before)
        gamma_before = dict(zip(index.tolist(), contributions.tolist(), strict=True))
        history.append(
            {
                "iteration": iteration,
                "loss": value,
                "gap": found.gap,
                "support": int(index.size),
                "change": change,
                "rejected": found.rejected,
                "singles": found.singles,
                "passes": phi.passes - passes,
                "seconds": time.perf_counter() - clock,
            }
        )
        if settings.callback is not None:
            settings.callback(history[-1])
        settled = change <= settings.tol
        if index.size == 0 or contributions.max() <= _NOTHING * lam:
            # nothing is explained: gamma = 0 is a fixed point here; below, the next weights let features in
            settled = lam >= start.lambda_max * (1.0 - _NOTHING)
        if settled and quiet:  # one of many candidates: the one that is chosen is checked
            converged = True
            break
        if settled:
            outside = inner.finish(model, found.active)
            converged = outside <= 1.0 + settings.tol
            if converged:
                break
        if iteration < settings.max_iter:
            if settings.extrapolate:
                model = leap.ahead(index, model, value)
                gamma_before = dict(zip(index.tolist(), (model.gamma * norms[index] ** 2).tolist(), strict=True))
            found = inner.next(model, found.active)
    if not converged and not quiet:
        outside = inner.finish(model, found.active)
        warnings.warn(
            f"fit_sbl stopped after {iteration} outer iterations: gamma still changes by {change:.2g} of its largest "
            f"value (tol={settings.tol:g}), and the largest |phi_i'r|/(lam u_i) of a feature outside is {outside:.6g} "
            "(at most 1 at a fixed point); raise max_iter",
            ConvergenceWarning,
            stacklevel=3,
        )
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
        return BoundedInner(problem, y, settings.rules)
    solver = SOLVERS[settings.solver]
    if problem.vector_valued:
        if settings.solver == "cd":
            raise ValueError("solver='cd' takes real data, one target and no groups; use solver='working-set'")
        if problem.groups is not None and settings.solver == "cvxpy":
            raise ValueError("solver='cvxpy' takes no groups; use solver='working-set'")
        if settings.solver == "working-set":
            solver = solve_blocks
    return ExactInner(problem, y, settings.rules, solver, settings.inner_tol, _MOST_EPOCHS)


def _first_weights(init: Any, norms: FloatArray, lam: float) -> FloatArray:
    if isinstance(init, str):
        return np.where(norms > 0, 1.0, 0.0) if init == "unit" else norms / np.sqrt(lam)
    weights = check_weights(init, norms.size)
    if ((weights == 0) & (norms > 0)).any():
        raise ValueError(
            "init must be above 0 for every column that is not zero: a weight of 0 belongs to an infinite gamma"
        )
    return weights


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
