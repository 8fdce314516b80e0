"""Run the comparison: which problems, which solvers, in which order."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fastsbl.bench import costs
from fastsbl.bench.child import run_alone
from fastsbl.bench.data import Problem, load
from fastsbl.bench.solvers import Solver
from fastsbl.bench.table import BenchReport
from fastsbl.bench.timing import LOSS_GOAL, TASKS, Plan, Row, compare, product_seconds

__all__ = ["FULL", "QUICK", "run_benchmark"]

_LASSO = (0.05, 0.1, 0.3, 0.5, 0.7)
_FEW = (0.1, 0.5)

FULL = Plan(
    quick=False,
    cases=(
        ("lasso", "mnist", _LASSO),
        ("lasso", "mnist-weighted", _LASSO),
        ("lasso", "nytimes", _LASSO),
        ("lasso", "psf", _FEW),
        ("lasso", "gaussian-1e3", _FEW),
        ("lasso", "gaussian-1e4", _FEW),
        ("lasso", "gaussian-5e4", _LASSO),
        ("lasso", "gaussian-1e5", _FEW),
        ("lasso", "gaussian-1e5-float32", _FEW),
        ("lasso", "gaussian-1e6-float32", _FEW),
        ("lasso", "ar99", _FEW),
        ("lasso", "tall", _FEW),
        ("lasso", "wide", _FEW),
        ("sbl", "mnist", (0.05, 0.01, 0.1, 0.3, 0.5)),  # what may take minutes runs at the first
        ("sbl", "mnist-small", _FEW),
        ("sbl", "nytimes", _FEW),
        ("sbl", "psf", _FEW),
        ("sbl", "gaussian-1e3", _FEW),
        ("sbl", "gaussian-1e4", _FEW),
        ("sbl", "ar99", _FEW),
        ("sbl", "kernel", _FEW),
    ),
    gaps=(1e-3, 1e-6, 1e-9),
    repeats=9,
    seconds=4.0,
    limit=20.0,
    memory=True,
    costs=True,
)

QUICK = Plan(
    quick=True,
    cases=(
        ("lasso", "mnist", _FEW),
        ("lasso", "mnist-weighted", (0.1,)),
        ("lasso", "nytimes", _FEW),
        ("lasso", "psf", (0.1,)),
        ("lasso", "gaussian-1e4", _FEW),
        ("lasso", "ar99", (0.1,)),
        ("lasso", "tall", (0.1,)),
        ("lasso", "wide", (0.1,)),
        ("sbl", "mnist", (0.1,)),
        ("sbl", "gaussian-1e3", _FEW),
        ("sbl", "kernel", (0.1,)),
    ),
    gaps=(1e-6,),
    repeats=5,
    seconds=0.7,
    limit=4.0,
    memory=False,
    costs=True,
)


def run_benchmark(
    *,
    quick: bool = False,
    only: Sequence[str] | None = None,
    progress: Callable[[str], None] | None = None,
    plan: Plan | None = None,
) -> BenchReport:
    """Compare the packages that are installed with ours, judged from outside.

    Every solver starts cold from the plain matrix. It is tuned to the loosest of its own tolerances that
    reaches the goal, then all are timed in turn, in this process and with the threads that the environment
    allows. What may take minutes runs once, in a process of its own, with a time limit.

    Parameters
    ----------
    quick : bool
        Small data sets, one goal, few repeats: under three minutes.
    only : sequence of str, optional
        Parts to run, each a task, a data set or both: "lasso", "mnist", "sbl/nytimes", "costs", "memory".
        Everything by default.
    progress : callable, optional
        Called with a line of text before each part.
    plan : Plan, optional
        Another plan than the full or the quick one.

    Returns
    -------
    BenchReport
        Rows, tables in Markdown, JSON.

    Examples
    --------
    >>> from dataclasses import replace
    >>> from fastsbl.bench import QUICK, run_benchmark
    >>> cases = (("lasso", "gaussian-1e3", (0.5,)),)
    >>> plan = replace(QUICK, cases=cases, repeats=1, costs=False, solvers=("fastsbl", "scikit-learn"))
    >>> report = run_benchmark(plan=plan)
    >>> ours = next(row for row in report.rows if row.solver == "fastsbl")
    >>> ours.status, ours.reached <= 1e-6
    ('ok', True)
    """
    plan = plan or (QUICK if quick else FULL)
    say = progress or (lambda line: None)
    wanted = _checked(only, plan)
    rows: list[Row] = []
    memory: list[dict[str, Any]] = []
    loaded: Problem | None = None
    cases = [case for case in plan.cases if _is_wanted(wanted, *case[:2])]
    for task, data, ratios in sorted(cases, key=lambda case: case[1]):  # each data set is made once
        if loaded is None or loaded.key != data:
            loaded = None
            loaded = load(data, quick=plan.quick)
        solvers = [solver for solver in TASKS[task] if plan.takes(solver) and solver.suits(loaded)]
        fast = [solver for solver in solvers if not solver.slow(loaded)]
        for ratio in ratios:
            say(f"{task}: {loaded.title}, lambda/lambda_max {ratio:g}")
            rows += compare(task, loaded, ratio, fast, plan)
            if not plan.quick and ratio == ratios[0]:
                slow = [solver for solver in solvers if solver.slow(loaded)]
                rows += [row for solver in slow for row in _slow(task, loaded, ratio, solver, rows, say)]
        if plan.memory and _is_wanted(wanted, "memory", data):
            memory += _memory(task, loaded, ratios[0], fast, rows, plan, say)
    order = {case[:2]: k for k, case in enumerate(plan.cases)}
    rows.sort(key=lambda row: (order[row.task, row.data], row.ratio, -row.goal))
    found, slope = _costs(plan, say) if plan.costs and (wanted is None or "costs" in wanted) else ([], None)
    return BenchReport(rows, found, memory, slope, _environment(), _skipped())


def _checked(only: Sequence[str] | None, plan: Plan) -> tuple[str, ...] | None:
    if only is None:
        return None
    if isinstance(only, str):
        only = (only,)
    tasks, data = {case[0] for case in plan.cases}, {case[1] for case in plan.cases}
    known = {"costs", "memory", *tasks, *data, *(f"{task}/{key}" for task, key, _ in plan.cases)}
    for part in only:
        if part not in known:
            raise ValueError(f"only must name parts of the benchmark, {', '.join(sorted(known))}; got {part!r}")
    return tuple(only)


def _is_wanted(wanted: tuple[str, ...] | None, task: str, data: str) -> bool:
    if wanted is None:
        return True
    if task == "memory":
        return "memory" in wanted
    parts = [part for part in wanted if part not in ("memory", "costs")]
    if not parts:
        return "memory" in wanted
    return bool({task, data, f"{task}/{data}"} & set(parts))


def _slow(
    task: str, problem: Problem, ratio: float, solver: Solver, rows: list[Row], say: Callable[[str], None]
) -> list[Row]:
    """One call in a process of its own."""
    limit = 300.0
    say(f"{task}: {problem.title}, {ratio:g}: {solver.name} alone, at most {limit:.0f} s")
    tol = 1e-4 if task == "sbl" else 1e-6
    found = run_alone(task, problem.key, solver.name, ratio, tol, quick=False, limit=limit)
    mine = [row for row in rows if (row.task, row.data, row.ratio, row.solver) == (task, problem.key, ratio, "fastsbl")]
    goal = LOSS_GOAL if task == "sbl" else 1e-6
    row = Row(
        task, problem.key, problem.title, ratio, goal, solver.name, solver.version, "slow", tol=tol, seconds=limit,
        calls=1, product=mine[0].product if mine else product_seconds(problem),
        note="one call in a process of its own", n_features=problem.shape[1],
    )  # fmt: skip
    if found is None:
        return [row]
    if "error" in found:
        return [replace(row, status="failed", seconds=None, note=found["error"])]
    value = found["value"]
    if task == "sbl":
        from fastsbl.bench import judge

        lam = ratio * problem.lambda_max
        ours = next(other for other in TASKS[task] if other.name == "fastsbl").solve(problem, lam, 1e-6)
        best = judge.loss(problem.matrix, problem.y, lam, ours.values)
        value = value - best
        reached = value <= LOSS_GOAL * max(1.0, abs(best))
    else:
        reached = value <= goal
    return [replace(row, status="ok" if reached else "short", seconds=found["seconds"], reached=value)]


def _memory(
    task: str,
    problem: Problem,
    ratio: float,
    solvers: list[Solver],
    rows: list[Row],
    plan: Plan,
    say: Callable[[str], None],
) -> list[dict[str, Any]]:
    """Peak memory of each solver at the tolerance that the timing found, in fresh processes."""
    found = []
    for solver in solvers:
        done = [
            row
            for row in rows
            if (row.task, row.data, row.ratio, row.solver) == (task, problem.key, ratio, solver.name)
            and row.status == "ok"
            and row.tol is not None
        ]
        if not done:
            continue
        say(f"memory: {problem.title}, {solver.name}")
        tol = min(row.tol for row in done if row.tol is not None)
        answer = run_alone(task, problem.key, solver.name, ratio, tol, quick=plan.quick, limit=10 * plan.limit)
        if answer is not None and answer.get("peak"):
            found.append(
                {
                    "task": task,
                    "data": problem.key,
                    "title": problem.title,
                    "solver": solver.name,
                    "matrix": answer["matrix"],
                    "peak": answer["peak"],
                }
            )
    return found


def _costs(plan: Plan, say: Callable[[str], None]) -> tuple[list[costs.Cost], float | None]:
    say("costs: digits one by one")
    found = costs.many_targets(4 if plan.quick else 20)
    say("costs: a batch")
    found += costs.batch(20 if plan.quick else 100)
    say("costs: growth with n")
    grown, slope = costs.growth(10_000 if plan.quick else 1_000_000, seeds=1 if plan.quick else 3)
    return found + grown, slope


def _solvers() -> list[Solver]:
    """One solver for each package."""
    return list({solver.package: solver for task in TASKS.values() for solver in task}.values())


def _environment() -> dict[str, Any]:
    import numba
    import scipy

    versions = {"numpy": np.__version__, "scipy": scipy.__version__, "numba": numba.__version__}
    versions.update({solver.package: solver.version for solver in _solvers() if solver.installed})
    threads = ", ".join(f"{name}={os.environ[name]}" for name in _THREADS if name in os.environ)
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cores": os.cpu_count(),
        "threads": threads or "as many as cores",
        "versions": versions,
    }


_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def _skipped() -> list[str]:
    return [
        f"{solver.package} is not installed (pip install {solver.package})"
        for solver in _solvers()
        if not solver.installed
    ]
