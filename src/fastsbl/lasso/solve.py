"""`solve_weighted_lasso` and what goes with it: one problem, a path of problems, the largest useful penalty."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fastsbl._base.checks import (
    check_choice,
    check_coefficients,
    check_flag,
    check_positive_number,
    check_target,
    check_weights,
    check_whole_number,
)
from fastsbl._base.parallel import quiet_blas
from fastsbl._base.types import Array
from fastsbl._base.warnings import ConvergenceWarning
from fastsbl.dictionary import Dictionary, as_dictionary
from fastsbl.lasso.answer import Answer
from fastsbl.lasso.block import solve_blocks
from fastsbl.lasso.certificate import Certificate, certify
from fastsbl.lasso.convex import solve_convex
from fastsbl.lasso.cyclic import solve_cyclic
from fastsbl.lasso.scalar import solve_working_set
from fastsbl.lasso.solution import LassoSolution
from fastsbl.screening.problem import DualProblem, PrimalPoint, magnitudes
from fastsbl.screening.rules import LAM_ZERO, find_rules

__all__ = ["SOLVERS", "lambda_max", "solve_weighted_lasso", "weighted_lasso_path"]

SOLVERS: dict[str, Callable[..., Answer]] = {
    "working-set": solve_working_set,
    "cd": solve_cyclic,
    "cvxpy": solve_convex,
}


def solve_weighted_lasso(
    dictionary: Any,
    y: Any,
    lam: float,
    weights: Any = None,
    *,
    positive: bool = False,
    screening: str | None = "holder",
    solver: str = "working-set",
    coef_init: Any = None,
    tol: float = 1e-6,
    max_iter: int = 100_000,
) -> LassoSolution:
    """Minimise ``0.5 ||y - Phi theta||^2 + lam sum_i weights_i |theta_i|``, and prove it.

    With a target of shape (N, L), or complex data, the penalty is on the norms of the rows of theta.

    Parameters
    ----------
    dictionary : array-like, sparse matrix, operator or Dictionary of shape (N, n)
        Phi.
    y : array of shape (N,) or (N, L)
        The target.
    lam : float
        Penalty, above 0.
    weights : array of shape (n,), optional
        Feature weights (ones by default); 0 leaves a feature unpenalised, inf excludes it.
    positive : bool
        Whether theta >= 0 is asked.
    screening : str or None
        Which safe test removes columns: "sphere", "dome", "two_hyperplanes" (each also on a ball of
        choice, as in "two_hyperplanes:paper"), "gap_sphere", "gap_dome", "holder", "auto", or None. The
        answer is the same with all of them.
    solver : {"working-set", "cd", "cvxpy"}
        "working-set" is the fast one; "cd" sweeps all surviving columns in turn (a baseline; real data
        and one target); "cvxpy" hands them to a general convex solver (optional dependency).
    coef_init : array of shape (n,) or (n, L), optional
        Where to start.
    tol : float
        Accuracy: the solver stops once ``gap <= tol * 0.5 ||y||^2``.
    max_iter : int
        Most coordinate-descent epochs (iterations for "cvxpy").

    Returns
    -------
    LassoSolution
        Coefficients with a duality gap recomputed on all columns.

    Examples
    --------
    >>> import numpy as np
    >>> from fastsbl.lasso import solve_weighted_lasso
    >>> solution = solve_weighted_lasso(np.eye(3), np.array([3.0, -2.0, 0.5]), lam=1.0)
    >>> solution.coef
    array([ 2., -1.,  0.])
    >>> solution.converged
    True
    """
    phi, target = _check_data(dictionary, y)
    lam = check_positive_number(lam, "lam", zero=LAM_ZERO)
    limits = check_weights(weights, phi.n_features)  # our own copy: with many features each one counts
    penalised = np.count_nonzero(limits)
    limits *= lam
    if np.count_nonzero(limits) < penalised:
        raise ValueError(
            f"weights times lam={lam:g} underflow to 0, which would leave features unpenalised; rescale them"
        )
    options = _Options(phi, target, positive, screening, solver, tol, max_iter)
    start = _check_start(coef_init, limits, options)
    with quiet_blas():
        problem = DualProblem(phi, target, limits, positive=options.positive)
        return _solve(problem, target, lam, options, start, None)[0]


def weighted_lasso_path(
    dictionary: Any,
    y: Any,
    ratios: Sequence[float] | Array,
    weights: Any = None,
    *,
    positive: bool = False,
    screening: str | None = "holder",
    solver: str = "working-set",
    tol: float = 1e-6,
    max_iter: int = 100_000,
) -> list[LassoSolution]:
    """Solve the weighted lasso for several penalties ``ratio * lambda_max``, each started from the one before.

    Solved from the largest penalty down; each problem is screened at the solution of the one before it.

    Parameters
    ----------
    dictionary, y, weights, positive, screening, solver, tol, max_iter
        As in `solve_weighted_lasso`.
    ratios : sequence of float
        Values of lam / lambda_max, each above 0.

    Returns
    -------
    list of LassoSolution
        In the order of ``ratios``.

    Examples
    --------
    >>> import numpy as np
    >>> from fastsbl.lasso import weighted_lasso_path
    >>> path = weighted_lasso_path(np.eye(3), np.array([4.0, -2.0, 1.0]), [1.0, 0.5, 0.25])
    >>> [solution.support.tolist() for solution in path]
    [[], [0], [0, 1]]
    """
    phi, target = _check_data(dictionary, y)
    weights = check_weights(weights, phi.n_features)
    options = _Options(phi, target, positive, screening, solver, tol, max_iter)
    grid = [check_positive_number(ratio, "ratios") for ratio in np.atleast_1d(np.asarray(ratios)).tolist()]
    norms, products = phi.norms_and_correlations(target)
    unit = DualProblem(phi, target, weights, positive=options.positive, norms=norms, correlations=products)
    largest = unit.largest_ratio(unit.anchor_correlations)
    if largest == 0.0:  # theta = 0 whatever the penalty
        largest = float(np.linalg.norm(target)) or 1.0
    solutions: dict[int, LassoSolution] = {}
    start = np.zeros((phi.n_features, *target.shape[1:]), dtype=options.dtype)
    before: PrimalPoint | None = None
    for k in sorted(range(len(grid)), key=lambda k: -grid[k]):
        lam = grid[k] * largest
        passes = phi.passes
        problem = unit.with_limits(lam * weights)
        if before is not None:
            sizes = magnitudes(start)
            used = sizes > 0
            before = PrimalPoint(before.residual, before.correlations, float(sizes[used] @ problem.limits[used]))
        with quiet_blas():
            solution, certificate = _solve(problem, target, lam, options, start, before)
        solutions[k] = replace(solution, passes=phi.passes - passes)
        start, before = solution.coef, certificate.point
    return [solutions[k] for k in range(len(grid))]


def lambda_max(dictionary: Any, y: Any, weights: Any = None, *, positive: bool = False) -> float:
    """Return the smallest lam at which the weighted lasso's solution is zero: ``max_i |phi_i' y| / weights_i``.

    Unpenalised columns (weight 0) are projected out of the target first; excluded ones (weight inf)
    do not count.

    Examples
    --------
    >>> import numpy as np
    >>> from fastsbl.lasso import lambda_max
    >>> float(lambda_max(np.eye(2), np.array([3.0, -4.0]), weights=[1.0, 2.0]))
    3.0
    """
    phi, target = _check_data(dictionary, y)
    positive = _check_positive(positive, phi, target)
    problem = DualProblem(phi, target, check_weights(weights, phi.n_features), positive=positive)
    return problem.largest_ratio(problem.anchor_correlations)


class _Options:
    """Checked options of a solve."""

    def __init__(
        self, phi: Dictionary, y: Array, positive: Any, screening: Any, solver: Any, tol: Any, max_iter: Any
    ) -> None:
        self.positive = _check_positive(positive, phi, y)
        self.rules = find_rules(screening)
        name = check_choice(solver, "solver", tuple(SOLVERS))
        self.tol = check_positive_number(tol, "tol")
        self.max_iter = check_whole_number(max_iter, "max_iter")
        complex_data = phi.is_complex or np.iscomplexobj(y)
        self.dtype = np.complex128 if complex_data else np.float64
        self.solver = SOLVERS[name]
        if complex_data or y.ndim == 2:
            if name == "cd":
                raise ValueError("solver='cd' takes real data and one target; use solver='working-set'")
            if name == "working-set":
                self.solver = solve_blocks


def _check_data(dictionary: Any, y: Any) -> tuple[Dictionary, Array]:
    phi = as_dictionary(dictionary).metered()
    return phi, check_target(y, phi.n_samples)


def _check_positive(positive: Any, phi: Dictionary, y: Array) -> bool:
    flag = check_flag(positive, "positive")
    if flag and (phi.is_complex or np.iscomplexobj(y) or y.ndim == 2):
        raise ValueError("positive=True needs a real dictionary and one real target")
    return flag


def _check_start(coef_init: Any, limits: Array, options: _Options) -> Array:
    if coef_init is None:
        return np.zeros(0, dtype=options.dtype)
    start = check_coefficients(coef_init, limits.size, "coef_init")
    if np.iscomplexobj(start) and options.dtype == np.float64:
        raise ValueError("coef_init must be real for real data, got complex values")
    start = start.astype(options.dtype)
    start[np.isinf(limits)] = 0.0
    return np.maximum(start, 0.0) if options.positive else start


def _solve(
    problem: DualProblem, y: Array, lam: float, options: _Options, start: Array, point: PrimalPoint | None
) -> tuple[LassoSolution, Certificate]:
    """Solve, certify on the full problem, and go on more strictly if the certificate falls short."""
    phi = problem.dictionary
    shape = (phi.n_features, *y.shape[1:])
    if start.size == 0:
        start = np.zeros(shape, dtype=options.dtype)
    elif start.shape != shape:
        raise ValueError(f"coef_init must have shape {shape}, got {start.shape}")
    scale = 0.5 * float(np.vdot(y, y).real)
    epochs, history, strict = 0, [], options.tol
    # at lambda_max rounding decides whether zero is feasible: it is the answer if its gap is small enough
    short = 1.0 - problem.scale
    zero = scale == 0.0 or (
        not problem.has_unpenalised and short <= problem.slack and short**2 <= options.tol and not start.any()
    )
    while True:
        if zero or (problem.target_is_feasible and not problem.has_unpenalised):
            answer = Answer(np.zeros(shape, dtype=options.dtype), 0)
        else:
            answer = options.solver(problem, y, options.rules, start, point, strict, options.max_iter - epochs)
        epochs += answer.n_epochs
        history += answer.history
        certificate = certify(problem, y, answer.coef, answer.whole_read)
        converged = certificate.gap <= options.tol * scale
        if converged or strict <= 1e-15 or epochs >= options.max_iter or options.solver is solve_convex:
            break
        strict, start, point = strict * 0.1, answer.coef, certificate.point
    if not converged:
        warnings.warn(
            f"the weighted lasso stopped at a relative duality gap of {certificate.gap / scale:.2g}, "
            f"above tol={options.tol:g}, after {epochs} epochs",
            ConvergenceWarning,
            stacklevel=3,
        )
    solution = LassoSolution(
        coef=answer.coef,
        residual=certificate.residual,
        dual_point=certificate.dual_point,
        primal=certificate.primal,
        gap=certificate.gap,
        converged=converged,
        tol=options.tol,
        lam=lam,
        n_epochs=epochs,
        passes=phi.passes,
        history=history,
    )
    return solution, certificate
