"""Do screening or bounds change any outer iteration of a sparse Bayesian fit? On real and on simulated data.

The dictionaries are MNIST (784 x 10,000), the New York Times counts (3,012 x 8,446) and simulated ones (100 x 1,000,
independent and with correlation .95 between neighbours); all columns and y have unit norm; init="unit", tol 1e-4, lam
from .01 to 1 of the largest correlation. The fit with every weight and product computed and no screening is compared
with all others: each rule, with and without bounds. After every outer iteration the supports have to be the same, and
the coefficients within what the duality gaps of the two inner problems allow: ||Phi (a - b)|| <= sqrt(2 gap_a) + sqrt(2
gap_b) at the same weights. As the weights carry differences of earlier iterations along, that sum is taken over all
iterations so far, and 1e-6 ||y|| is always allowed.

    python benchmarks/sbl_on_off.py --jobs 2
    python benchmarks/sbl_on_off.py --data nytimes --ratios 0.01 --rules holder auto
"""

import argparse
import sys
import warnings
from collections import Counter, defaultdict

import numpy as np
from joblib import Memory, Parallel, delayed
from scipy.sparse import csc_array, diags_array, issparse

from fastsbl._base.warnings import ConvergenceWarning
from fastsbl.bench.data import load
from fastsbl.bench.judge import squared_norms
from fastsbl.datasets import make_sparse_regression
from fastsbl.dictionary import as_dictionary
from fastsbl.sbl.outer import Settings, Start, make_inner, run
from fastsbl.screening import rule_names

DATA = ("mnist", "nytimes", "gaussian", "ar")
RATIOS = (0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
RULES = (None, *(name for name in rule_names() if not name.endswith(":diameter")))  # the default ball
ALLOWED = 1e-6


class Recorder:
    """An inner solver that keeps the solution of each outer iteration."""

    def __init__(self, inner):
        self._inner = inner
        self.solutions = []

    def __getattr__(self, name):
        return getattr(self._inner, name)

    def describe(self, found):
        index, model = self._inner.describe(found)
        order = np.argsort(index)
        self.solutions.append((index[order], found.theta[order], found.gap))
        return index, model


def draw(data):
    if data in ("mnist", "nytimes"):
        problem = load(data)
        unit, y = problem.matrix, problem.y / np.linalg.norm(problem.y)
        if issparse(unit):  # MNIST has unit columns already
            unit = csc_array(unit @ diags_array(1.0 / np.sqrt(squared_norms(unit))))
        return unit, y
    problem = make_sparse_regression(100, 1000, n_nonzero=10, design=data, correlation=0.95, unit_norm=True, rng=0)
    return np.asfortranarray(problem.dictionary), problem.y / np.linalg.norm(problem.y)


def solutions(phi, y, lam, rule, bounds):
    """Support, coefficients and gap of every outer iteration."""
    # one outer iteration at a time, which a callback asks for
    settings = Settings(init="unit", screening=rule, bounds=bounds, callback=lambda record: None)
    start = Start(as_dictionary(phi).metered(), y, False)
    recorder = Recorder(make_inner(start, y, settings))
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        run(start, y, lam, settings, inner=recorder)
    return recorder.solutions


def distance(phi, a, b):
    """Length of Phi (a - b), for coefficients given on their supports."""
    index = np.union1d(a[0], b[0])
    if index.size == 0:
        return 0.0
    difference = np.zeros(index.size)
    difference[np.searchsorted(index, a[0])] = a[1]
    difference[np.searchsorted(index, b[0])] -= b[1]
    return float(np.linalg.norm(phi[:, index] @ difference))


def compare(data, ratio, rules):
    """For each rule, with and without bounds: iterations, other supports, largest distance, distances too large."""
    phi, y = draw(data)
    lam = ratio * float(np.abs(phi.T @ y).max())
    expected = solutions(phi, y, lam, None, False)
    rows = []
    for rule in rules:
        for bounds in (True, False):
            found = solutions(phi, y, lam, rule, bounds)
            other = int(len(found) != len(expected))
            largest, allowed, over = 0.0, ALLOWED, 0
            for ours, theirs in zip(found, expected, strict=False):
                other += not np.array_equal(ours[0], theirs[0])
                allowed += np.sqrt(2 * max(ours[2], 0.0)) + np.sqrt(2 * max(theirs[2], 0.0))
                away = distance(phi, ours, theirs)
                largest = max(largest, away)
                over += away > allowed
            rows.append((str(rule), bounds, len(expected), other, largest, over))
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", choices=DATA, nargs="+", default=DATA)
    parser.add_argument("--ratios", type=float, nargs="+", default=RATIOS)
    parser.add_argument("--rules", choices=[str(rule) for rule in RULES], nargs="+", help="all by default")
    parser.add_argument("--jobs", type=int, default=1, help="processes (1)")
    parser.add_argument("--keep", metavar="DIR", help="keep each answer there; a run that was interrupted goes on")
    asked = parser.parse_args()
    task = Memory(asked.keep, verbose=0).cache(compare)
    rules = tuple(rule for rule in RULES if asked.rules is None or str(rule) in asked.rules)
    tasks = [(data, ratio, rules) for data in asked.data for ratio in asked.ratios]
    answers = Parallel(n_jobs=asked.jobs)(delayed(task)(*one) for one in tasks)
    print(
        "| data | fits compared | outer iterations | other supports | largest distance / norm of y | beyond the gaps |"
    )
    print("|---|---:|---:|---:|---:|---:|")
    totals = defaultdict(Counter)
    largest = Counter()
    for (data, ratio, _), rows in zip(tasks, answers, strict=True):
        for rule, bounds, iterations, other, away, over in rows:
            totals[data].update(fits=1, iterations=iterations, other=other, over=over)
            largest[data] = max(largest[data], away)
            if other or over:
                print(f"{data} {ratio:g} {rule} bounds={bounds}: {other} supports, {over} distances", file=sys.stderr)
    for data, t in totals.items():
        print(f"| {data} | {t['fits']} | {t['iterations']:,} | {t['other']} | {largest[data]:.1e} | {t['over']} |")
    return int(any(t["other"] or t["over"] for t in totals.values()))


if __name__ == "__main__":
    sys.exit(main())
