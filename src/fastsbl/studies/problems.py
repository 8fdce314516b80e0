"""The dictionaries and targets of the paper's Section 3, and small ones that need no download."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from scipy import sparse

from fastsbl._base.types import FloatArray
from fastsbl.datasets import (
    fetch_bag_of_words,
    fetch_mnist,
    load_small_digits,
    make_sparse_regression,
    make_zipf_corpus,
    mnist_dictionary,
)

__all__ = ["DATA", "Data", "Problem", "Scaling", "make_problem"]

Data: TypeAlias = Literal["mnist", "nytimes", "zipf", "digits", "simulated"]
DATA: tuple[str, ...] = get_args(Data)
Scaling: TypeAlias = Literal["unit", "raw"]

_LARGE_CORPUS = (5_000, 50_000)  # the paper's words and documents


@dataclass(frozen=True)
class Problem:
    """A dictionary and targets that are not among its columns.

    Attributes
    ----------
    matrix : array or CSC array of shape (N, n)
        Phi.
    targets : array of shape (T, N)
        One target per row.
    label : str
        What it is, for titles: data, size, scaling.
    """

    matrix: Any
    targets: FloatArray
    label: str


def make_problem(
    data: str,
    *,
    n_targets: int,
    scaling: str = "unit",
    seed: int = 0,
    n_rows: int | None = None,
    n_columns: int | None = None,
) -> Problem:
    """Make the dictionary and the targets of one set-up.

    Parameters
    ----------
    data : {"mnist", "nytimes", "zipf", "digits", "simulated"}
        "mnist": 1,000 training images of each digit as columns (784 x 10,000), targets from the test set. "nytimes":
        documents as columns over words; 50,000 documents over 5,000 words drawn at random from the UCI corpus where it
        is at hand (it is not downloaded), else all of its 8,447-document part; targets are documents left out of Phi.
        "zipf": the same from a simulated corpus (5,000 words, 50,000 documents). "digits": 100 columns of each of the
        small digits that come with scikit-learn. "simulated": independent normal columns, targets with 10
        coefficients and noise 20 dB below.
    n_targets : int
        Targets, drawn at random.
    scaling : {"unit", "raw"}
        Columns and targets of unit norm, or, for counts and simulated columns, as they are.
    seed : int
        Of every random choice.
    n_rows, n_columns : int, optional
        Another size: columns of any data set, rows of "simulated" and of the corpora (words).

    Examples
    --------
    >>> from fastsbl.studies.problems import make_problem
    >>> problem = make_problem("digits", n_targets=3)
    >>> problem.matrix.shape, problem.targets.shape, problem.label
    ((64, 1000), (3, 64), 'small digits, 64 x 1000, unit norm')
    """
    if scaling not in get_args(Scaling):
        raise ValueError(f"scaling must be one of {', '.join(map(repr, get_args(Scaling)))}; got {scaling!r}")
    if data in ("mnist", "digits"):
        matrix, targets, name = _digits(data, n_targets, seed, n_columns)
    elif data in ("nytimes", "zipf"):
        matrix, targets, name = _corpus(data, n_targets, seed, n_rows, n_columns)
    elif data == "simulated":
        matrix, targets, name = _simulated(n_targets, seed, n_rows or 100, n_columns or 1_000)
    else:
        raise ValueError(f"data must be one of {', '.join(map(repr, DATA))}; got {data!r}")
    if scaling == "raw" and data in ("mnist", "digits"):
        raise ValueError(f"scaling must be 'unit' for images ({data!r}), as in the paper; got 'raw'")
    if scaling == "unit":
        targets = targets / np.linalg.norm(targets, axis=1, keepdims=True)
        matrix = _unit_columns(matrix)
    kind = {"unit": "unit norm", "raw": "raw counts" if data in ("nytimes", "zipf") else "raw values"}[scaling]
    label = f"{name}, {matrix.shape[0]} x {matrix.shape[1]}, {kind}"
    return Problem(matrix, np.ascontiguousarray(targets, dtype=np.float64), label)


def _digits(data: str, n_targets: int, seed: int, n_columns: int | None) -> tuple[Any, FloatArray, str]:
    images = fetch_mnist() if data == "mnist" else load_small_digits()
    per_class = (n_columns or (10_000 if data == "mnist" else 1_000)) // 10
    matrix = mnist_dictionary(images, max(per_class, 1), seed).matrix
    test = images.test_images.reshape(len(images.test_images), -1)
    chosen = _choose(np.random.default_rng([seed, 1]), np.arange(len(test)), n_targets)
    return matrix, test[chosen].astype(np.float64), "MNIST" if data == "mnist" else "small digits"


def _corpus(
    data: str, n_targets: int, seed: int, n_rows: int | None, n_columns: int | None
) -> tuple[Any, FloatArray, str]:
    rng = np.random.default_rng(seed)
    if data == "zipf":
        words, documents = n_rows or _LARGE_CORPUS[0], n_columns or _LARGE_CORPUS[1]
        counts = make_zipf_corpus(words, documents + n_targets, rng=rng).counts
        name = "simulated corpus"
    else:
        try:
            counts = fetch_bag_of_words("nytimes", download_if_missing=False).counts
            words, documents = n_rows or _LARGE_CORPUS[0], n_columns or _LARGE_CORPUS[1]
            name = "New York Times"
        except FileNotFoundError as error:
            counts, name = _smaller_corpus(error), "New York Times (8,447 documents)"
            words, documents = n_rows or counts.shape[1], n_columns or counts.shape[0] - n_targets
    if words < counts.shape[1]:
        counts = counts[:, np.sort(rng.choice(counts.shape[1], words, replace=False))]
    lengths = np.asarray(counts.sum(axis=1)).ravel()
    usable = np.flatnonzero(lengths > 0)  # documents without any of the words
    documents = min(documents, usable.size - n_targets)
    chosen = _choose(rng, usable, documents + n_targets)
    targets = counts[chosen[:n_targets]].toarray().astype(np.float64)
    matrix = sparse.csc_array(counts[np.sort(chosen[n_targets:])].T.astype(np.float64))
    matrix.sort_indices()
    return matrix, targets, name


def _smaller_corpus(missing: FileNotFoundError) -> Any:
    try:
        return fetch_bag_of_words("nyt8447").counts
    except FileNotFoundError:
        raise FileNotFoundError(f"{missing}. Without it, data 'zipf' is a simulated corpus of the same kind") from None


def _simulated(n_targets: int, seed: int, n_rows: int, n_columns: int) -> tuple[Any, FloatArray, str]:
    first = make_sparse_regression(n_rows, n_columns, n_nonzero=0, snr_db=None, rng=seed)
    rng = np.random.default_rng([seed, 1])
    targets = np.empty((n_targets, n_rows))
    for k in range(n_targets):
        chosen = rng.choice(n_columns, min(10, n_columns), replace=False)
        signal = first.dictionary[:, chosen] @ rng.standard_normal(chosen.size)
        noise = rng.standard_normal(n_rows)
        targets[k] = signal + 0.1 * np.linalg.norm(signal) / np.linalg.norm(noise) * noise
    return first.dictionary, targets, "simulated"


def _choose(rng: np.random.Generator, among: Any, count: int) -> Any:
    if not 0 < count <= among.size:
        raise ValueError(f"targets and columns must be between 1 and {among.size} in all, got {count}")
    return rng.choice(among, count, replace=False)


def _unit_columns(matrix: Any) -> Any:
    if isinstance(matrix, np.ndarray):
        return np.asfortranarray(matrix / np.linalg.norm(matrix, axis=0))
    norms = np.sqrt(np.asarray(matrix.multiply(matrix).sum(axis=0)).ravel())
    data = matrix.data / np.repeat(norms, np.diff(matrix.indptr))
    return sparse.csc_array((data, matrix.indices, matrix.indptr), shape=matrix.shape)
