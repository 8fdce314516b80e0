"""Tune every solver to the same quality, then time all of them in turn."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from fastsbl.bench import judge
from fastsbl.bench.data import Problem
from fastsbl.bench.lasso import LASSO_SOLVERS
from fastsbl.bench.sbl import SBL_SOLVERS
from fastsbl.bench.solvers import Answer, Solver, quiet

__all__ = ["TASKS", "Plan", "Row", "compare", "evaluate", "product_seconds"]

TASKS: dict[str, tuple[Solver, ...]] = {"lasso": LASSO_SOLVERS, "sbl": SBL_SOLVERS}
_TOLERANCES = tuple(10.0**-k for k in range(3, 16))
LOSS_GOAL = 1e-6  # relative to |Loss|, or absolute where that is below 1


@dataclass(frozen=True)
class Plan:
    """How much is measured.

    Attributes
    ----------
    quick : bool
        Small versions of the data sets.
    cases : tuple of (task, data set, ratios)
        What is compared, at which values of lambda / lambda_max.
    gaps : tuple of float
        Relative duality gaps that a lasso is timed to.
    repeats : int
        Timed calls of each solver, fewer if they would take longer than ``seconds``.
    seconds : float
        For all calls of one solver to one goal.
    limit : float
        A solver that takes longer than this for one call is left at that.
    memory : bool
        Whether peak memory is measured, in fresh processes.
    costs : bool
        Whether passes over many targets, batches and growth with n are measured.
    solvers : tuple of str, optional
        Which solvers take part, by name; all that are installed by default.
    """

    quick: bool
    cases: tuple[tuple[str, str, tuple[float, ...]], ...]
    gaps: tuple[float, ...]
    repeats: int
    seconds: float
    limit: float
    memory: bool
    costs: bool
    solvers: tuple[str, ...] | None = None

    def takes(self, solver: Solver) -> bool:
        """Whether a solver takes part."""
        return solver.installed and (self.solvers is None or solver.name in self.solvers)


@dataclass(frozen=True)
class Row:
    """One solver on one problem to one goal.

    Attributes
    ----------
    task, data, title, ratio, goal : str, str, str, float, float
        The problem; ``goal`` is a relative gap, or a distance from the lowest Loss.
    solver, version : str
        Who.
    status : {"ok", "short", "slow", "failed"}
        Whether it got there, stopped short of it at any tolerance, took too long or raised an error.
    reached : float or None
        Gap, or distance from the lowest Loss, judged from outside.
    tol : float or None
        Its own tolerance that led there.
    seconds, low, high : float or None
        Median and quartiles of the timed calls; what was spent when it was stopped, if it is slow.
    calls : int
        Timed calls.
    passes : float or None
        Reads of the matrix, if counted.
    product : float
        Seconds of one product with the transposed matrix.
    note : str
        What else there is to say.
    n_features : int
        Columns of the matrix.
    """

    task: str
    data: str
    title: str
    ratio: float
    goal: float
    solver: str
    version: str
    status: str
    reached: float | None = None
    tol: float | None = None
    seconds: float | None = None
    low: float | None = None
    high: float | None = None
    calls: int = 0
    passes: float | None = None
    product: float = 0.0
    note: str = ""
    n_features: int = 0

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)


def evaluate(task: str, problem: Problem, lam: float, answer: Answer) -> float:
    """Relative gap of a lasso, Loss of a sparse Bayesian fit."""
    if task == "lasso":
        return judge.relative_gap(problem.matrix, problem.y, lam, answer.values, problem.weights)
    return judge.loss(problem.matrix, problem.y, lam, answer.values)


def product_seconds(problem: Problem) -> float:
    """Median time of one product with the transposed matrix, as numpy or scipy make it."""
    vector = problem.y.astype(problem.matrix.dtype)
    times: list[float] = []
    started = time.perf_counter()
    while len(times) < 3 or (len(times) < 15 and time.perf_counter() - started < 1.0):
        start = time.perf_counter()
        problem.matrix.T @ vector
        times.append(time.perf_counter() - start)
    return float(np.median(times))


class _Trials:
    """Calls of one solver on one problem at ever stricter tolerances, each made once."""

    def __init__(self, task: str, solver: Solver, problem: Problem, lam: float, limit: float) -> None:
        self.solver = solver
        self.spent: dict[float, float] = {}
        self.values: dict[float, float] = {}
        self.passes: dict[float, float | None] = {}
        self.stopped = ""
        self._call: Callable[[float], Answer] = lambda tol: solver.solve(problem, lam, tol)
        self._judge: Callable[[Answer], float] = lambda answer: evaluate(task, problem, lam, answer)
        self._limit = limit

    def call(self, tol: float) -> Answer:
        """One call, without warnings."""
        answer: Answer = quiet(lambda: self._call(tol))
        return answer

    def until(self, good: Callable[[float], bool]) -> float | None:
        """The loosest tolerance whose answer is good, or None."""
        for tol in _TOLERANCES:
            if tol not in self.values:
                if self.stopped:
                    return None
                self._try(tol)
            if tol in self.values and good(self.values[tol]):
                return tol
        return None

    def settle(self) -> None:
        """Call at ever stricter tolerances until the value stays as it is."""
        for tol in _TOLERANCES[:6]:
            before = min(self.values.values(), default=np.inf)
            self._try(tol)
            if self.stopped or before - self.values[tol] < 1e-2 * LOSS_GOAL:
                return

    def _try(self, tol: float) -> None:
        start = time.perf_counter()
        try:
            answer = self.call(tol)
        except Exception as error:  # another package's failure is a result of the comparison
            self.stopped = f"{type(error).__name__}: {str(error)[:120]}"
            return
        spent = time.perf_counter() - start
        self.values[tol], self.spent[tol], self.passes[tol] = self._judge(answer), spent, answer.passes
        if sum(self.spent.values()) > self._limit:
            self.stopped = f"stopped at tolerance {tol:g} after {spent:.3g} s for one call"


def compare(
    task: str,
    problem: Problem,
    ratio: float,
    solvers: Sequence[Solver],
    plan: Plan,
    known_loss: float = np.inf,
) -> list[Row]:
    """All solvers on one problem to each goal, timed in turn; ``known_loss`` is a Loss found elsewhere."""
    lam = ratio * problem.lambda_max
    trials = [_Trials(task, solver, problem, lam, plan.limit) for solver in solvers]
    product = product_seconds(problem)
    rows: list[Row] = []
    if task == "lasso":
        for goal in plan.gaps:
            tuned = [trial.until(lambda value, goal=goal: value <= goal) for trial in trials]  # type: ignore[misc]
            rows += _timed(task, problem, ratio, goal, 0.0, trials, tuned, product, plan)
        return rows
    for trial in trials:
        trial.settle()
    best = min([known_loss, *(value for trial in trials for value in trial.values.values())])
    near = LOSS_GOAL * max(1.0, abs(best))
    tuned = [trial.until(lambda value: value <= best + near) for trial in trials]
    return _timed(task, problem, ratio, LOSS_GOAL, best, trials, tuned, product, plan)


def _timed(
    task: str,
    problem: Problem,
    ratio: float,
    goal: float,
    best: float,
    trials: list[_Trials],
    tuned: list[float | None],
    product: float,
    plan: Plan,
) -> list[Row]:
    able = [(trial, tol) for trial, tol in zip(trials, tuned, strict=True) if tol is not None]
    wanted = {
        id(trial): int(np.clip(plan.seconds / max(trial.spent[tol], 1e-9), 3, plan.repeats))
        if trial.spent[tol] < plan.limit
        else 0
        for trial, tol in able
    }
    times: dict[int, list[float]] = {id(trial): [] for trial, _ in able}
    for k in range(plan.repeats):
        turn = k % max(len(able), 1)
        for trial, tol in able[turn:] + able[:turn]:
            if k < wanted[id(trial)]:
                start = time.perf_counter()
                trial.call(tol)
                times[id(trial)].append(time.perf_counter() - start)
    rows = []
    for trial, best_tol in zip(trials, tuned, strict=True):
        who = trial.solver
        row = Row(
            task, problem.key, problem.title, ratio, goal, who.name, who.version, "ok", product=product,
            n_features=problem.shape[1],
        )  # fmt: skip
        if best_tol is not None:
            spent = times[id(trial)] or [trial.spent[best_tol]]
            low, median, high = np.percentile(spent, [25, 50, 75])
            reached = max(trial.values[best_tol] - best, 0.0)
            row = replace(
                row, reached=reached, tol=best_tol, seconds=float(median), low=float(low), high=float(high),
                calls=len(spent), passes=trial.passes[best_tol],
            )  # fmt: skip
        elif trial.values:
            last = min(trial.values)
            reached = min(trial.values.values()) - best
            slow = trial.stopped.startswith("stopped")
            row = replace(
                row, status="slow" if slow else "short", reached=float(reached), tol=last,
                seconds=trial.spent[last], note=trial.stopped,
            )  # fmt: skip
        else:
            row = replace(row, status="failed", note=trial.stopped)
        rows.append(row)
    return rows
