"""What a sparse Bayesian fit costs by itself: passes over many targets, batches, growth with n."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from fastsbl._base.types import FloatArray
from fastsbl.bench import judge

__all__ = ["Cost", "batch", "growth", "many_targets"]

RATIOS = (0.01, 0.05, 0.1, 0.3, 0.5)


@dataclass(frozen=True)
class Cost:
    """One number about ours alone.

    Attributes
    ----------
    what : str
        What was done.
    ratio : float
        lambda / lambda_max.
    passes, most_passes : float or None
        Median and largest number of reads of the dictionary.
    seconds : float
        Median time of one fit.
    products : float
        The same in times of one product, timed in turn.
    note : str
        Sizes, outer iterations.
    """

    what: str
    ratio: float
    seconds: float
    products: float
    passes: float | None = None
    most_passes: float | None = None
    note: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)


def _clock(task: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    answer = task()
    return time.perf_counter() - start, answer


def _digits(count: int) -> tuple[str, FloatArray, FloatArray]:
    """A dictionary of digits and test images of unit length as columns."""
    from fastsbl.datasets import digits_dictionary, fetch_mnist, load_small_digits, mnist_dictionary

    try:
        bunch = fetch_mnist()
        name, matrix = "MNIST", mnist_dictionary(bunch).matrix
    except FileNotFoundError:
        bunch, matrix = load_small_digits(), digits_dictionary().matrix
        name = "scikit-learn's digits"
    images = bunch.test_images[:count].reshape(-1, matrix.shape[0]).T.astype(np.float64)
    return name, matrix, np.asfortranarray(images / np.linalg.norm(images, axis=0))


def _product(matrix: FloatArray, vector: FloatArray) -> float:
    return min(_clock(lambda: matrix.T @ vector)[0] for _ in range(5))


def many_targets(count: int) -> list[Cost]:
    """Fit many digits one by one, each with a fresh dictionary."""
    from fastsbl.dictionary import as_dictionary
    from fastsbl.sbl import fit_sbl

    name, matrix, images = _digits(count)
    fit_sbl(matrix, images[:, 0], 0.1, init="unit")  # compile
    largest = np.abs(matrix.T @ images).max(axis=0)
    costs = []
    for ratio in RATIOS:
        seconds, units, passes, steps = [], [], [], []
        for k in range(images.shape[1]):
            y, lam = np.ascontiguousarray(images[:, k]), float(ratio * largest[k])
            unit = _product(matrix, y)
            phi = as_dictionary(matrix)
            spent, result = _clock(lambda: fit_sbl(phi, y, lam, init="unit"))  # noqa: B023 (called at once)
            seconds.append(spent)
            units.append(spent / min(unit, _product(matrix, y)))
            passes.append(phi.passes)
            steps.append(result.n_iter)
        costs.append(
            Cost(
                f"{name}, {images.shape[1]} digits one by one",
                ratio,
                float(np.median(seconds)),
                float(np.median(units)),
                float(np.median(passes)),
                float(np.max(passes)),
                f"{np.median(steps):.0f} outer iterations",
            )
        )
    return costs


def batch(count: int, ratio: float = 0.1) -> list[Cost]:
    """Fit many digits against one dictionary at once; costs are per digit."""
    from fastsbl.dictionary import as_dictionary
    from fastsbl.sbl import fit_sbl_batch

    name, matrix, images = _digits(count)
    lam = ratio * np.abs(matrix.T @ images).max(axis=0)
    jobs = os.cpu_count() or 1  # one BLAS thread, on every core
    fit_sbl_batch(matrix, images[:, :2], lam[:2], init="unit", n_jobs=jobs)  # compile
    unit = _product(matrix, images[:, 0])
    phi = as_dictionary(matrix)
    spent, results = _clock(lambda: fit_sbl_batch(phi, images, lam, init="unit", n_jobs=jobs))
    unit = min(unit, _product(matrix, images[:, 0]))
    each = spent / len(results)
    what = f"{name}, batch of {len(results)} digits on {jobs} cores, each"
    return [Cost(what, ratio, each, each / unit, phi.passes / len(results))]


def growth(largest: int, n_samples: int = 200, ratio: float = 0.3, seeds: int = 3) -> tuple[list[Cost], float | None]:
    """Fit Gaussian problems of growing size; the slope of log time against log n as well (float32 above 10^5)."""
    from fastsbl.dictionary import as_dictionary
    from fastsbl.sbl import fit_sbl

    costs = []
    sizes = [n for n in (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000) if n <= largest]
    for n_features in sizes:
        seconds, units, passes = [], [], []
        dtype: Any = np.float32 if n_features > 100_000 else np.float64
        for seed in range(seeds):
            rng = np.random.default_rng(seed)
            phi = rng.standard_normal((n_features, n_samples), dtype=dtype).T
            y = phi[:, :10] @ (1.0 + np.abs(rng.standard_normal(10))) + rng.standard_normal(n_samples)
            lam = ratio * float(np.max(judge.correlations(phi, y) ** 2 / judge.squared_norms(phi)))
            fit_sbl(phi[:, :1000], y, lam)  # compile
            counted = as_dictionary(phi)
            spent, _ = _clock(lambda: fit_sbl(counted, y, lam))  # noqa: B023 (called at once)
            seconds.append(spent)
            units.append(spent / _product(phi, y.astype(dtype)))
            passes.append(counted.passes)
        kind = "float32" if dtype == np.float32 else "float64"
        costs.append(
            Cost(
                f"Gaussian {n_samples} x {n_features:,}, {kind}, start from zero",
                ratio,
                float(np.median(seconds)),
                float(np.median(units)),
                float(np.median(passes)),
                float(np.max(passes)),
            )
        )
    if len(sizes) < 2:
        return costs, None
    slope = np.polyfit(np.log(sizes), np.log([cost.seconds for cost in costs]), 1)[0]
    return costs, float(slope)
