"""Ways to learn the noise variance, compared on simulated data where it is known.

Two sizes (N=100, n=300, k=5 and N=200, n=2000, k=10), columns independent or with correlation .9 between
neighbours, signal-to-noise ratio 0 to 30 dB. The candidates:

- learn: `fit_sbl(lam="learn")`, supports of a path refitted with their noise and chosen by evidence and prior;
- averaged: the same, with the noise variance and the coefficients averaged over supports (`SBLResult.average`);
- evidence: the lam of a path of fits with the lowest Loss;
- EM: the fixed point lam = ||r||^2 / (N - sum of how far the data determine each coefficient), along the same path:
  the largest lam at which the update stops asking for a smaller one;
- joint: lam lowered together with gamma, lam <- lam sqrt(y'S^-2 y / tr S^-1) after each outer iteration;
- held-out: the lam of a path with the smallest error of prediction on left-out samples (5 folds);
- known: the true noise variance, for reference.

For each: learned/true; the risk (||X (theta - theta*)||^2 / N + sigma^2) relative to the best fit of the path; the size
of the support (k is right; for averaged, how many features have a coefficient at all).

    python benchmarks/noise_learning.py --reps 20 --jobs 2 --markdown table.md
    python benchmarks/noise_learning.py --reps 1 --only small --snr 10
"""

import argparse
import time
import warnings
from collections import defaultdict

import numpy as np
from joblib import Memory, Parallel, delayed

from fastsbl.datasets import make_sparse_regression
from fastsbl.dictionary import as_dictionary
from fastsbl.sbl import fit_sbl, sbl_lambda_max, sbl_path

SIZES = {"small": (100, 300, 5), "large": (200, 2000, 10)}
SNR = (0, 5, 10, 20, 30)
GRID = 10.0 ** np.arange(0.0, -5.01, -0.25)
METHODS = ("learn", "averaged", "evidence", "EM", "joint", "held-out", "known")
OPTIONS = {"tol": 1e-3, "max_iter": 300}


def determined(result):
    """How many parameters the data determine: sum of gamma_i u_i^2."""
    support = result.support
    if support.size == 0:
        return 0.0
    variances = np.diag(result.posterior().covariance)
    return float(np.sum(1.0 - variances / result.gamma[support]))


def em_update(result):
    return float(result.residual @ result.residual) / max(result.residual.size - determined(result), 1e-9)


def joint_descent(X, y, start, max_iter=400):
    """Alternate one outer iteration and one step in lam, neither of which raises the objective."""
    lam, result = start, None
    floor = 1e-10 * float(y @ y) / y.size
    for _ in range(max_iter):
        result = fit_sbl(X, y, lam, warm_start=result, max_iter=1)
        trace = (y.size - determined(result)) / lam  # tr S^-1
        fresh = lam * np.sqrt(float(result.residual @ result.residual) / lam**2 / trace)
        if abs(fresh - lam) <= 1e-4 * lam or fresh < floor:
            break
        lam = fresh
    return result


def held_out(X, y, variances, n_folds=5):
    """Mean squared error of prediction of left-out samples for each variance, until it has clearly risen again."""
    order = np.random.default_rng(0).permutation(y.size)
    folds = []
    for part in np.array_split(order, n_folds):
        kept = np.setdiff1d(order, part)
        folds.append((as_dictionary(np.asfortranarray(X[kept])), y[kept], X[part], y[part]))
    errors = np.full(len(variances), np.inf)
    for k, lam in enumerate(variances):
        errors[k] = sum(
            np.sum((test_y - test_X @ fit_sbl(phi, train_y, lam, **OPTIONS).coef) ** 2)
            for phi, train_y, test_X, test_y in folds
        )
        if k >= 4 and errors[k - 3 : k + 1].min() > 1.5 * errors.min():
            break
    return errors / y.size


class Problem:
    """One simulated problem, and how good an answer to it is."""

    def __init__(self, size, design, snr_db, seed):
        n_samples, n_features, n_nonzero = SIZES[size]
        made = make_sparse_regression(
            n_samples, n_features, n_nonzero=n_nonzero, design=design, correlation=0.9, snr_db=snr_db, rng=seed
        )
        self.X, self.y, self.truth = np.asfortranarray(made.dictionary), made.y, made.coef
        self.noise = made.noise_variance

    def risk(self, coef):
        return float(np.sum((self.X @ (coef - self.truth)) ** 2)) / self.y.size + self.noise

    def judge(self, task, extra=0.0):
        """Learned/true, risk, size of the support, seconds."""
        clock = time.perf_counter()
        result = task()
        seconds = time.perf_counter() - clock + extra
        return result.lam / self.noise, self.risk(result.coef), int(np.count_nonzero(result.coef)), seconds


def learned(*what):
    problem = Problem(*what)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # unfinished fits are part of the comparison
        return problem.judge(lambda: fit_sbl(problem.X, problem.y))


def averaged(*what):
    problem = Problem(*what)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return problem.judge(lambda: fit_sbl(problem.X, problem.y).average())


def others(*what):
    """All candidates but `learn` and `averaged`, and the smallest risk along the path."""
    problem = Problem(*what)
    X, y = problem.X, problem.y

    def by_em():
        for result in path:  # from the largest variance down
            if em_update(result) >= result.lam:
                return result
        return path[-1]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clock = time.perf_counter()
        path = sbl_path(X, y, GRID, relative_to="sbl_lambda_max", **OPTIONS)
        seconds = time.perf_counter() - clock
        answers = {
            "evidence": problem.judge(lambda: min(path, key=lambda result: result.loss), seconds),
            "EM": problem.judge(by_em, seconds),
            "joint": problem.judge(lambda: joint_descent(X, y, 0.5 * sbl_lambda_max(X, y))),
            "held-out": problem.judge(
                lambda: path[int(np.argmin(held_out(X, y, [result.lam for result in path])))], seconds
            ),
            "known": problem.judge(lambda: fit_sbl(X, y, problem.noise, **OPTIONS)),
        }
    return answers, min(problem.risk(result.coef) for result in path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reps", type=int, default=20, help="problems per row (20)")
    parser.add_argument("--jobs", type=int, default=1, help="processes (1)")
    parser.add_argument("--keep", metavar="DIR", help="keep each answer there; a run that was interrupted goes on")
    parser.add_argument("--only", choices=tuple(SIZES), help="one of the two sizes")
    parser.add_argument("--snr", type=float, nargs="+", default=SNR, help="signal-to-noise ratios in dB")
    parser.add_argument("--markdown", metavar="FILE", help="write the table there")
    asked = parser.parse_args()
    cells = [
        (size, design, snr)
        for size in ([asked.only] if asked.only else SIZES)
        for design in ("gaussian", "ar")
        for snr in asked.snr
    ]
    memory = Memory(asked.keep, verbose=0)
    tasks = [(*cell, seed) for cell in cells for seed in range(asked.reps)]
    parallel = Parallel(n_jobs=asked.jobs)
    first = parallel(delayed(memory.cache(learned))(*task) for task in tasks)
    second = parallel(delayed(memory.cache(averaged))(*task) for task in tasks)
    rest = parallel(delayed(memory.cache(others))(*task) for task in tasks)
    found = defaultdict(list)
    for task, mine, mean, (answers, best) in zip(tasks, first, second, rest, strict=True):
        answers = {"learn": mine, "averaged": mean, **answers}
        found[task[:3]].append({name: (lam, risk / best, size) for name, (lam, risk, size, _) in answers.items()})
    tables = [
        "Learned / true noise variance, medians (for learn with the range from 10 to 90 %):",
        table(
            found, lambda values, name: spread(values[:, 0]) if name == "learn" else f"{np.median(values[:, 0]):.2g}"
        ),
        "Median risk / that of the best fit of the path, and mean size of the support:",
        table(found, lambda values, name: f"{np.median(values[:, 1]):.2f}, {values[:, 2].mean():.0f}"),
    ]
    print("\n\n".join(tables))
    if asked.markdown:
        with open(asked.markdown, "w") as file:
            file.write("\n\n".join(tables) + "\n")


def spread(values):
    low, middle, high = np.percentile(values, [10, 50, 90])
    return f"{middle:.2f} ({low:.2f} to {high:.2f})"


def table(found, cell):
    """One line for each kind of problem, one column for each method."""
    lines = [
        "| N, n, k | columns | SNR dB | problems | " + " | ".join(METHODS) + " |",
        "|---|---|---:|---:|" + "---|" * len(METHODS),
    ]
    for (size, design, snr), answers in found.items():
        cells = [cell(np.array([answer[name] for answer in answers]), name) for name in METHODS]
        columns = "AR(.9)" if design == "ar" else "iid"
        lines.append(
            f"| {', '.join(map(str, SIZES[size]))} | {columns} | {snr:g} | {len(answers)} | {' | '.join(cells)} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
