"""What the screening study measures in one unit."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np

from fastsbl._base.types import BoolArray, FloatArray
from fastsbl.dictionary import as_dictionary
from fastsbl.lasso import solve_weighted_lasso
from fastsbl.sbl import SBLResult, fit_sbl, loss
from fastsbl.sbl.evidence import largest_variance
from fastsbl.sbl.model import SupportModel, weights_of_all
from fastsbl.screening.problem import DualProblem
from fastsbl.screening.rules import Rule, find_rules
from fastsbl.studies.study import Record

__all__ = ["TIMINGS", "count_rejections", "time_fits", "warm_up"]

TIMINGS = frozenset(
    {"t_scr", "t_red", "t_r", "t_ori", "t_ratio", "t_ratios", "fit_with", "fit_without", "fit_ratio", "fit_ratios"}
)

_TOL = 1e-4
_MOST_ITERATIONS = 1_000
_INNER_TOL = 1e-12


def count_rejections(matrix: Any, y: FloatArray, ratio: float, init: str, rules: tuple[str, ...]) -> list[Record]:
    """Run Algorithm 1 and apply every rule to each weighted lasso, before it is solved.

    Rules that need coefficients get those of the iteration before. One record for each outer iteration.
    """
    phi = as_dictionary(matrix)
    norms, products = phi.norms_and_correlations(y)
    largest = float(np.abs(products).max())
    lam = ratio * largest
    weights = np.where(norms > 0, 1.0, 0.0) if init == "unit" else norms / np.sqrt(lam)
    coef = np.zeros(norms.size)
    gamma, before = np.zeros(norms.size), np.zeros(norms.size)
    threshold = largest_variance(products, norms, y)
    base = {"y_norm": float(np.linalg.norm(y)), "lam": lam, "lam_sbl_max": threshold}
    records: list[Record] = []
    for iteration in range(1, _MOST_ITERATIONS + 1):
        limits = lam * weights
        problem = DualProblem(phi, y, np.where(norms > 0, limits, np.inf), norms=norms, correlations=products)
        point = problem.point(coef)
        record: Record = {"iteration": iteration}
        tested: dict[Rule, BoolArray] = {}
        for name in rules:
            parts = find_rules(name)
            for rule in parts:
                if rule not in tested:
                    tested[rule] = rule.test(problem, point if rule.dynamic and coef.any() else None).rejected
            record[f"rejected {name}"] = float(np.logical_or.reduce([tested[rule] for rule in parts]).mean())
        solution = solve_weighted_lasso(phi, y, lam, weights, coef_init=coef, tol=_INNER_TOL, screening=None)
        coef = solution.coef
        gamma = np.divide(np.abs(coef), weights, out=np.zeros(coef.size), where=weights > 0)
        used = np.flatnonzero(gamma)
        record |= {"rejectable": float(np.mean(coef == 0)), "support": int(used.size)}
        records.append({**base, **record, "loss": loss(phi, y, gamma, lam)})
        sizes = gamma * norms**2
        change = float(np.max(np.abs(sizes - before), initial=0.0)) / float(sizes.max()) if used.size else 0.0
        if change <= _TOL and (used.size > 0 or lam >= threshold):
            break
        before = sizes
        rows = phi.columns(used).T
        weights = weights_of_all(phi, SupportModel(rows, rows @ rows.T, gamma[used], lam))
    return [{**record, "iterations": len(records)} for record in records]


def time_fits(
    matrix: Any, y: FloatArray, ratio: float, init: str, solver: str, rules: tuple[str, ...], pairs: int
) -> list[Record]:
    """Fit without and with each rule in turn, and compare times and answers; one record for each rule.

    In every round each rule is timed once, and so is the fit without screening that all of them are compared with; the
    round after goes the other way round. ``t_ori`` is what the inner problems take without screening, ``t_r = t_scr +
    t_red`` with it, ``t_scr`` being the tests: the paper's times, medians over the rounds. ``fit_with`` and
    ``fit_without`` are whole fits. With solver "working-set" bounds are on with screening and off without; the inner
    problems cannot be told apart there, and only whole fits are timed. Each fit gets a fresh dictionary, so that norms
    and products of another are not there.
    """
    lam = ratio * float(np.abs(matrix.T @ y).max())
    runs: list[list[_Run]] = [[] for _ in range(1 + len(rules))]
    for pair in range(pairs):
        turns = list(enumerate(("none", *rules)))
        for place, rule in reversed(turns) if pair % 2 else turns:
            runs[place].append(_fit(matrix, y, lam, init, solver, rule))
    base = {"y_norm": float(np.linalg.norm(y)), "lam": lam}
    inner = solver != "working-set"
    return [
        {**base, "rule": rule, **_compare(screened, runs[0], inner=inner)}
        for rule, screened in zip(rules, runs[1:], strict=True)
    ]


def _compare(screened: list[_Run], plain: list[_Run], *, inner: bool) -> Record:
    """Times and answers of fits with a rule beside those without."""
    result, other = screened[-1].result, plain[-1].result
    n = result.coef.size
    shares = [max(entry["rejected"].values(), default=None) for entry in result.history]
    known = [share for share in shares if share is not None]
    return {
        **_compare_times(screened, plain, inner=inner),
        "difference": float(np.abs(other.coef - result.coef).max(initial=0.0)),
        "largest_coef": float(np.abs(other.coef).max(initial=0.0)),
        "same_support": bool(np.array_equal(other.support, result.support)),
        "loss_without": other.loss,
        "loss_with": result.loss,
        "support": int(result.support.size),
        "iterations_without": other.n_iter,
        "iterations_with": result.n_iter,
        "passes_without": plain[-1].passes,
        "passes_with": screened[-1].passes,
        "rejected_mean": float(np.mean(known)) if known else None,
        "rejected_by_iteration": shares,
        "looked_at_mean": float(np.mean([min(entry["singles"] / n, 1.0) for entry in result.history])),
        "converged": bool(result.converged and other.converged),
    }


class _Run(NamedTuple):
    result: SBLResult
    seconds: float
    solving: float
    screening: float
    passes: float


def _compare_times(screened: list[_Run], plain: list[_Run], *, inner: bool) -> Record:
    def median(values: list[float]) -> float:
        return float(np.median(values))

    fits = [run.seconds / other.seconds for run, other in zip(screened, plain, strict=True)]
    record: Record = {
        "fit_with": median([run.seconds for run in screened]),
        "fit_without": median([run.seconds for run in plain]),
        "fit_ratio": median(fits),
        "fit_ratios": fits,
        "t_scr": median([run.screening for run in screened]),
    }
    if inner and all(run.solving > 0.0 for run in (*screened, *plain)):
        ratios = [run.solving / other.solving for run, other in zip(screened, plain, strict=True)]
        t_r = median([run.solving for run in screened])
        record |= {
            "t_red": t_r - record["t_scr"],
            "t_r": t_r,
            "t_ori": median([run.solving for run in plain]),
            "t_ratio": median(ratios),
            "t_ratios": ratios,
        }
    return record


def _fit(matrix: Any, y: FloatArray, lam: float, init: str, solver: str, rule: str) -> _Run:
    """Fit once; screening and bounds are both on, or (rule "none") both off.

    Times are processor times of this thread, which other programs on the machine do not lengthen much.
    """
    phi = as_dictionary(matrix)
    screened = rule != "none"
    start = time.thread_time()
    result = fit_sbl(
        phi,
        y,
        lam,
        init=init,
        solver=solver,
        screening=rule if screened else None,
        bounds=screened,
        tol=_TOL,
        max_iter=_MOST_ITERATIONS,
    )
    seconds = time.thread_time() - start
    return _Run(result, seconds, phi.seconds_in("solving"), phi.seconds_in("screening"), phi.passes)


def warm_up(matrix: Any, y: FloatArray, solvers: set[str]) -> None:
    """Fit a little problem of the same kind once, so that no timing holds a compilation or an import."""
    few = matrix[:, :50]
    largest = float(np.abs(few.T @ y).max())
    for solver in sorted(solvers):
        for rule in ("none", "gap_sphere", "dome", "auto"):
            _fit(few, y, 0.3 * largest, "unit", solver, rule)
