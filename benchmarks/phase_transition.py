"""How many nonzeros can be recovered: phase transitions of sparse recovery.

N = 100 samples, n = 400 columns of unit norm, k = 5 to 50 nonzeros with random signs and sizes 1 + |N(0, 1)|, noise at
40 dB. Three dictionaries: rows of the orthonormal cosine transform drawn at random, Gaussian, and a strongly
coherent one (a random walk over the columns: neighbours correlate with .8). A run succeeds if the relative error of
the coefficients is below .05 and the support is exact, where coefficients below a tenth of the smallest true size
do not count as found (so that no method is punished for tiny values; the rule is the same for all).

Methods: `fit_sbl` with the noise variance learned and with the true one; LassoCV (5 folds); orthogonal matching
pursuit told the true k; ARDRegression.

    python benchmarks/phase_transition.py
    python benchmarks/phase_transition.py --reps 1 --sizes 5 20 --out some.csv

The numbers are kept in `docs/figures/phase-transition.csv`, from which `docs/figures/phase_transition.py` draws the
picture of the documentation.
"""

import argparse
import csv
import time
import warnings
from collections import defaultdict
from pathlib import Path

import numpy as np
from joblib import Memory, Parallel, delayed
from scipy.fft import dct
from sklearn.linear_model import ARDRegression, LassoCV, OrthogonalMatchingPursuit

from fastsbl.sbl import fit_sbl

N_SAMPLES, N_FEATURES, SNR_DB = 100, 400, 40.0
LARGEST_ERROR, COUNTS_FROM = 0.05, 0.1
KINDS = ("DCT", "Gaussian", "coherent")
METHODS = ("SBL, noise learned", "SBL, noise known", "ARDRegression", "OMP, k known", "LassoCV")


def make_dictionary(kind, rng):
    if kind == "DCT":
        X = dct(np.eye(N_FEATURES), norm="ortho", axis=0)[rng.choice(N_FEATURES, N_SAMPLES, replace=False)]
    else:
        X = rng.standard_normal((N_SAMPLES, N_FEATURES))
        if kind == "coherent":
            for j in range(1, N_FEATURES):
                X[:, j] = 0.8 * X[:, j - 1] + 0.6 * X[:, j]
    return np.asfortranarray(X / np.linalg.norm(X, axis=0))


def methods(X, y, k, noise):
    yield "SBL, noise learned", lambda: fit_sbl(X, y).coef
    yield "SBL, noise known", lambda: fit_sbl(X, y, noise).coef
    yield "LassoCV", lambda: LassoCV(fit_intercept=False, cv=5, max_iter=5000).fit(X, y).coef_
    yield "OMP, k known", lambda: OrthogonalMatchingPursuit(n_nonzero_coefs=k, fit_intercept=False).fit(X, y).coef_
    yield "ARDRegression", lambda: ARDRegression(fit_intercept=False, max_iter=1000).fit(X, y).coef_


def one_problem(kind, k, seed):
    rng = np.random.default_rng([list(KINDS).index(kind), k, seed])
    X = make_dictionary(kind, rng)
    truth = np.zeros(N_FEATURES)
    support = rng.choice(N_FEATURES, k, replace=False)
    truth[support] = rng.choice([-1.0, 1.0], k) * (1.0 + np.abs(rng.standard_normal(k)))
    signal = X @ truth
    noise = float(signal @ signal) / N_SAMPLES * 10.0 ** (-SNR_DB / 10)
    y = signal + np.sqrt(noise) * rng.standard_normal(N_SAMPLES)
    found = np.abs(truth) > 0
    rows = []
    for name, solve in methods(X, y, k, noise):
        clock = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of peers that do not converge
            coef = solve()
        seconds = time.perf_counter() - clock
        error = float(np.linalg.norm(coef - truth) / np.linalg.norm(truth))
        exact = np.array_equal(np.abs(coef) > COUNTS_FROM * np.abs(truth[support]).min(), found)
        rows.append((name, error, exact, seconds))
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reps", type=int, default=20, help="problems per point (20)")
    parser.add_argument("--jobs", type=int, default=1, help="processes (1)")
    parser.add_argument("--keep", metavar="DIR", help="keep each answer there; a run that was interrupted goes on")
    parser.add_argument("--sizes", type=int, nargs="+", default=list(range(5, 51, 5)), help="values of k")
    default = Path(__file__).parents[1] / "docs" / "figures" / "phase-transition.csv"
    parser.add_argument("--out", type=Path, default=default, help="table to write")
    asked = parser.parse_args()
    solve = Memory(asked.keep, verbose=0).cache(one_problem)
    tasks = [(kind, k, seed) for kind in KINDS for k in asked.sizes for seed in range(asked.reps)]
    found = defaultdict(list)
    for (kind, k, _), rows in zip(
        tasks, Parallel(n_jobs=asked.jobs)(delayed(solve)(*task) for task in tasks), strict=True
    ):
        for name, error, exact, seconds in rows:
            found[kind, k, name].append((error, exact, seconds))
    shares = {
        key: float(np.mean([exact and error < LARGEST_ERROR for error, exact, _ in values]))
        for key, values in found.items()
    }
    with open(asked.out, "w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["dictionary", "k", "method", "problems", "recovered", "median_error"])
        for (kind, k, name), values in found.items():
            median = np.median([error for error, _, _ in values])
            table.writerow([kind, k, name, len(values), f"{shares[kind, k, name]:.4f}", f"{median:.4g}"])
    print(f"share recovered (relative error below {LARGEST_ERROR}, exact support)")
    for kind in KINDS:
        print(f"{kind:<20}" + "".join(f"{k:>6}" for k in asked.sizes))
        for name in METHODS:
            print(f"  {name:<18}" + "".join(f"{shares[kind, k, name]:>6.2f}" for k in asked.sizes))


if __name__ == "__main__":
    main()
