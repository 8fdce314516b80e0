"""Problems with a known answer, and dictionaries made of digit images."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from .mnist import DigitImages

Design: TypeAlias = Literal["gaussian", "ar", "duplicated"]


@dataclass(frozen=True, repr=False)
class SparseRegression:
    """A regression problem and the sparse truth behind it.

    Attributes
    ----------
    dictionary : ndarray, shape (n_samples, n_features)
        The design, in Fortran order.
    y : ndarray, shape (n_samples,)
        ``dictionary @ coef`` plus noise.
    coef : ndarray, shape (n_features,)
        The true coefficients.
    support : ndarray of int, shape (n_nonzero,)
        Where they are nonzero, in increasing order.
    noise_variance : float
        Variance of the noise that was added.

    Examples
    --------
    >>> from fastsbl.datasets import make_sparse_regression
    >>> problem = make_sparse_regression(20, 50, n_nonzero=3, snr_db=None, rng=0)
    >>> problem.support.size, problem.noise_variance
    (3, 0.0)
    """

    dictionary: NDArray[np.float64]
    y: NDArray[np.float64]
    coef: NDArray[np.float64]
    support: NDArray[np.intp]
    noise_variance: float

    def __repr__(self) -> str:
        """Show the size, not the contents."""
        rows, columns = self.dictionary.shape
        return (
            f"SparseRegression({rows} x {columns}, {len(self.support)} nonzeros, "
            f"noise_variance={self.noise_variance:.3g})"
        )


class LabelledDictionary(NamedTuple):
    """A dictionary whose columns are images of known classes; unpacks as ``matrix, labels``.

    Attributes
    ----------
    matrix : ndarray, shape (n_pixels, n_columns)
        One image per column, scaled to unit norm, float64 in Fortran order.
    labels : ndarray of int, shape (n_columns,)
        The class of each column.

    Examples
    --------
    >>> from fastsbl.datasets import digits_dictionary
    >>> matrix, labels = digits_dictionary(per_class=5)
    >>> matrix.shape, labels[[0, -1]].tolist()
    ((64, 50), [0, 9])
    """

    matrix: NDArray[np.float64]
    labels: NDArray[np.int64]


def make_sparse_regression(
    n_samples: int = 100,
    n_features: int = 300,
    *,
    n_nonzero: int = 10,
    design: Design = "gaussian",
    correlation: float = 0.9,
    unit_norm: bool = False,
    positive: bool = False,
    snr_db: float | None = 20.0,
    rng: np.random.Generator | int | None = None,
) -> SparseRegression:
    """Draw a regression problem whose true coefficients are sparse.

    Parameters
    ----------
    n_samples, n_features : int
        Size of the dictionary.
    n_nonzero : int, default=10
        Number of nonzero coefficients: standard normal draws pushed one unit away from 0.
    design : {"gaussian", "ar", "duplicated"}, default="gaussian"
        "gaussian": independent standard normal entries. "ar": the same, with
        ``correlation^|i-j|`` as the correlation of columns i and j. "duplicated": the second half of the
        columns are exact copies of the first, and the truth uses the first (with an odd number of columns,
        the middle one has no copy).
    correlation : float, default=0.9
        Correlation of neighbouring columns, in (-1, 1); only "ar" reads it.
    unit_norm : bool, default=False
        Scale the columns to unit Euclidean norm.
    positive : bool, default=False
        Make the true coefficients positive.
    snr_db : float or None, default=20.0
        Ratio of the signal's energy to the expected noise energy, in decibels; None means no noise.
    rng : numpy Generator or int, optional
        Source of randomness, or a seed for one.

    Returns
    -------
    SparseRegression
        ``dictionary`` (n_samples, n_features), ``y`` (n_samples,), ``coef`` (n_features,), ``support`` and
        ``noise_variance``.

    Examples
    --------
    >>> import numpy as np
    >>> from fastsbl.datasets import make_sparse_regression
    >>> problem = make_sparse_regression(50, 200, n_nonzero=4, design="ar", unit_norm=True, rng=0)
    >>> problem.dictionary.shape, np.flatnonzero(problem.coef).size
    ((50, 200), 4)
    >>> bool(np.allclose(np.linalg.norm(problem.dictionary, axis=0), 1))
    True
    """
    for name, value in (("n_samples", n_samples), ("n_features", n_features)):
        if not isinstance(value, int | np.integer) or value < 1:
            raise ValueError(f"{name}: expected a whole number >= 1, got {value!r}")
    if design not in get_args(Design):
        raise ValueError(f"design: expected one of {get_args(Design)}, got {design!r}")
    if not -1 < correlation < 1:
        raise ValueError(f"correlation: expected a number between -1 and 1, exclusive, got {correlation!r}")
    n_distinct = (n_features + 1) // 2 if design == "duplicated" else n_features
    if not isinstance(n_nonzero, int | np.integer) or not 0 <= n_nonzero <= n_distinct:
        raise ValueError(f"n_nonzero: expected a whole number from 0 to {n_distinct}, got {n_nonzero!r}")
    if snr_db is not None and not np.isfinite(snr_db):
        raise ValueError(f"snr_db: expected a finite number, or None for no noise, got {snr_db!r}")

    generator = np.random.default_rng(rng)
    columns = generator.standard_normal((n_distinct, n_samples))  # one row per column: contiguous for the recursion
    if design == "ar":
        innovation = np.sqrt(1 - correlation**2)
        for j in range(1, n_distinct):
            columns[j] = correlation * columns[j - 1] + innovation * columns[j]
    elif design == "duplicated":
        columns = np.concatenate([columns, columns[: n_features - n_distinct]])
    dictionary = columns.T
    if unit_norm:
        dictionary = dictionary / np.linalg.norm(dictionary, axis=0)

    support = np.sort(generator.choice(n_distinct, n_nonzero, replace=False))
    values = generator.standard_normal(n_nonzero)
    values = np.sign(values) * (1 + np.abs(values))
    coef = np.zeros(n_features)
    coef[support] = np.abs(values) if positive else values

    signal = dictionary @ coef
    noise_variance = 0.0 if snr_db is None else float(signal @ signal) / n_samples * 10 ** (-snr_db / 10)
    noise = np.sqrt(noise_variance) * generator.standard_normal(n_samples)
    return SparseRegression(np.asfortranarray(dictionary), signal + noise, coef, support, noise_variance)


def load_small_digits() -> DigitImages:
    """Load the 8 x 8 digits bundled with scikit-learn in the form of `fetch_mnist`, with no file or network.

    Returns
    -------
    DigitImages
        1,437 training and 360 test images (the last fifth, written by other people), uint8, grey values 0
        to 16.

    Examples
    --------
    >>> from fastsbl.datasets import load_small_digits
    >>> load_small_digits()
    DigitImages(train_images=(1437, 8, 8), test_images=(360, 8, 8))
    """
    from sklearn.datasets import load_digits

    bundle = load_digits()
    images = bundle.images.astype(np.uint8)
    labels = bundle.target.astype(np.uint8)
    n_train = 1437
    return DigitImages(images[:n_train], labels[:n_train], images[n_train:], labels[n_train:])


def digits_dictionary(per_class: int = 100, *, seed: int = 0) -> LabelledDictionary:
    """Build a small dictionary, 64 x (10 per_class), from the training part of the bundled 8 x 8 digits.

    Parameters
    ----------
    per_class : int, default=100
        Images per digit.
    seed : int, default=0
        Seed of the choice of images.

    Returns
    -------
    LabelledDictionary
        ``matrix``, shape (64, 10 per_class), with unit columns, and ``labels``, shape (10 per_class,).

    Examples
    --------
    >>> from fastsbl.datasets import digits_dictionary
    >>> digits_dictionary().matrix.shape
    (64, 1000)
    """
    return mnist_dictionary(load_small_digits(), per_class, seed)


def choose_per_class(labels: NDArray[np.integer], per_class: int = 1_000, seed: int = 0) -> NDArray[np.intp]:
    """Draw ``per_class`` samples of each class, in the order of the classes: the columns of `mnist_dictionary`.

    Parameters
    ----------
    labels : array of shape (n_samples,)
        The class of each sample.
    per_class : int, default=1000
        Samples per class.
    seed : int, default=0
        Seed of the choice.

    Returns
    -------
    int array of shape (n_classes per_class,)
        Positions in ``labels``.

    Examples
    --------
    >>> import numpy as np
    >>> from fastsbl.datasets import choose_per_class
    >>> choose_per_class(np.array([1, 0, 1, 0, 1]), per_class=2).tolist()
    [1, 3, 0, 2]
    """
    if not isinstance(per_class, int | np.integer) or per_class < 1:
        raise ValueError(f"per_class: expected a whole number >= 1, got {per_class!r}")
    generator = np.random.default_rng(seed)
    chosen = []
    for digit in np.unique(labels):
        indices = np.flatnonzero(labels == digit)
        if len(indices) < per_class:
            raise ValueError(
                f"per_class: expected at most {len(indices)}, the number of training images of the digit "
                f"{digit}, got {per_class}"
            )
        chosen.append(generator.choice(indices, per_class, replace=False))
    return np.concatenate(chosen)


def mnist_dictionary(bunch: DigitImages, per_class: int = 1_000, seed: int = 0) -> LabelledDictionary:
    """Build the paper's dictionary: ``per_class`` training images of each digit, in digit order, unit norm.

    The images of a digit are drawn with ``numpy.random.default_rng(seed).choice(indices, per_class,
    replace=False)``, one generator for all digits in turn.

    Parameters
    ----------
    bunch : DigitImages
        What `fetch_mnist` (or `load_small_digits`) returns.
    per_class : int, default=1000
        Images per digit.
    seed : int, default=0
        Seed of the choice of images.

    Returns
    -------
    LabelledDictionary
        ``matrix``, shape (n_pixels, n_digits per_class): 784 x 10,000 for MNIST; float64, Fortran order. And
        ``labels``, shape (n_digits per_class,).

    Examples
    --------
    >>> from fastsbl.datasets import load_small_digits, mnist_dictionary
    >>> matrix, labels = mnist_dictionary(load_small_digits(), per_class=20)
    >>> matrix.shape, matrix.flags.f_contiguous, labels[:3].tolist()
    ((64, 200), True, [0, 0, 0])
    """
    columns = choose_per_class(bunch.train_labels, per_class, seed)
    images = bunch.train_images[columns].reshape(len(columns), -1).astype(np.float64)
    matrix = np.asfortranarray(images.T)
    norms = np.linalg.norm(matrix, axis=0)
    if not norms.all():
        raise ValueError(f"bunch: training image {columns[np.argmin(norms)]} is blank and cannot have unit norm")
    matrix /= norms
    return LabelledDictionary(matrix, bunch.train_labels[columns].astype(np.int64))
