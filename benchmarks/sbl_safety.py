"""Do bounds, screening or caches ever change a sparse Bayesian fit? Many random problems made to be hard.

The problems of `screening_safety.py` (correlated, low-rank and nearly equal columns, norms spread 100x, targets along a
column, float32 and float64), noise variances from 1e-4 to 1.2 times the largest useful one, both starts, both signs
and positive. Each is fitted three times: as usual; with every weight and product computed in full
(``bounds=False, screening=None``); and in a batch with two other targets. The answers are judged by dense linear
algebra, from gamma alone:

- descent: the objective, recomputed, is what the fit says, and no iteration raised it;
- fixed point: no feature outside exceeds its price, if the fit says that it has converged;
- same, batch: all fits went through the same objective values. Left out of this one are problems with copies of
  columns, where the inner answer is not unique, and first penalties below 1e-4 of the largest useful one, where it is
  decided by digits that the duality gap does not see.

What a fit itself reports as unsolved, the duality gap of its inner problems over lam, is allowed for.

    python benchmarks/sbl_safety.py --problems 5000 --jobs 2
"""

import argparse
import importlib
import sys
import time
import warnings
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np

from fastsbl._base.warnings import ConditioningWarning, ConvergenceWarning
from fastsbl.sbl import fit_sbl, fit_sbl_batch

sys.path.append(str(Path(__file__).parents[1] / "tests" / "helpers"))
problems = importlib.import_module("screening_problems")

TOL = 1e-4
OPTIONS = {"holder": {}, "auto": {"screening": "auto"}, "two_hyperplanes": {"screening": "two_hyperplanes"}}


def draw(seed):
    """A problem, and how to fit it."""
    rng = np.random.default_rng(seed)
    N = int(problems.log_uniform(rng, 5, 61))
    n = int(problems.log_uniform(rng, 5, 301))
    X, _ = problems._columns(rng, N, n)
    copies = bool(rng.random() < 0.3)
    if copies:
        problems._add_relatives(rng, X)
    X = np.asfortranarray(X, dtype=np.float32 if rng.random() < 0.3 else np.float64)
    positive = bool(rng.random() < 0.25)
    y, _ = problems._target(rng, X.astype(np.float64), positive)
    norms = np.linalg.norm(X.astype(np.float64), axis=0)
    largest = float(np.max((X.T.astype(np.float64) @ y) ** 2 / norms**2))
    lam = largest * problems.log_uniform(rng, 1e-4, 1.2)
    init = str(rng.choice(["null", "unit"]))
    rule = str(rng.choice(list(OPTIONS)))
    return X, y, lam, {"positive": positive, "init": init, "tol": TOL, **OPTIONS[rule]}, copies


def exact_state(X, y, gamma, lam, positive):
    """Objective, and the largest |phi_i'r| / (lam u_i) of a feature with gamma = 0, from dense algebra."""
    X = X.astype(np.float64)
    S = lam * np.eye(X.shape[0]) + (X * gamma) @ X.T
    solved = np.linalg.solve(S, y)
    scaled = X[:, gamma > 0] * np.sqrt(gamma[gamma > 0])
    stacked = np.vstack([scaled, np.sqrt(lam) * np.eye(scaled.shape[1])])  # y'S^-1 y by least squares
    target = np.concatenate([y, np.zeros(scaled.shape[1])])
    error = target - stacked @ np.linalg.lstsq(stacked, target, rcond=None)[0]
    value = float(np.linalg.slogdet(S)[1] + error @ error / lam)
    products = X.T @ solved
    weights = np.sqrt(np.maximum(np.einsum("ij,ij->j", X, np.linalg.solve(S, X)), 0.0))
    ratio = (products if positive else np.abs(products)) / np.where(weights > 0, weights, 1.0)
    return value, float(ratio[gamma == 0].max(initial=0.0))


def fit(X, y, lam, options):
    """The fit; whether it converged is in the result."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConditioningWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        return fit_sbl(X, y, lam, **options)


def batch(X, Y, lam, options):
    """Fits of several targets at once."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConditioningWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        return fit_sbl_batch(X, Y, lam, **options)


def examine(seed):
    """What is wrong with the fits of one seed."""
    X, y, lam, options, copies = draw(seed)
    wrong = []
    found = fit(X, y, lam, options)
    value, outside = exact_state(X, y, found.gamma, lam, options["positive"])
    rounding = 1e-7 * (X.shape[0] + abs(value)) * max(1.0, 1e-8 * float(y @ y) / lam)
    unsolved = max(record["gap"] for record in found.history)
    rounding += 2.0 * unsolved / lam
    path = np.array([record["loss"] for record in found.history])
    if np.any(np.diff(path) > rounding):
        wrong.append("descent")
    if abs(path[-1] - value) > 10 * rounding:
        wrong.append("objective")
    if found.converged and outside > 1.0 + TOL + 1e-5 + np.sqrt(2.0 * unsolved / lam):  # sqrt(2 gap) moves a residual
        wrong.append("fixed point")
    full = fit(X, y, lam, {**options, "bounds": False, "screening": None})
    others = [np.roll(y, 1), y + np.abs(y).max() * np.sign(np.roll(y, 2))]
    together = batch(X, np.column_stack([*others, y]), [lam, 2 * lam, lam], options)[2]
    visible = options["init"] == "null" or lam > 1e-4 * np.abs(X.T.astype(np.float64) @ y).max()
    for name, other in (("same", full), ("batch", together)):
        values = np.array([record["loss"] for record in other.history])
        common = min(path.size, values.size)
        if visible and not copies and np.any(np.abs(path[:common] - values[:common]) > 100 * rounding):
            wrong.append(name)
    if not found.converged:
        wrong.append("(not converged)")
    return wrong


def run(first, last):
    counts, seeds = Counter(), {}
    for seed in range(first, last):
        try:
            for name in examine(seed):
                counts[name] += 1
                seeds.setdefault(name, []).append(seed)
        except Exception as error:
            counts["error"] += 1
            seeds.setdefault(f"error: {type(error).__name__}: {error}"[:150], []).append(seed)
    return counts, seeds


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problems", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0, help="seed of the first problem; the others follow")
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    started = time.perf_counter()
    last = options.seed + options.problems
    chunks = [(low, min(low + 50, last)) for low in range(options.seed, last, 50)]
    counts, seeds = Counter(), {}
    with ProcessPoolExecutor(options.jobs) as pool:
        for some, where in pool.map(run, *zip(*chunks, strict=True)):
            counts += some
            for name, found in where.items():
                seeds.setdefault(name, []).extend(found)
    print(f"{options.problems:,} problems in {time.perf_counter() - started:.0f} s: {dict(counts) or 'nothing wrong'}")
    for name, found in sorted(seeds.items()):
        print(f"  {name}: seeds {found[:12]}")


if __name__ == "__main__":
    main()
