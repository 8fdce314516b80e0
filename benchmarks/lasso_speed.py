"""The weighted lasso beside the packages a user could pick instead, in one run, judged from outside.

celer, skglm and scikit-learn each solve the same problems from a cold start; whichever is not installed is left out.
(adelie is left out: it pins numpy < 2 and would need an environment of its own.) The packages stop by different
rules, so each solver's own tolerance is tightened by decades until the relative duality gap that THIS script
computes, gap / (0.5 ||y||^2), is at most 1e-6; that setting is then timed, all solvers in turn, several times over.
scikit-learn has no weights: its columns are divided by them beforehand, outside the clock. Every call gets the
plain matrix, so nothing is carried over between calls, neither norms nor products.

    python benchmarks/lasso_speed.py                       # everything: some minutes
    python benchmarks/lasso_speed.py --quick               # small versions of the problems: a smoke test
    python benchmarks/lasso_speed.py --data mnist gaussian --ratios 0.1 0.5 --json speed.json
    python benchmarks/lasso_speed.py --screening           # screening on against off, at least 30 interleaved pairs

MNIST and the New York Times counts are read from the folder that FASTSBL_DATA names.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import json
import os
import platform
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from fastsbl.datasets import digits_dictionary, fetch_bag_of_words, fetch_mnist, load_small_digits, mnist_dictionary
from fastsbl.lasso import lambda_max, solve_weighted_lasso

GAP = 1e-6
RATIOS = (0.05, 0.1, 0.3, 0.5, 0.7)
TOLERANCES = tuple(10.0**-k for k in range(3, 16))
SLOWEST = 60.0  # seconds: a solver that needs more for one solve is not tightened further


# -- problems --------------------------------------------------------------------------------------


@dataclass
class Problem:
    """A matrix, a target and weights; `matrix` is Fortran-ordered or CSC, as all packages like it best."""

    name: str
    matrix: Any
    y: np.ndarray
    weights: np.ndarray

    @property
    def weighted(self) -> bool:
        return bool((self.weights != 1).any())

    @cached_property
    def scaled(self) -> Any:
        """Columns divided by their weights, for packages without weights."""
        if not self.weighted:
            return self.matrix
        if sparse.issparse(self.matrix):
            return sparse.csc_matrix(self.matrix @ sparse.diags_array(1 / self.weights))
        return np.asfortranarray(self.matrix / self.weights)

    @cached_property
    def largest(self) -> float:
        return lambda_max(self.matrix, self.y, self.weights)

    def gap(self, lam: float, coef: np.ndarray) -> float:
        """Relative duality gap, from the definition: the residual, scaled to the best feasible multiple."""
        residual = self.y - self.matrix @ coef
        primal = 0.5 * residual @ residual + lam * self.weights @ np.abs(coef)
        ratio = np.max(np.abs(self.matrix.T @ residual) / (lam * self.weights))
        scale = min(residual @ self.y / (residual @ residual), 1 / ratio)
        dual = 0.5 * self.y @ self.y - 0.5 * np.sum((scale * residual - self.y) ** 2)
        return float((primal - dual) / (0.5 * self.y @ self.y))

    def product_seconds(self) -> float:
        """Median time of one product with the transposed matrix."""
        times = []
        for _ in range(31):
            start = time.perf_counter()
            self.matrix.T @ self.y
            times.append(time.perf_counter() - start)
        return float(np.median(times))


def with_weights(name: str, matrix: Any, y: np.ndarray, kinds: tuple[str, ...]) -> list[Problem]:
    n = matrix.shape[1]
    drawn = {"unit": np.ones(n), "U(.3,1)": np.random.default_rng(0).uniform(0.3, 1.0, n)}
    return [Problem(f"{name}, weights {kind}", matrix, y, drawn[kind]) for kind in kinds]


def load_mnist(quick: bool) -> list[Problem]:
    try:
        bunch = fetch_mnist()
        matrix = mnist_dictionary(bunch, 100 if quick else 1000).matrix
        name = f"MNIST {matrix.shape[0]} x {matrix.shape[1]}"
    except FileNotFoundError as error:
        if not quick:
            raise
        print(f"MNIST is not here, using the bundled digits instead ({str(error)[:60]}...)")
        bunch = load_small_digits()
        matrix = digits_dictionary().matrix
        name = "digits 64 x 1000"
    y = bunch.test_images[7].ravel().astype(np.float64)
    return with_weights(name, matrix, y / np.linalg.norm(y), ("unit", "U(.3,1)"))


def load_nytimes(quick: bool) -> list[Problem]:
    counts = fetch_bag_of_words("nyt8447").counts.astype(np.float64)  # documents x words
    if quick:
        counts = counts[:1500]
    matrix = sparse.csc_matrix(counts[1:].T)
    y = counts[[0]].toarray().ravel()  # the first document is the target, the others are the columns
    return with_weights(f"NYT counts {matrix.shape[0]} x {matrix.shape[1]}", matrix, y, ("unit",))


def load_gaussian(quick: bool) -> list[Problem]:
    shape = (200, 5000) if quick else (1000, 50_000)
    rng = np.random.default_rng(0)
    matrix = np.asfortranarray(rng.standard_normal(shape[::-1]).T)
    coef = np.zeros(shape[1])
    coef[rng.choice(shape[1], shape[0] // 20, replace=False)] = rng.standard_normal(shape[0] // 20)
    y = matrix @ coef
    y += 0.1 * np.linalg.norm(y) / np.sqrt(shape[0]) * rng.standard_normal(shape[0])
    return with_weights(f"Gaussian {shape[0]} x {shape[1]}", matrix, y, ("unit",))


DATA: dict[str, Callable[[bool], list[Problem]]] = {
    "mnist": load_mnist,
    "nytimes": load_nytimes,
    "gaussian": load_gaussian,
}


# -- solvers: (problem, lam, tol) -> coefficients --------------------------------------------------


def by_fastsbl(problem: Problem, lam: float, tol: float) -> np.ndarray:
    return solve_weighted_lasso(problem.matrix, problem.y, lam, problem.weights, tol=tol).coef


def by_celer(problem: Problem, lam: float, tol: float) -> np.ndarray:
    import celer

    weights = problem.weights if problem.weighted else None
    model = celer.Lasso(lam / problem.y.size, weights=weights, fit_intercept=False, tol=tol)
    return model.fit(problem.matrix, problem.y).coef_


def by_skglm(problem: Problem, lam: float, tol: float) -> np.ndarray:
    import skglm

    alpha = lam / problem.y.size
    if problem.weighted:
        model = skglm.WeightedLasso(alpha, weights=problem.weights, fit_intercept=False, tol=tol)
    else:
        model = skglm.Lasso(alpha, fit_intercept=False, tol=tol)
    return model.fit(problem.matrix, problem.y).coef_


def by_sklearn(problem: Problem, lam: float, tol: float) -> np.ndarray:
    from sklearn.linear_model import Lasso

    model = Lasso(lam / problem.y.size, fit_intercept=False, tol=tol, max_iter=100_000, copy_X=False)
    return model.fit(problem.scaled, problem.y).coef_


SOLVERS = {"fastsbl": by_fastsbl, "celer": by_celer, "skglm": by_skglm, "sklearn": by_sklearn}


def unscaled(problem: Problem, solver: str, coef: np.ndarray) -> np.ndarray:
    return coef / problem.weights if solver == "sklearn" and problem.weighted else coef


# -- measuring -------------------------------------------------------------------------------------


def tune(problem: Problem, lam: float, solver: str) -> tuple[float, float] | None:
    """The loosest tolerance at which the gap from outside is small enough, and that gap."""
    for tol in TOLERANCES:
        start = time.perf_counter()
        coef = unscaled(problem, solver, SOLVERS[solver](problem, lam, tol))
        gap = problem.gap(lam, coef)
        if gap <= GAP:
            return tol, gap
        if time.perf_counter() - start > SLOWEST:
            break
    return None


def compare(problem: Problem, ratio: float, solvers: list[str], repeats: int) -> dict[str, Any]:
    """Time all solvers in turn at the same gap."""
    lam = ratio * problem.largest
    tuned = {solver: tune(problem, lam, solver) for solver in solvers}
    able = [solver for solver in solvers if tuned[solver] is not None]
    times: dict[str, list[float]] = {solver: [] for solver in able}
    for k in range(repeats):
        for solver in able[k % len(able) :] + able[: k % len(able)]:
            start = time.perf_counter()
            SOLVERS[solver](problem, lam, tuned[solver][0])
            times[solver].append(time.perf_counter() - start)
    row: dict[str, Any] = {"problem": problem.name, "ratio": ratio, "solvers": {}}
    for solver in solvers:
        if tuned[solver] is None:
            row["solvers"][solver] = None
            continue
        low, median, high = np.percentile(times[solver], [25, 50, 75])
        row["solvers"][solver] = {
            "median": median,
            "quartiles": [low, high],
            "tol": tuned[solver][0],
            "gap": tuned[solver][1],
        }
    peers = [row["solvers"][s]["median"] for s in able if s != "fastsbl"]
    if peers and "fastsbl" in able:
        row["best_peer_over_ours"] = min(peers) / row["solvers"]["fastsbl"]["median"]
    return row


def show(row: dict[str, Any]) -> None:
    cells = []
    for solver, got in row["solvers"].items():
        if got is None:
            cells.append(f"{solver} did not reach the gap")
            continue
        low, high = got["quartiles"]
        cells.append(f"{solver} {1e3 * got['median']:.2f} [{1e3 * low:.2f}, {1e3 * high:.2f}] at {got['tol']:.0e}")
    speed = row.get("best_peer_over_ours")
    print(f"  {row['ratio']:<5g} " + "   ".join(cells) + (f"   best peer / ours {speed:.2f}" if speed else ""))


def bootstrap_median(values: np.ndarray, draws: int = 5000) -> tuple[float, float, float]:
    """Median and its 95 % interval."""
    rng = np.random.default_rng(0)
    medians = np.median(rng.choice(values, (draws, values.size)), axis=1)
    low, high = np.percentile(medians, [2.5, 97.5])
    return float(np.median(values)), float(low), float(high)


def screening_pairs(problem: Problem, ratio: float, solver: str, rule: str, pairs: int) -> dict[str, Any]:
    """Time off / time on for interleaved pairs whose order is drawn anew each time."""
    lam = ratio * problem.largest
    rng = np.random.default_rng(0)

    def seconds(screening: str | None) -> float:
        start = time.perf_counter()
        solve_weighted_lasso(problem.matrix, problem.y, lam, problem.weights, solver=solver, screening=screening)
        return time.perf_counter() - start

    for screening in (rule, None):  # compiled and warm before the clock counts
        seconds(screening)
    on, off = [], []
    for _ in range(pairs):
        order = [(rule, on), (None, off)]
        for screening, times in order if rng.random() < 0.5 else order[::-1]:
            times.append(seconds(screening))
    median, low, high = bootstrap_median(np.array(off) / np.array(on))
    solution = solve_weighted_lasso(problem.matrix, problem.y, lam, problem.weights, solver=solver, screening=rule)
    rejected = solution.history[-1]["rejected"] if solution.history else {}
    return {
        "problem": problem.name,
        "ratio": ratio,
        "solver": solver,
        "rule": rule,
        "pairs": pairs,
        "on": float(np.median(on)),
        "off": float(np.median(off)),
        "off_over_on": median,
        "interval": [low, high],
        "rejected": rejected,
    }


def show_screening(row: dict[str, Any]) -> None:
    low, high = row["interval"]
    rejected = ", ".join(f"{rule} {100 * share:.1f} %" for rule, share in row["rejected"].items())
    print(
        f"  {row['ratio']:<5g} {row['solver']:<12} on {1e3 * row['on']:9.2f} off {1e3 * row['off']:9.2f}"
        f"   off / on {row['off_over_on']:.3f} [{low:.3f}, {high:.3f}]   rejected at the end: {rejected or 'n/a'}"
    )


def machine() -> dict[str, Any]:
    packages = ("numpy", "scipy", "numba", "celer", "skglm", "scikit-learn", "cvxpy")
    versions = {}
    for name in packages:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = None
    threads = {name: os.environ.get(name) for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")}
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cores": os.cpu_count(),
        "threads": threads,
        "versions": versions,
    }


def run_peers(args: argparse.Namespace) -> list[dict[str, Any]]:
    modules = {"celer": "celer", "skglm": "skglm", "sklearn": "sklearn"}
    solvers = ["fastsbl"]
    for solver, module in modules.items():
        if importlib.util.find_spec(module):
            solvers.append(solver)
        else:
            print(f"{solver} is not installed and is left out")
    rows = []
    for problem in load(args):
        print(f"{problem.name}: one product Phi'r {1e3 * problem.product_seconds():.3f} ms; times in ms [quartiles]")
        for ratio in args.ratios:
            row = compare(problem, ratio, solvers, args.repeats)
            row["product_seconds"] = problem.product_seconds()
            show(row)
            rows.append(row)
    return rows


def run_screening(args: argparse.Namespace) -> list[dict[str, Any]]:
    if args.pairs < 30:
        print(f"only {args.pairs} pairs: a smoke test, not a measurement")
    rows = []
    for problem in load(args):
        print(f"{problem.name}: screening {args.rule!r} on against off, {args.pairs} pairs; medians in ms")
        for ratio in args.ratios:
            for solver in ("working-set", "cd"):
                row = screening_pairs(problem, ratio, solver, args.rule, args.pairs)
                show_screening(row)
                rows.append(row)
    if importlib.util.find_spec("cvxpy"):
        rng = np.random.default_rng(0)
        shape = (50, 200) if args.quick else (100, 1000)
        matrix = np.asfortranarray(rng.standard_normal(shape))
        matrix /= np.linalg.norm(matrix, axis=0)
        y = matrix[:, :5] @ rng.standard_normal(5) + 0.02 * rng.standard_normal(shape[0])
        problem = Problem(f"Gaussian {shape[0]} x {shape[1]}", matrix, y, np.ones(shape[1]))
        print(f"{problem.name}: screening 'two_hyperplanes' on against off for a general convex solver")
        for ratio in (0.5, 0.7, 0.9):
            row = screening_pairs(problem, ratio, "cvxpy", "two_hyperplanes", args.pairs)
            show_screening(row)
            rows.append(row)
    else:
        print("CVXPY is not installed and is left out")
    return rows


def load(args: argparse.Namespace) -> list[Problem]:
    problems: list[Problem] = []
    for name in args.data:
        try:
            problems += DATA[name](args.quick)
        except FileNotFoundError as error:
            print(f"{name} is left out: {str(error)[:200]}")
    return problems


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", nargs="+", choices=tuple(DATA), default=list(DATA))
    parser.add_argument("--ratios", nargs="+", type=float, help="values of lambda / lambda_max")
    parser.add_argument("--repeats", type=int, help="how often each solver is timed (15, or 3 with --quick)")
    parser.add_argument("--screening", action="store_true", help="screening on against off instead of peers")
    parser.add_argument("--rule", default="holder", help="which screening rule (holder)")
    parser.add_argument("--pairs", type=int, help="pairs for --screening (40, or 5 with --quick)")
    parser.add_argument("--quick", action="store_true", help="small problems, few repeats")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything there as well")
    args = parser.parse_args()
    args.ratios = args.ratios or ((0.1, 0.5) if args.quick else RATIOS)
    args.repeats = args.repeats or (3 if args.quick else 15)
    args.pairs = args.pairs or (5 if args.quick else 40)
    about = machine()
    print(f"Python {about['python']}, {about['cores']} cores, threads {about['threads']}")
    print(", ".join(f"{name} {version or 'absent'}" for name, version in about["versions"].items()))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # loose tolerances are tried on purpose, and judged by the gap
        rows = run_screening(args) if args.screening else run_peers(args)
    if args.json:
        kind = "screening" if args.screening else "peers"
        args.json.write_text(json.dumps({"machine": about, "kind": kind, "rows": rows}, indent=1), encoding="utf-8")
        print(f"written to {args.json}")


if __name__ == "__main__":
    main()
