"""Data sets of the comparison: each gives a matrix, a target and weights, as every package likes them best."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from fastsbl._base.types import FloatArray
from fastsbl.bench import judge

__all__ = ["DATA", "Problem", "load"]


@dataclass(eq=False)
class Problem:
    """A matrix, a target and weights.

    Attributes
    ----------
    key : str
        Name of the data set.
    title : str
        What it is and its size.
    matrix : array (column-major) or CSC matrix of shape (N, n)
        The features.
    y : array of shape (N,)
        The target, float64.
    weights : array of shape (n,) or None
        Weights of the penalty; None is all ones.
    """

    key: str
    title: str
    matrix: Any = field(repr=False)
    y: FloatArray = field(repr=False)
    weights: FloatArray | None = field(default=None, repr=False)

    @cached_property
    def lambda_max(self) -> float:
        """The smallest penalty whose lasso is zero."""
        sizes = np.abs(judge.correlations(self.matrix, self.y))
        return float(np.max(sizes if self.weights is None else sizes / self.weights))

    @cached_property
    def scaled(self) -> Any:
        """Columns divided by their weights, for packages without weights."""
        if self.weights is None:
            return self.matrix
        if judge.is_sparse(self.matrix):
            return sparse.csc_matrix(self.matrix @ sparse.diags_array(1.0 / self.weights))
        return np.asfortranarray(self.matrix / self.weights.astype(self.matrix.dtype))

    @property
    def shape(self) -> tuple[int, int]:
        """Samples and features."""
        return self.matrix.shape[0], self.matrix.shape[1]

    @property
    def nbytes(self) -> int:
        """Bytes of the matrix."""
        if judge.is_sparse(self.matrix):
            return int(self.matrix.data.nbytes + self.matrix.indices.nbytes + self.matrix.indptr.nbytes)
        return int(self.matrix.nbytes)


def _titled(name: str, matrix: Any) -> str:
    kind = "float32, " if matrix.dtype == np.float32 else ""
    if judge.is_sparse(matrix):
        kind += f"{matrix.nnz / (matrix.shape[0] * matrix.shape[1]):.2g} stored, "
    return f"{name} ({kind}{matrix.shape[0]:,} x {matrix.shape[1]:,})"


def _mnist(quick: bool, *, weighted: bool = False, every: int = 1) -> Problem:
    from fastsbl.datasets import digits_dictionary, fetch_mnist, load_small_digits, mnist_dictionary

    try:
        bunch = fetch_mnist()
        name, matrix = "MNIST", mnist_dictionary(bunch).matrix
    except FileNotFoundError:
        bunch, matrix = load_small_digits(), digits_dictionary().matrix
        name = "scikit-learn's digits, MNIST is not here"
    y = bunch.test_images[7].ravel().astype(np.float64)
    matrix = np.asfortranarray(matrix[:, ::every])
    weights: FloatArray | None = None
    if weighted:
        weights = np.random.default_rng(0).uniform(0.3, 1.0, size=int(matrix.shape[1]))
    key = "mnist-weighted" if weighted else "mnist" if every == 1 else "mnist-small"
    name += ", weights U(.3, 1)" if weighted else ""
    return Problem(key, _titled(name, matrix), matrix, np.asarray(y / np.linalg.norm(y)), weights)


def _nytimes(quick: bool) -> Problem:
    from fastsbl.datasets import fetch_bag_of_words, make_zipf_corpus

    try:
        counts = fetch_bag_of_words("nyt8447").counts.astype(np.float64)  # documents x words
        name = "New York Times counts"
    except FileNotFoundError:
        counts = sparse.csr_array(make_zipf_corpus(3012, 8447, rng=0).counts.astype(np.float64))
        name = "Zipf corpus, the New York Times counts are not here"
    matrix = sparse.csc_matrix(counts[1:].T)
    y = counts[[0]].toarray().ravel()  # the first document is the target, the others are the columns
    return Problem("nytimes", _titled(name, matrix), matrix, y)


def _psf(quick: bool) -> Problem:
    from fastsbl.imaging import make_starfield, sample_source_dictionary

    field_ = make_starfield((28, 28), 4, snr_db=15.0, rng=0)
    matrix = sample_source_dictionary((28, 28), 2_000 if quick else 10_000, rng=0, storage="dense").matrix
    matrix = np.asfortranarray(matrix)
    matrix /= np.linalg.norm(matrix, axis=0)
    y = np.asarray(field_.image, dtype=np.float64).ravel()
    return Problem("psf", _titled("point sources", matrix), matrix, y)


def _simulated(key: str, name: str, matrix: Any, n_used: int, noise: float = 0.1) -> Problem:
    """A target made of ``n_used`` columns with normal coefficients, and noise of ``noise`` times its length."""
    rng = np.random.default_rng(1)
    n_samples, n_features = matrix.shape
    used = np.sort(rng.choice(n_features, n_used, replace=False))
    signal = judge.columns_of(matrix, used) @ rng.standard_normal(n_used)
    error = rng.standard_normal(n_samples)
    y = signal + noise * np.linalg.norm(signal) / np.linalg.norm(error) * error
    return Problem(key, _titled(name, matrix), matrix, y)


def _gaussian(key: str, n_samples: int, n_features: int, dtype: Any = np.float64) -> Problem:
    matrix = np.random.default_rng(0).standard_normal((n_features, n_samples), dtype=dtype).T
    return _simulated(key, "Gaussian", matrix, max(n_samples // 20, 5))


def _ar99(quick: bool) -> Problem:
    rng = np.random.default_rng(0)
    n_samples, n_features = (200, 2_000) if quick else (500, 20_000)
    rows = rng.standard_normal((n_features, n_samples))
    for j in range(1, n_features):
        rows[j] = 0.99 * rows[j - 1] + np.sqrt(1 - 0.99**2) * rows[j]
    return _simulated("ar99", "neighbours correlated .99", rows.T, 20)


def _tall(quick: bool) -> Problem:
    n_samples, n_features = (20_000, 100) if quick else (100_000, 500)
    matrix = np.random.default_rng(0).standard_normal((n_features, n_samples)).T
    matrix += 0.5 * matrix[:, [0]]  # correlated, so that more than one step is needed
    return _simulated("tall", "tall", np.asfortranarray(matrix), 50, noise=1.0)


def _wide(quick: bool) -> Problem:
    n_samples, n_features = (5_000, 100_000) if quick else (20_000, 1_000_000)
    rng = np.random.default_rng(0)
    each = np.maximum(rng.poisson(1e-4 * n_samples, n_features), 1)
    indptr = np.concatenate([[0], np.cumsum(each)]).astype(np.int32)
    indices = rng.integers(0, n_samples, indptr[-1], dtype=np.int32)
    matrix = sparse.csc_matrix((rng.standard_normal(indptr[-1]), indices, indptr), shape=(n_samples, n_features))
    matrix.sum_duplicates()
    return _simulated("wide", "sparse wide", matrix, 1_000)


def _kernel(quick: bool) -> Problem:
    rng = np.random.default_rng(0)
    points = np.sort(rng.uniform(-10, 10, 120 if quick else 500))
    matrix = np.asfortranarray(np.exp(-0.5 * (points[:, None] - points) ** 2))
    y = np.sinc(points / np.pi) + 0.1 * rng.standard_normal(points.size)
    return Problem("kernel", _titled("Gaussian kernel on noisy sinc", matrix), matrix, y)


DATA: dict[str, Callable[[bool], Problem]] = {
    "mnist": _mnist,
    "mnist-weighted": lambda quick: _mnist(quick, weighted=True),
    "mnist-small": lambda quick: _mnist(quick, every=10),
    "nytimes": _nytimes,
    "psf": _psf,
    "gaussian-1e3": lambda quick: _gaussian("gaussian-1e3", 200, 1_000),
    "gaussian-1e4": lambda quick: _gaussian("gaussian-1e4", 200, 10_000),
    "gaussian-5e4": lambda quick: _gaussian("gaussian-5e4", 1_000, 50_000),
    "gaussian-1e5": lambda quick: _gaussian("gaussian-1e5", 200, 100_000),
    "gaussian-1e5-float32": lambda quick: _gaussian("gaussian-1e5-float32", 200, 100_000, np.float32),
    "gaussian-1e6-float32": lambda quick: _gaussian("gaussian-1e6-float32", 200, 1_000_000, np.float32),
    "ar99": _ar99,
    "tall": _tall,
    "wide": _wide,
    "kernel": _kernel,
}


def load(key: str, *, quick: bool = False) -> Problem:
    """Make one of the data sets; ``quick`` makes the larger ones smaller."""
    return DATA[key](quick)
