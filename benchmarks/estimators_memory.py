"""Memory and time of one fit beside the size of its data: 100 x 100,000 float32 values, and a million stored in CSR.

Each fit runs in a process of its own, after a small one that loads the compiled code. "beside them" is the largest
resident size during the fit less the size before it, as Linux counts them; "in all" is data and the rest together, in
sizes of the data. The allocator is told to give large arrays back at once, so that what the making of the data left
behind is not used again.

    python benchmarks/estimators_memory.py
    python benchmarks/estimators_memory.py --data "CSR 3,000 x 8,000, 10^6 stored" --estimator "SBLRegressor()"
"""

import argparse
import gc
import os
import subprocess
import sys
import time

import numpy as np
from scipy import sparse

from fastsbl import SBLRegressor, SBLRegressorCV, WeightedLasso
from fastsbl.bench.child import _forget_peak, _peak

ESTIMATORS = {
    "SBLRegressor()": lambda: SBLRegressor(),
    "SBLRegressor(noise_ratio=0.1)": lambda: SBLRegressor(noise_ratio=0.1),
    "SBLRegressorCV()": lambda: SBLRegressorCV(),
    "WeightedLasso(alpha=0.1)": lambda: WeightedLasso(alpha=0.1),
}


def dense(rng, n_samples, n_features):
    X = rng.standard_normal((n_samples, n_features), dtype=np.float32)
    return X, 2.0 * X[:, 7] - X[:, 42]


def csr(rng, n_samples, n_features, stored):
    """Positive values at random places; a third of all columns holds nearly all of them."""
    columns = (n_features * rng.beta(0.7, 2.0, stored)).astype(np.int32)
    rows = rng.integers(0, n_samples, stored, dtype=np.int32)
    X = sparse.csr_array((rng.uniform(0.5, 2.0, stored), (rows, columns)), shape=(n_samples, n_features))
    X.sum_duplicates()
    return X, X[:, [7, 42, 99]] @ np.array([2.0, -1.0, 3.0])


DATA = {
    "dense 100 x 100,000 float32": lambda rng: dense(rng, 100, 100_000),
    "CSR 3,000 x 8,000, 10^6 stored": lambda rng: csr(rng, 3_000, 8_000, 1_050_000),
    "CSR 10,000 x 20,000, 10^6 stored": lambda rng: csr(rng, 10_000, 20_000, 1_010_000),
    "CSR 10,000 x 20,000, 10^7 stored": lambda rng: csr(rng, 10_000, 20_000, 10_700_000),
}


def size_of(X):
    return X.nbytes if isinstance(X, np.ndarray) else X.data.nbytes + X.indices.nbytes + X.indptr.nbytes


def one_fit(data, name):
    rng = np.random.default_rng(0)
    small = rng.standard_normal((60, 300), dtype=np.float32)
    small = small if data.startswith("dense") else sparse.csr_array(small.astype(float))
    ESTIMATORS[name]().fit(small, rng.standard_normal(60) + 3.0 * np.asarray(small[:, [1]].sum(axis=1)))
    X, y = DATA[data](rng)
    y = 3.0 + y + 0.3 * y.std() * rng.standard_normal(y.size)
    gc.collect()
    _forget_peak()
    before = _peak()
    clock = time.perf_counter()
    model = ESTIMATORS[name]().fit(X, y)
    seconds = time.perf_counter() - clock
    data_size, beside = size_of(X), _peak() - before
    print(
        f"| {data} | {name} | {data_size / 1e6:.1f} | {beside / 1e6:.1f} | {1 + beside / data_size:.2f} "
        f"| {seconds:.2f} | {np.count_nonzero(model.coef_)} |"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", choices=tuple(DATA), default=tuple(DATA))
    parser.add_argument("--estimator", nargs="+", choices=tuple(ESTIMATORS), default=tuple(ESTIMATORS))
    parser.add_argument("--alone", nargs=2, metavar=("DATA", "ESTIMATOR"), help="one fit, in this process")
    asked = parser.parse_args()
    if asked.alone:
        one_fit(*asked.alone)
        return
    print("| data | fit | data MB | beside them MB | in all | seconds | nonzero |")
    print("|---|---|---|---|---|---|---|", flush=True)
    for data in asked.data:
        for name in asked.estimator:
            alone = [sys.executable, __file__, "--alone", data, name]
            subprocess.run(alone, check=True, env={**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536"})


if __name__ == "__main__":
    main()
