"""Random weighted-lasso problems that are hard on screening rules, and a judge of what was rejected.

`tests/reference/test_screening_safety.py` runs a slice of them, `benchmarks/screening_safety.py` all.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

import lasso_reference as reference
import numpy as np

from fastsbl.dictionary import as_dictionary
from fastsbl.screening import rule_names
from fastsbl.screening.problem import DualProblem
from fastsbl.screening.rules import find_rules

STATIC = tuple(name for name in rule_names() if find_rules(name)[0].name == name and not find_rules(name)[0].dynamic)
DYNAMIC = tuple(name for name in rule_names() if find_rules(name)[0].name == name and find_rules(name)[0].dynamic)


@dataclass(frozen=True)
class Problem:
    """One problem; ``X`` is in the precision that the rules see, ``y`` and ``limits`` in float64."""

    X: np.ndarray
    y: np.ndarray
    limits: np.ndarray
    positive: bool
    kind: str


@dataclass
class Tally:
    """What happened to one rule (at one kind of point)."""

    problems: int = 0
    columns: int = 0
    rejected: int = 0
    wrong: int = 0
    errors: int = 0
    seeds: list = field(default_factory=list)

    def add(self, other):
        self.problems += other.problems
        self.columns += other.columns
        self.rejected += other.rejected
        self.wrong += other.wrong
        self.errors += other.errors
        self.seeds = (self.seeds + other.seeds)[:5]


def log_uniform(rng, low, high, size=None):
    return np.exp(rng.uniform(np.log(low), np.log(high), size))


def _columns(rng, N, n):
    """Columns, with the name of how they were drawn."""
    kind = rng.choice(["iid", "ar.95", "ar.99", "positive", "low-rank"], p=[0.4, 0.2, 0.2, 0.1, 0.1])
    X = rng.standard_normal((N, n))
    if kind.startswith("ar"):
        rho = float(kind[2:])
        for j in range(1, n):
            X[:, j] = rho * X[:, j - 1] + np.sqrt(1 - rho**2) * X[:, j]
    elif kind == "positive":
        X = np.abs(X)
    elif kind == "low-rank":
        rank = max(1, min(N, n) // 3)
        X = X[:, :rank] @ rng.standard_normal((rank, n)) + 1e-3 * X
    norms = rng.choice(["unit", "raw", "spread"])
    if norms != "raw":
        X /= np.linalg.norm(X, axis=0)
    if norms == "spread":
        X *= log_uniform(rng, 0.1, 10.0, n)
    return X, kind


def _add_relatives(rng, X):
    """Overwrite some columns by exact, scaled, antiparallel and near copies of others."""
    N, n = X.shape
    for _ in range(rng.integers(1, max(2, n // 4))):
        i, j = rng.choice(n, 2, replace=False)
        copy = X[:, i].copy()
        change = rng.integers(5)
        if change == 1:
            copy = -copy
        elif change == 2:
            copy *= log_uniform(rng, 0.1, 10)
        elif change >= 3:
            other = rng.standard_normal(N)
            other -= copy * (copy @ other) / (copy @ copy)
            angle = log_uniform(rng, 1e-11, 1e-5) if change == 3 else log_uniform(rng, 1e-5, 1e-1)
            copy = rng.choice([-1, 1]) * (copy + angle * np.linalg.norm(copy) * other / np.linalg.norm(other))
        X[:, j] = copy


def _target(rng, X, positive):
    N, n = X.shape
    kind = rng.choice(["sparse", "noise", "column", "near column", "pair"], p=[0.5, 0.15, 0.15, 0.1, 0.1])
    signs = np.array([1.0]) if positive and rng.random() < 0.8 else np.array([-1.0, 1.0])
    if kind == "sparse":
        k = rng.integers(1, min(N, n) // 2 + 2)
        index = rng.choice(n, min(k, n), replace=False)
        y = X[:, index] @ (rng.choice(signs, index.size) * rng.uniform(0.5, 2, index.size))
        noise = rng.standard_normal(N)
        y = y + log_uniform(rng, 1e-4, 1) * np.linalg.norm(y) / np.linalg.norm(noise) * noise
    elif kind == "noise":
        y = rng.standard_normal(N)
    elif kind == "pair":
        i, j = rng.choice(n, 2, replace=False)
        y = X[:, i] + rng.choice([-1, 1]) * X[:, j]
    else:
        y = rng.choice(signs) * X[:, rng.integers(n)].copy()
        if kind == "near column":
            noise = rng.standard_normal(N)
            y = y + log_uniform(rng, 1e-14, 1e-3) * np.linalg.norm(y) / np.linalg.norm(noise) * noise
    length = np.linalg.norm(y)
    if length < 1e-6 * np.linalg.norm(X, axis=0).max():
        y, length = rng.standard_normal(N), 1.0
    return y * (log_uniform(rng, 1e-3, 1e3) / length), kind


def draw(rng) -> Problem:
    """Draw one problem."""
    N = int(log_uniform(rng, 5, 61))
    n = int(log_uniform(rng, 5, 201))
    X, kind = _columns(rng, N, n)
    if rng.random() < 0.4:
        _add_relatives(rng, X)
        kind += "+copies"
    dtype = np.float32 if rng.random() < 0.4 else np.float64
    X = np.asarray(X, dtype=dtype, order=rng.choice(["F", "C"], p=[0.8, 0.2]))
    if rng.random() < 0.05:
        X[:, rng.integers(n)] = 0.0
    exact = X.astype(np.float64)
    positive = bool(rng.random() < 0.25)
    y, target = _target(rng, exact, positive)
    norms = np.linalg.norm(exact, axis=0)
    spread = rng.choice(["unit", "spread", "norms", "narrow"])
    weights = np.ones(n)
    if spread == "spread":
        weights = log_uniform(rng, 1e-3, 1e1, n)
    elif spread == "norms":
        weights = np.maximum(norms, 1e-3 * norms.max()) * log_uniform(rng, 0.3, 1.0, n)
    elif spread == "narrow":
        weights = rng.uniform(0.3, 1.0, n)
    if rng.random() < 0.03:
        weights[rng.integers(n)] = np.inf
    if rng.random() < 0.06:
        weights[rng.choice(n, rng.integers(1, 3), replace=False)] = 0.0
        kind += "+free"
        free = exact[:, (weights == 0) & (norms > 0)]
    else:
        free = exact[:, :0]
    inner = y
    if free.shape[1] and not positive:
        inner = y - free @ np.linalg.lstsq(free, y, rcond=None)[0]
    rho = exact.T @ inner
    ratios = np.where(
        (weights > 0) & (norms > 0), (rho if positive else np.abs(rho)) / np.where(weights > 0, weights, 1), 0
    )
    top = float(ratios.max(initial=0.0))
    if not top > 1e-8 * np.linalg.norm(y) * norms.max():
        top = float(np.linalg.norm(y) * norms.max())
    choice = rng.choice(["any", "edge", "max", "tiny"], p=[0.7, 0.15, 0.08, 0.07])
    if choice == "any":
        lam = top * log_uniform(rng, 0.01, 1.2)
    elif choice == "edge":
        lam = top * (1.0 + rng.choice([-1, -1, 1]) * 10.0 ** -rng.uniform(1, 16))
    elif choice == "max":
        lam = top
    else:
        lam = top * log_uniform(rng, 1e-6, 1e-2)
    return Problem(X, y, lam * weights, positive, f"{kind}/{target}/{choice}")


def points(rng, problem, solution):
    """Coefficients to start dynamic rules from, by name: far, near, converged and awkward."""
    X, y, limits, positive = problem.X, problem.y, problem.limits, problem.positive
    n = limits.size
    yield "zero", np.zeros(n)
    yield "mid-solve", reference.descend(X, y, limits, positive=positive, n_sweeps=int(rng.integers(1, 6)))
    yield "near", reference.descend(X, y, limits, positive=positive, n_sweeps=int(log_uniform(rng, 10, 300)))
    yield "converged", solution.coef
    awkward = rng.integers(5)
    if awkward == 0:  # hardly left zero
        yield "awkward", solution.coef * log_uniform(rng, 1e-14, 1e-1)
    elif awkward == 1:  # one small step on one feature
        theta = np.zeros(n)
        norms = np.linalg.norm(X.astype(np.float64), axis=0)
        i = rng.choice(np.flatnonzero(solution.coef)) if solution.coef.any() else rng.integers(n)
        if norms[i] > 0 and np.isfinite(limits[i]):
            sign = np.sign(solution.coef[i]) or 1.0
            theta[i] = sign * log_uniform(rng, 1e-14, 1) * np.linalg.norm(y) / norms[i]
        yield "awkward", np.abs(theta) if positive else theta
    elif awkward == 2:  # nearly converged
        noise = 1.0 + log_uniform(rng, 1e-15, 1e-2) * rng.standard_normal(n)
        theta = solution.coef * noise
        yield "awkward", np.abs(theta) if positive else theta
    elif awkward == 3:  # the answer of another penalty
        warm = reference.descend(X, y, limits * rng.uniform(1.0, 2.0), positive=positive, n_sweeps=30)
        yield "awkward", warm
    else:  # nonsense
        theta = rng.standard_normal(n) * (rng.random(n) < 0.3) * np.linalg.norm(y)
        theta[~np.isfinite(limits)] = 0.0
        yield "awkward", np.abs(theta) if positive else theta


def judge(problem, solution, rejected):
    """Return the wrongly rejected features, each proved so."""
    exact = problem.X.astype(np.float64)
    found = reference.suspects(exact, problem.limits, solution, rejected, problem.positive)
    if found.size == 0:
        return found
    slack = reference.decide(exact, problem.y, problem.limits, found, start=solution.coef, positive=problem.positive)
    return found[slack <= 1e-30]


def examine(seed, totals=None, rules=None):
    """Draw the problem of one seed, run every rule on it, and add to the tallies by (rule, point)."""
    totals = defaultdict(Tally) if totals is None else totals
    rng = np.random.default_rng(seed)
    problem = draw(rng)
    solution = reference.solve(problem.X, problem.y, problem.limits, positive=problem.positive)
    phi = as_dictionary(problem.X)
    dual = DualProblem(phi, problem.y, problem.limits, positive=problem.positive)
    verdicts = {}

    def run(name, place, point):
        tally = totals[name, place]
        tally.problems += 1
        tally.columns += problem.limits.size
        try:
            rejected = find_rules(name)[0].test(dual, point).rejected
        except (ValueError, ZeroDivisionError, FloatingPointError):
            tally.errors += 1
            tally.seeds.append(seed)
            return
        tally.rejected += int(rejected.sum())
        key = rejected.tobytes()
        if key not in verdicts:
            verdicts[key] = judge(problem, solution, rejected).size
        if verdicts[key]:
            tally.wrong += verdicts[key]
            tally.seeds.append(seed)

    for name in STATIC:
        if rules is None or name in rules:
            run(name, "target only", None)
    for place, coef in points(rng, problem, solution):
        point = dual.point(coef)
        for name in DYNAMIC:
            if rules is None or name in rules:
                run(name, place, point)
    return totals
