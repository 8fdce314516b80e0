"""Regressors that choose their own settings, compared on data they were not fitted to.

Twelve data sets that come with scikit-learn or are generated; columns are standardised on the training rows of each
random split, kernels are centred at the training rows. For each data set and regressor, over the splits:

- R2 on the test rows, with the standard error of its mean over the splits;
- the mean negative log predictive density of the test rows (Gaussian; regressors without a predictive standard
  deviation get the one of their training residuals, corrected for their number of coefficients);
- the share of test rows within the central 90 % interval of that density;
- nonzero coefficients; seconds of processor time for one fit, BLAS at one thread.

A star marks an R2 that is the best or within one standard error of the best (the larger of the standard error of the
best and the standard error of the paired difference counts). The last lines count stars, compare numbers of
coefficients and times.

    python benchmarks/estimators.py --jobs 2 --keep fits.jsonl --markdown table.md
    python benchmarks/estimators.py --only diabetes-2 sinc-rbf --splits 3

With ``--keep`` every fit is written to a file when it is done, and those in the file are not made again: a run may be
stopped and started at any time.
"""

import argparse
import json
import os
import time
import warnings
from collections import defaultdict
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed
from sklearn.datasets import (
    load_diabetes,
    load_digits,
    make_friedman1,
    make_regression,
    make_sparse_uncorrelated,
)
from sklearn.linear_model import ARDRegression, BayesianRidge, LassoCV, OrthogonalMatchingPursuitCV
from sklearn.preprocessing import PolynomialFeatures, StandardScaler
from threadpoolctl import threadpool_limits

from fastsbl import SBLRegressor, SBLRegressorCV
from fastsbl.datasets import make_sparse_regression

LEVEL, QUANTILE = 0.90, 1.6448536269514722

REGRESSORS = {
    "SBLRegressor": SBLRegressor,
    "average=True": lambda: SBLRegressor(average=True),
    "SBLRegressorCV": SBLRegressorCV,
    "ARDRegression": ARDRegression,
    "LassoCV": lambda: LassoCV(max_iter=20_000),
    "BayesianRidge": BayesianRidge,
    "OMP-CV": OrthogonalMatchingPursuitCV,
}
OURS = ("SBLRegressor", "average=True", "SBLRegressorCV")


def halves(X, y, rng, share=0.5, most=None):
    """Random training and test rows."""
    order = rng.permutation(len(y))
    size = int(share * len(y)) if most is None else most
    return X[order[:size]], y[order[:size]], X[order[size:]], y[order[size:]]


def polynomial(split, degree):
    X, y, X_test, y_test = split
    scaler, powers = StandardScaler().fit(X), PolynomialFeatures(degree, include_bias=False)
    return powers.fit_transform(scaler.transform(X)), y, powers.fit_transform(scaler.transform(X_test)), y_test


def kernel(split, width):
    """Gaussian bumps at the training rows."""
    X, y, X_test, y_test = split

    def bumps(rows):
        squares = ((rows[:, None, :] - X[None, :, :]) ** 2).sum(axis=2)
        return np.exp(-squares / (2 * width**2))

    return bumps(X), y, bumps(X_test), y_test


def diabetes(rng, degree):
    return polynomial(halves(*load_diabetes(return_X_y=True), rng, 0.75), degree)


def friedman(rng, degree=None):
    X, y = make_friedman1(1000, noise=1.0, random_state=int(rng.integers(2**31)))
    split = halves(X, y, rng, most=300)
    return kernel(split, 1.0) if degree is None else polynomial(split, degree)


def digits(rng, degree):
    X, y = load_digits(return_X_y=True)
    return polynomial(halves(X[:, X.std(axis=0) > 0], y.astype(float), rng, most=1000), degree)


def uncorrelated(rng):
    X, y = make_sparse_uncorrelated(1100, 200, random_state=int(rng.integers(2**31)))
    return halves(X, y, rng, most=100)


def wide(rng):
    X, y = make_regression(1100, 1000, n_informative=10, noise=20.0, random_state=int(rng.integers(2**31)))
    return halves(X, y, rng, most=100)


def correlated(rng):
    problem = make_sparse_regression(
        1200, 2000, n_nonzero=10, design="ar", correlation=0.9, snr_db=10, rng=int(rng.integers(2**31))
    )
    return halves(problem.dictionary, problem.y, rng, most=200)


def dense(rng):
    """Every one of 40 columns counts a little: the truth is not sparse."""
    X, y = make_regression(1100, 60, n_informative=40, noise=60.0, random_state=int(rng.integers(2**31)))
    return halves(X, y, rng, most=100)


def sinc(rng):
    x = rng.uniform(-10, 10, (600, 1))
    y = np.sinc(x[:, 0] / np.pi) + 0.1 * rng.standard_normal(600)
    return kernel(halves(x, y, rng, most=100), 1.6)


def impulse_response(rng):
    """Input and output of an unknown filter: 200 taps, a delay and two damped echoes."""
    taps = np.zeros(200)
    taps[[12, 13, 14, 60, 61, 130]] = [1.0, 0.8, 0.4, -0.5, -0.3, 0.25]
    signal = rng.standard_normal(1600)
    signal[1:] += 0.6 * signal[:-1]
    X = np.lib.stride_tricks.sliding_window_view(signal, 200)[:, ::-1]
    y = X @ taps
    y = y + 0.3 * y.std() * rng.standard_normal(y.size)
    return X[:400], y[:400], X[600:], y[600:]


DATA = {
    "diabetes-2": lambda rng: diabetes(rng, 2),
    "diabetes-3": lambda rng: diabetes(rng, 3),
    "uncorrelated": uncorrelated,
    "wide": wide,
    "correlated": correlated,
    "dense": dense,
    "friedman-3": lambda rng: friedman(rng, 3),
    "friedman-rbf": friedman,
    "digits-1": lambda rng: digits(rng, 1),
    "digits-2": lambda rng: digits(rng, 2),
    "sinc-rbf": sinc,
    "impulse": impulse_response,
}
FEW = {"digits-2": 3, "friedman-rbf": 3}  # most splits, where one fit takes many seconds


def one_fit(data, regressor, split):
    X, y, X_test, y_test = DATA[data](np.random.default_rng([split, 7]))
    scaler = StandardScaler().fit(X)
    X, X_test = scaler.transform(X), scaler.transform(X_test)
    model = REGRESSORS[regressor]()
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")  # unfinished fits are part of the comparison
        clock = time.process_time()
        model.fit(X, y)
        seconds = time.process_time() - clock
    try:
        mean, std = model.predict(X_test, return_std=True)
    except TypeError:
        mean = model.predict(X_test)
        free = max(len(y) - np.count_nonzero(model.coef_) - 1, 1)
        std = np.full(len(y_test), np.sqrt(np.sum((y - model.predict(X)) ** 2) / free))
    error = y_test - mean
    return {
        "data": data,
        "shape": X.shape,
        "regressor": regressor,
        "split": split,
        "r2": 1.0 - float(np.sum(error**2) / np.sum((y_test - y_test.mean()) ** 2)),
        "density": float(np.mean(0.5 * np.log(2 * np.pi * std**2) + 0.5 * (error / std) ** 2)),
        "coverage": float(np.mean(np.abs(error) <= QUANTILE * std)),
        "nonzero": int(np.count_nonzero(model.coef_)),
        "seconds": seconds,
    }


def within_one_error(values):
    """Names whose mean is within one standard error of the best mean."""
    means = {name: v.mean() for name, v in values.items()}
    best = max(means, key=means.get)
    kept = set()
    for name, v in values.items():
        root = np.sqrt(v.size)
        error = max(values[best].std(ddof=1), (values[best] - v).std(ddof=1)) / root if v.size > 1 else 0.0
        if means[name] >= means[best] - error:
            kept.add(name)
    return kept


MEASURES = {
    "R2 on the test rows (± standard error over the splits; \\* best or within one standard error of it)": "r2",
    "Negative log predictive density of the test rows": "density",
    "Share of the test rows within their 90 % intervals": "coverage",
    "Nonzero coefficients": "nonzero",
    "Seconds of processor time for a fit (median)": "seconds",
}
FORMATS = {"density": "{:.3f}", "coverage": "{:.1%}", "nonzero": "{:.1f}", "seconds": "{:.3f}"}


def cell(measure, values, starred):
    if measure != "r2":
        return FORMATS[measure].format(np.median(values) if measure == "seconds" else values.mean())
    error = f" ± {values.std(ddof=1) / np.sqrt(values.size):.3f}" if values.size > 1 else ""
    return f"{values.mean():.3f}{error}" + (" \\*" if starred else "")


def table_of(found):
    """A table for each measure, one row per data set and one column per regressor, and a summary."""
    names = list(dict.fromkeys(name for fits in found.values() for name in fits))
    values = {
        data: {name: {m: np.array([r[m] for r in rows]) for m in MEASURES.values()} for name, rows in fits.items()}
        for data, fits in found.items()
    }
    stars = {data: within_one_error({n: v["r2"] for n, v in fits.items()}) for data, fits in values.items()}
    lines = []
    for title, measure in MEASURES.items():
        lines += [
            title + ":",
            "",
            "| data (rows x columns) | " + " | ".join(names) + " |",
            "|---" * (len(names) + 1) + "|",
        ]
        for data, fits in values.items():
            shape = " x ".join(map(str, next(iter(found[data].values()))[0]["shape"]))
            cells = [cell(measure, fits[n][measure], n in stars[data]) if n in fits else "" for n in names]
            lines.append(f"| {data} ({shape}) | " + " | ".join(cells) + " |")
        lines.append("")
    for name in names:
        sets = [data for data in values if name in values[data]]
        means = {data: {m: v.mean() for m, v in values[data][name].items()} for data in sets}
        text = f"{name}: best or within one standard error in {sum(name in stars[d] for d in sets)} of {len(sets)}"
        text += f"; 90 % intervals hold 85 to 95 % in {sum(0.85 <= means[d]['coverage'] <= 0.95 for d in sets)}"
        if "LassoCV" in names and name != "LassoCV":
            fewer = [d for d in sets if means[d]["nonzero"] < values[d]["LassoCV"]["nonzero"].mean()]
            text += f"; fewer coefficients than LassoCV in {len(fewer)}"
        if name in OURS:
            peers = [(d, values[d]["ARDRegression"]["seconds"]) for d in sets if "ARDRegression" in values[d]]
            ratios = [f"{d} {np.median(t) / np.median(values[d][name]['seconds']):.1f}" for d, t in peers]
            text += f"; times faster than ARDRegression: {', '.join(ratios)}"
        lines.append(f"- {text}.")
    both = [data for data in values if set(OURS) & stars[data]]
    lines.append(f"- One of ours is best or within one standard error in {len(both)} of {len(values)}.")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=tuple(DATA), default=tuple(DATA), help="some of the data sets")
    parser.add_argument("--regressors", nargs="+", choices=tuple(REGRESSORS), default=tuple(REGRESSORS))
    parser.add_argument("--splits", type=int, default=10, help="random splits of each data set (10)")
    parser.add_argument("--jobs", type=int, default=1, help="processes (1)")
    parser.add_argument("--keep", metavar="FILE", help="write every fit there, and make only those that it lacks")
    parser.add_argument("--markdown", metavar="FILE", help="write the table there")
    asked = parser.parse_args()
    tasks = [
        (data, name, split)
        for split in range(asked.splits)
        for data in asked.only
        for name in asked.regressors
        if split < FEW.get(data, asked.splits)
    ]
    rows = {}
    if asked.keep and Path(asked.keep).exists():
        kept = (json.loads(line) for line in Path(asked.keep).read_text().splitlines())
        rows = {(row["data"], row["regressor"], row["split"]): row for row in kept}
    missing = [task for task in tasks if task not in rows]
    if missing:
        one_fit("sinc-rbf", "SBLRegressor", 0)  # compiles, which is not to be timed
    with open(asked.keep or os.devnull, "a") as file:
        fits = Parallel(n_jobs=asked.jobs, return_as="generator_unordered")(delayed(one_fit)(*task) for task in missing)
        for row in fits:
            rows[row["data"], row["regressor"], row["split"]] = row
            file.write(json.dumps(row) + "\n")
            file.flush()
    found = defaultdict(lambda: defaultdict(list))
    for task in sorted(tasks, key=lambda task: (asked.only.index(task[0]), asked.regressors.index(task[1]))):
        found[task[0]][task[1]].append(rows[task])
    table = table_of(found)
    print(table)
    if asked.markdown:
        with open(asked.markdown, "w") as file:
            file.write(table + "\n")


if __name__ == "__main__":
    main()
